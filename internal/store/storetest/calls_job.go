package storetest

import "github.com/checkpointd/checkpointd/internal/coordinator"

// The calls of this file are about jobs as a whole.

// middle is the jitter of calls that do not care where in an interval a schedule begins.
const middle = 0.5

func (r *rig) putCall(settings coordinator.JobSettings) coordinator.PutJobCall {
	settings.NamedTasks = len(settings.Tasks)
	return coordinator.PutJobCall{Job: r.job, Settings: settings, Defaults: r.defaults, Jitter: middle}
}

// putJob replaces the job's settings.
func (r *rig) putJob(settings coordinator.JobSettings) coordinator.PutJobResult {
	r.t.Helper()
	result, err := r.store.PutJob(r.t.Context(), r.putCall(settings))
	r.check("put job", err)
	return result
}

// jobState reads the job whole.
func (r *rig) jobState() coordinator.JobState {
	r.t.Helper()
	state, err := r.store.Job(r.t.Context(), r.job)
	r.check("job", err)
	return state
}

func (r *rig) dueCall() coordinator.DueCall {
	return coordinator.DueCall{Job: r.job, Defaults: r.defaults, Jitter: middle, Token: r.token()}
}

// tick asks for a checkpoint if the schedule says so, as every replica does.
func (r *rig) tick() coordinator.DueResult {
	r.t.Helper()
	result, err := r.store.TriggerIfDue(r.t.Context(), r.dueCall())
	r.check("trigger if due", err)
	return result
}

func (r *rig) deleteJobCall(force bool) coordinator.DeleteJobCall {
	return coordinator.DeleteJobCall{Job: r.job, Force: force, Max: coordinator.CleanupStep}
}

// deleteJob removes the job, in as many steps as that takes.
func (r *rig) deleteJob(force bool) {
	r.t.Helper()
	for {
		result, err := r.store.DeleteJob(r.t.Context(), r.deleteJobCall(force))
		r.check("delete job", err)
		if !result.More {
			return
		}
	}
}

func (r *rig) forgetTask(task string) {
	r.t.Helper()
	r.check("forget task", r.store.ForgetTask(r.t.Context(), r.job, task))
}

func (r *rig) history() coordinator.History {
	r.t.Helper()
	history, err := r.store.History(r.t.Context(), r.job)
	r.check("history", err)
	return history
}

// decline ends a pending checkpoint as failed, by a task's word.
func (r *rig) decline(id int64, task string) coordinator.Checkpoint {
	r.t.Helper()
	c, err := r.store.Abort(r.t.Context(), coordinator.AbortCall{Job: r.job, ID: id, TaskID: task, Token: r.token()})
	r.check("decline", err)
	return c
}

func (r *rig) events(after coordinator.EventID, limit int) coordinator.EventsResult {
	r.t.Helper()
	result, err := r.store.Events(r.t.Context(), coordinator.EventsCall{Job: r.job, After: &after, Limit: limit})
	r.check("events", err)
	return result
}

// position reads where the job's log ends.
func (r *rig) position() coordinator.EventID {
	r.t.Helper()
	result, err := r.store.Events(r.t.Context(), coordinator.EventsCall{Job: r.job, Limit: coordinator.MaxEvents})
	r.check("events", err)
	if len(result.Events) > 0 || result.Gap {
		r.t.Errorf("asked for its position, the log answers %d events, gap %v", len(result.Events), result.Gap)
	}
	return result.Position
}

// eventsAfter reads all pages of what follows a place in the job's log.
func (r *rig) eventsAfter(place coordinator.EventID) []coordinator.Event {
	r.t.Helper()
	var all []coordinator.Event
	for {
		page := r.events(place, coordinator.MaxEvents)
		if page.Gap {
			r.t.Fatalf("there is a gap after %v, where the log should go on", place)
		}
		for _, e := range page.Events {
			if e.ID.Compare(place) <= 0 {
				r.t.Fatalf("event %v stands behind %v", e.ID, place)
			}
			place = e.ID
		}
		all = append(all, page.Events...)
		if len(page.Events) == 0 {
			equal(r.t, "the last event read", place, page.Position)
			return all
		}
	}
}
