package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testDeleteJob(t *testing.T, s suite) {
	refused := func(r *rig, want coordinator.Code, options ...func(*coordinator.DeleteJobCall)) {
		r.t.Helper()
		call := r.deleteJobCall(false)
		for _, option := range options {
			option(&call)
		}
		_, err := r.store.DeleteJob(r.t.Context(), call)
		r.refused(err, want)
	}
	ifMatch := func(tag string) func(*coordinator.DeleteJobCall) {
		return func(c *coordinator.DeleteJobCall) { c.If.IfMatch = []string{tag} }
	}
	s.rule(t, "a job that is deleted is unknown, with all its checkpoints", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.uploadAndAck(orders.trigger().ID, "a", bigPart("a", 2*coordinator.ChunkBytes))
		orders.aborted()
		orders.putJob(coordinator.JobSettings{Tasks: names(1500)})
		c := orders.trigger(named(names(1200)...))
		orders.shared(c.ID, "k", "1")
		orders.complete(c.ID, true)
		orders.deleteJob(false)
		for range 2 {
			refused(orders, coordinator.CodeJobNotFound)
			orders.getRefused(coordinator.CodeJobNotFound, c.ID)
			orders.getRefused(coordinator.CodeJobNotFound, coordinator.Latest)
			_, err := orders.store.Job(t.Context(), "orders")
			r.refused(err, coordinator.CodeJobNotFound)
			_, err = orders.store.History(t.Context(), "orders")
			r.refused(err, coordinator.CodeJobNotFound)
			_, err = orders.store.Events(t.Context(), coordinator.EventsCall{Job: "orders", Limit: 1})
			r.refused(err, coordinator.CodeJobNotFound)
			_, err = orders.store.TriggerIfDue(t.Context(), orders.dueCall())
			r.refused(err, coordinator.CodeJobNotFound)
			_, err = orders.store.Acknowledge(t.Context(), orders.ackCall(c.ID, item("a")))
			r.refused(err, coordinator.CodeJobNotFound)
			equal(t, "jobs", len(r.jobs()), 1)
			r.reopen()
		}
	})
	s.rule(t, "who followed a deleted job is told of its end", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		c := orders.trigger()
		mark := orders.position()
		orders.deleteJob(true)
		rest, err := orders.store.Events(t.Context(), coordinator.EventsCall{Job: "orders", After: &mark, Limit: 10})
		r.check("events", err)
		if len(rest.Events) != 3 || rest.Events[0].Type != coordinator.EventAborted || rest.Events[1].Type != coordinator.EventDeleted || rest.Events[1].CheckpointID != c.ID ||
			rest.Events[2].Type != coordinator.EventJobDeleted {
			t.Fatalf("the end of the job is told as %+v", rest)
		}
		end := rest.Events[2].ID
		for _, after := range []coordinator.EventID{end, {Epoch: 7, Seq: 1}} {
			_, err := orders.store.Events(t.Context(), coordinator.EventsCall{Job: "orders", After: &after, Limit: 1})
			r.refused(err, coordinator.CodeJobNotFound)
		}
	})
	s.rule(t, "an unknown job cannot be deleted, with or without force", func(t *testing.T, r *rig) {
		refused(r.in("typo"), coordinator.CodeJobNotFound)
		refused(r.in("typo"), coordinator.CodeJobNotFound, func(c *coordinator.DeleteJobCall) { c.Force = true })
		refused(r.in("typo"), coordinator.CodeJobNotFound, ifMatch("*"))
	})
	s.rule(t, "without force it must have neither pinned checkpoints nor pending ones, in this order, after the precondition", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{})
		kept, open := r.completed(pinned()), r.trigger()
		mark := r.position()
		refused(r, coordinator.CodePreconditionFailed, ifMatch("0-0"))
		refused(r, coordinator.CodePinned, ifMatch("1"))
		refused(r, coordinator.CodePinned)
		r.pin(kept.ID, false)
		refused(r, coordinator.CodeCheckpointNotCompleted)
		r.wantKinds(mark, kind(coordinator.EventUpdated, kept.ID))
		r.abort(open.ID)
		r.deleteJob(false)
		r.getRefused(coordinator.CodeCheckpointDeleted, kept.ID)
	})
	s.rule(t, "pinned is pinned in any status", func(t *testing.T, r *rig) {
		gone := r.aborted(pinned())
		refused(r, coordinator.CodePinned)
		r.pin(gone.ID, false)
		r.trigger(pinned())
		refused(r, coordinator.CodePinned)
	})
	s.rule(t, "pendings past their deadline do not stand in the way, and end as expired", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(10))
		mark := r.position()
		r.clock.Advance(11)
		r.defaults.TolerableFailures = 9
		r.putJob(coordinator.JobSettings{})
		r.deleteJob(false)
		got := r.wantKinds(mark, kind(coordinator.EventConfigured, -1),
			kind(coordinator.EventExpired, c.ID), kind(coordinator.EventDeleted, c.ID), kind(coordinator.EventJobDeleted, -1))
		equal(t, "status at last", got[2].Status, coordinator.StatusExpired)
		equal(t, "why", got[2].Why, coordinator.DeletedByRequest)
	})
	s.rule(t, "a precondition goes by the tag of the settings, and force does not pass it", func(t *testing.T, r *rig) {
		force := func(c *coordinator.DeleteJobCall) { c.Force = true }
		orders := r.in("orders")
		orders.trigger()
		refused(orders, coordinator.CodePreconditionFailed, force, ifMatch("*"))
		state := orders.putJob(coordinator.JobSettings{}).State
		tag := state.Tag()
		refused(orders, coordinator.CodePreconditionFailed, force, ifMatch(tag+"0"))
		call := orders.deleteJobCall(true)
		call.If.IfMatch = []string{tag}
		_, err := orders.store.DeleteJob(t.Context(), call)
		r.check("delete job", err)
		orders.getRefused(coordinator.CodeJobNotFound, 0)
	})
	s.rule(t, "with force pinned ones go, and pending ones are aborted by request first", func(t *testing.T, r *rig) {
		kept, open := r.completed(pinned()), r.trigger(requires(2))
		r.accept(open.ID, "a", with(bigPart("a", 2*coordinator.ChunkBytes)))
		mark := r.position()
		r.clock.Advance(5)
		r.deleteJob(true)
		got := r.wantKinds(mark, kind(coordinator.EventDeleted, kept.ID), kind(coordinator.EventAborted, open.ID),
			kind(coordinator.EventDeleted, open.ID), kind(coordinator.EventJobDeleted, -1))
		want := &coordinator.Failure{Reason: coordinator.ReasonAborted}
		if diff := cmp.Diff(want, got[1].Failure); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
		equal(t, "acknowledged", got[1].AcknowledgedTasks, 1)
		equal(t, "why", got[2].Why, coordinator.DeletedByRequest)
		equal(t, "status at last", got[2].Status, coordinator.StatusAborted)
		for _, id := range []int64{kept.ID, open.ID} {
			if why := r.seen.deletionOf(r.job, id); len(why) != 1 || why[0] != coordinator.DeletedByRequest {
				t.Errorf("reported deletions of %d = %q", id, why)
			}
		}
		equal(t, "reported ends", len(r.seen.endOf(r.job, open.ID)), 1)
	})
	s.rule(t, "a leased checkpoint goes too, and its restore breaks off", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		source := orders.openRestore(orders.restoreCall(orders.completed().ID))
		orders.recover("")
		orders.deleteJob(false)
		if err := source.Renew(t.Context()); err == nil {
			t.Error("the lease of a restore was renewed in a job that is gone")
		}
		orders.getRefused(coordinator.CodeJobNotFound, 0)
	})
	s.rule(t, "each step removes as many checkpoints as it may, the oldest first, whatever their status", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.putJob(coordinator.JobSettings{Description: "d"})
		ids := []int64{orders.completed().ID, orders.aborted().ID, orders.trigger().ID, orders.completed(pinned()).ID, orders.trigger().ID}
		call := orders.deleteJobCall(true)
		call.Max = 2
		for step := 0; ; step++ {
			result, err := orders.store.DeleteJob(t.Context(), call)
			r.check("delete job", err)
			if !result.More {
				break
			}
			left := ids[min(len(ids), 2*(step+1)):]
			got := orders.list(coordinator.ListCall{})
			equal(t, "checkpoints left", len(got), len(left))
			for i, id := range got {
				equal(t, "one that is left", id, left[len(left)-1-i])
			}
			equal(t, "description between the steps", orders.jobState().Settings.Description, "d")
			if step > len(ids) {
				t.Fatal("the steps do not end")
			}
		}
		orders.getRefused(coordinator.CodeJobNotFound, ids[0])
		for _, id := range ids {
			equal(t, "reported deletions", len(r.seen.deletionOf("orders", id)), 1)
		}
	})
	s.rule(t, "a job that comes back goes on with its ids, epoch, attempts, revisions and events", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.recover("crash")
		keyed := orders.trigger(withKey("k", "body"))
		orders.accept(keyed.ID, "z", attempt(5))
		old := orders.completed()
		orders.declined()
		revision := orders.putJob(coordinator.JobSettings{Tasks: names(3)}).State.Revision
		before := orders.jobState()
		orders.deleteJob(true)
		r.reopen()
		c := orders.trigger()
		if c.ID <= old.ID {
			t.Errorf("id %d was given after %d", c.ID, old.ID)
		}
		equal(t, "epoch", c.Epoch, 1)
		_ = orders.ackRefused(coordinator.CodeStaleAttempt, c.ID, "z", attempt(4))
		orders.getRefused(coordinator.CodeCheckpointDeleted, old.ID)
		_, err := orders.store.Trigger(t.Context(), orders.triggerCall(withKey("k", "body")))
		r.refused(err, coordinator.CodeIdempotencyTargetDeleted)
		equal(t, "epoch of an earlier crash", orders.recover("crash").Epoch, 1)
		got := orders.eventsAfter(before.LastEvent)
		if len(got) == 0 {
			t.Fatal("the log has nothing about the deletion")
		}
		for i, e := range got {
			equal(t, "event id", e.ID, coordinator.EventID{Epoch: 1, Seq: before.LastEvent.Seq + int64(i) + 1})
		}
		equal(t, "the newest event", got[len(got)-1].CheckpointID, c.ID)
		state := orders.jobState()
		equal(t, "configured", state.Configured, false)
		if state.Revision <= revision {
			t.Errorf("revision %d after the deletion, was %d", state.Revision, revision)
		}
		if again := orders.putJob(coordinator.JobSettings{}); !again.Created || again.State.Revision <= state.Revision {
			t.Errorf("created %v with revision %d, want a new one above %d", again.Created, again.State.Revision, state.Revision)
		}
	})
	s.rule(t, "nothing else of it comes back", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.beginSchedule(every(1000))
		r.clock.Advance(1)
		orders.tickMakes()
		orders.completed()
		orders.declined()
		orders.recordRestore(coordinator.RestoreRecord{Bytes: 1})
		orders.deleteJob(true)
		orders.recover("")
		want := coordinator.JobState{Job: "orders", LatestID: -1, Schedule: coordinator.ScheduleState{LastID: -1}}
		ignored := cmpopts.IgnoreFields(coordinator.JobState{}, "Epoch", "NextID", "Revision", "LastEvent", "ObservedAt")
		for what, state := range map[string]coordinator.JobState{"the job": orders.jobState(), "among all jobs": orders.state()} {
			if diff := cmp.Diff(want, state, ignored); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		got := orders.history()
		if got.Counts != (coordinator.Counts{}) || len(got.Samples) > 0 || len(got.Restores) > 0 {
			t.Errorf("history = %+v, want none", got)
		}
	})
	s.rule(t, "any of trigger, recover and put makes it known again", func(t *testing.T, r *rig) {
		for name, revive := range map[string]func(*rig){
			"triggered": func(r *rig) { r.trigger() },
			"recovered": func(r *rig) { r.recover("") },
			"put":       func(r *rig) { r.putJob(coordinator.JobSettings{}) },
		} {
			job := r.in(name)
			for range 3 {
				revive(job)
				equal(t, "job", job.jobState().Job, name)
				job.deleteJob(true)
				job.getRefused(coordinator.CodeJobNotFound, 0)
			}
		}
	})
	s.rule(t, "the default job stays known, without its settings", func(t *testing.T, r *rig) {
		c := r.completed()
		r.putJob(allSettings())
		r.deleteJob(false)
		r.wantSettings(coordinator.JobSettings{})
		equal(t, "configured", r.jobState().Configured, false)
		r.getRefused(coordinator.CodeCheckpointDeleted, c.ID)
		r.wantIDs("the list", r.list(coordinator.ListCall{}))
		r.wantCounts(coordinator.Counts{})
		r.deleteJob(false)
		equal(t, "jobs", len(r.jobs()), 1)
		equal(t, "triggered after it", r.trigger().ID > c.ID, true)
	})
	s.rule(t, "other jobs are left alone", func(t *testing.T, r *rig) {
		done := r.completed()
		r.putJob(allSettings())
		for _, name := range []string{"orders", "orders2", "order"} {
			r.in(name).completed()
		}
		r.in("orders").deleteJob(false)
		r.wantStatus(done.ID, coordinator.StatusCompleted)
		r.wantSettings(allSettings())
		equal(t, "jobs", len(r.jobs()), 3)
	})
}
