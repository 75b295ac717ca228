package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// allSettings sets everything that a job may have of its own, to what no default is.
func allSettings() coordinator.JobSettings {
	return coordinator.JobSettings{
		RequiredTaskAcks: new(3), Tasks: []string{"é", "a", "b"}, NamedTasks: 3, TimeoutMs: new(int64(7000)), IntervalMs: new(int64(3000)),
		MinPauseMs: new(int64(11)), MaxConcurrent: new(5), TolerableFailures: new(2), StaleAfterMs: new(int64(13)),
		Keep: new(4), MaxAgeMs: new(int64(17)), MaxBytes: new(int64(coordinator.MaxID)), Paused: true, Description: "every \"night\"\n",
	}
}

func testSettings(t *testing.T, s suite) {
	s.rule(t, "a put makes the job, with all that it says", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		result := orders.putJob(allSettings())
		equal(t, "created", result.Created, true)
		equal(t, "configured", result.State.Configured, true)
		equal(t, "revision", result.State.Revision, 1)
		orders.wantSettings(allSettings())
		wantSame(t, orders.jobState(), result.State)
		r.reopen()
		wantSame(t, orders.jobState(), result.State)
	})
	s.rule(t, "who reads all jobs gets the settings without the names of tasks", func(t *testing.T, r *rig) {
		r.putJob(allSettings())
		want := allSettings()
		want.Tasks = nil
		wantSame(t, want, r.state().Settings)
		equal(t, "jobs", len(r.jobs()), 1)
	})
	s.rule(t, "a put of nothing sets nothing, and a zero is not nothing", func(t *testing.T, r *rig) {
		result := r.putJob(coordinator.JobSettings{})
		equal(t, "created", result.Created, true)
		equal(t, "configured", result.State.Configured, true)
		r.wantSettings(coordinator.JobSettings{})
		zeros := coordinator.JobSettings{
			TimeoutMs: new(int64(0)), IntervalMs: new(int64(0)), MinPauseMs: new(int64(0)), TolerableFailures: new(0),
			StaleAfterMs: new(int64(0)), Keep: new(0), MaxAgeMs: new(int64(0)), MaxBytes: new(int64(0)),
		}
		r.putJob(zeros)
		r.wantSettings(zeros)
	})
	s.rule(t, "a put replaces the settings whole, and is a new revision even where it changes nothing", func(t *testing.T, r *rig) {
		r.putJob(allSettings())
		for revision := int64(2); revision <= 3; revision++ {
			result := r.putJob(coordinator.JobSettings{Description: "d"})
			equal(t, "created", result.Created, false)
			equal(t, "revision", result.State.Revision, revision)
			r.wantSettings(coordinator.JobSettings{Description: "d"})
		}
	})
	s.rule(t, "a job that nobody configured has no settings and revision 0, and may be configured", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		c := orders.trigger()
		state := orders.jobState()
		equal(t, "configured", state.Configured, false)
		equal(t, "revision", state.Revision, 0)
		wantSame(t, coordinator.JobSettings{}, state.Settings)
		result := orders.putJob(allSettings())
		equal(t, "created", result.Created, true)
		equal(t, "pending", result.State.Pending, 1)
		equal(t, "next id", result.State.NextID, state.NextID)
		orders.wantStatus(c.ID, coordinator.StatusPending)
	})
	s.rule(t, "settings are for one job", func(t *testing.T, r *rig) {
		r.in("orders").putJob(allSettings())
		r.wantSettings(coordinator.JobSettings{})
		equal(t, "configured", r.jobState().Configured, false)
		r.in("invoices").putJob(coordinator.JobSettings{Description: "d"})
		r.in("orders").wantSettings(allSettings())
	})
	s.rule(t, "If-Match goes by the tag of the settings", func(t *testing.T, r *rig) {
		put := func(r *rig, condition coordinator.Precondition) error {
			call := r.putCall(coordinator.JobSettings{Description: "d"})
			call.If = condition
			_, err := r.store.PutJob(t.Context(), call)
			return err
		}
		orders := r.in("orders")
		for _, unknown := range []*rig{orders, r} {
			r.refused(put(unknown, coordinator.Precondition{IfMatch: []string{"*"}}), coordinator.CodePreconditionFailed)
			r.refused(put(unknown, coordinator.Precondition{IfMatch: []string{"1"}}), coordinator.CodePreconditionFailed)
		}
		orders.getRefused(coordinator.CodeJobNotFound, 0)
		first := orders.putJob(allSettings()).State
		r.check("put with a tag that is among others", put(orders, coordinator.Precondition{IfMatch: []string{"none", first.Tag()}}))
		r.refused(put(orders, coordinator.Precondition{IfMatch: []string{first.Tag()}}), coordinator.CodePreconditionFailed)
		equal(t, "revision after a refusal", orders.jobState().Revision, 2)
		r.check("put of any", put(orders, coordinator.Precondition{IfMatch: []string{"*"}}))
		orders.completed()
		now := orders.jobState()
		r.check("put with the tag after other changes", put(orders, coordinator.Precondition{IfMatch: []string{now.Tag()}}))
	})
	s.rule(t, "If-None-Match lets a put through where nobody configured the job, whether or not it exists", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.trigger()
		for _, job := range []*rig{r, orders, r.in("new")} {
			for i := range 2 {
				call := job.putCall(allSettings())
				call.If.IfNoneMatch = true
				_, err := r.store.PutJob(t.Context(), call)
				if i == 0 {
					r.check("put", err)
				} else {
					r.refused(err, coordinator.CodePreconditionFailed)
				}
			}
			equal(t, "revision", job.jobState().Revision, 1)
		}
	})
	s.rule(t, "a trigger's own words come first, then the job's settings, then the server's", func(t *testing.T, r *rig) {
		r.defaults.RequiredTaskAcks, r.defaults.TimeoutMs = 2, 9000
		want := func(what string, c coordinator.Checkpoint, required int, timeoutMs int64, named bool) {
			t.Helper()
			equal(t, "required by "+what, c.RequiredTaskAcks, required)
			equal(t, "timeout of "+what, c.TimeoutMs, timeoutMs)
			equal(t, "named by "+what, c.NamedTasks, named)
			wantSame(t, c, r.get(c.ID).Checkpoint)
		}
		want("the server", r.trigger(leftOpen()), 2, 9000, false)
		r.putJob(coordinator.JobSettings{RequiredTaskAcks: new(4), TimeoutMs: new(int64(0))})
		want("the job", r.trigger(leftOpen()), 4, 0, false)
		want("the trigger", r.trigger(leftOpen(), requires(5), timeout(8000)), 5, 8000, false)
		want("the trigger's tasks", r.trigger(leftOpen(), named("x", "y")), 2, 0, true)
		r.putJob(coordinator.JobSettings{Tasks: []string{"é", "b", "a"}})
		c := r.trigger(leftOpen())
		want("the job's tasks", c, 3, 9000, true)
		wantSame(t, []string{"a", "b", "é"}, c.MissingTasks)
		want("the equal number", r.trigger(leftOpen(), requires(3)), 3, 9000, true)
		want("the trigger's other tasks", r.trigger(leftOpen(), named("x")), 1, 9000, true)
	})
	s.rule(t, "only the tasks that the settings name may acknowledge what their trigger left open", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{Tasks: []string{"a", "b"}})
		c, counted := r.trigger(leftOpen()), r.trigger(leftOpen(), requires(2))
		r.ackRefused(coordinator.CodeTaskNotExpected, c.ID, "stranger")
		r.ackRefused(coordinator.CodeTaskNotExpected, counted.ID, "stranger")
		r.accept(c.ID, "b")
		wantSame(t, []string{"a"}, r.get(c.ID).MissingTasks)
		equal(t, "status", r.accept(c.ID, "a").Status, coordinator.StatusCompleted)
	})
	s.rule(t, "a trigger by another number alone than the settings name tasks is refused, before all else", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{Tasks: []string{"a", "b"}, MaxConcurrent: new(1)})
		r.trigger(leftOpen(), requires(2), withKey("key", "body"))
		for _, other := range []int{1, 3} {
			_, err := r.store.Trigger(t.Context(), r.triggerCall(requires(other)))
			r.refused(err, coordinator.CodeInvalidRequest)
			refusal, _ := errors.AsType[*coordinator.Error](err)
			if len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != "/requiredTaskAcks" {
				t.Errorf("the refusal points at %+v", refusal.Fields)
			}
		}
		equal(t, "the first one's key", r.trigger(leftOpen(), requires(2), withKey("key", "body")).ID, 0)
		equal(t, "the next id", r.jobState().NextID, 1)
	})
	s.rule(t, "a pending checkpoint stays as it was triggered, whatever the settings become", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{RequiredTaskAcks: new(2), TimeoutMs: new(int64(5000))})
		counted := r.trigger(leftOpen())
		r.putJob(coordinator.JobSettings{Tasks: []string{"a", "b"}, TimeoutMs: new(int64(1000))})
		named := r.trigger(leftOpen())
		r.putJob(coordinator.JobSettings{Tasks: []string{"c"}, TimeoutMs: new(int64(1))})
		third := r.trigger(leftOpen())
		r.putJob(coordinator.JobSettings{RequiredTaskAcks: new(1)})
		r.wantStatus(third.ID, coordinator.StatusPending)
		r.ackRefused(coordinator.CodeTaskNotExpected, named.ID, "c")
		r.ackRefused(coordinator.CodeTaskNotExpected, third.ID, "a")
		equal(t, "status", r.accept(named.ID, "a").Status, coordinator.StatusPending)
		equal(t, "status", r.accept(named.ID, "b").Status, coordinator.StatusCompleted)
		equal(t, "status", r.accept(third.ID, "c").Status, coordinator.StatusCompleted)
		equal(t, "status", r.accept(counted.ID, "a").Status, coordinator.StatusPending)
		r.clock.Advance(5000)
		r.wantStatus(counted.ID, coordinator.StatusPending)
		equal(t, "status", r.accept(counted.ID, "b").Status, coordinator.StatusCompleted)
		equal(t, "required of the next", r.trigger(leftOpen()).RequiredTaskAcks, 1)
	})
	s.rule(t, "long name lists in settings go with their settings, and stay with what was triggered", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{Tasks: names(1500)})
		first := r.trigger(leftOpen())
		equal(t, "required", first.RequiredTaskAcks, 1500)
		second := r.trigger(leftOpen())
		r.putJob(coordinator.JobSettings{Tasks: names(2500)})
		r.wantSettings(coordinator.JobSettings{Tasks: names(2500), NamedTasks: 2500})
		r.delete(first.ID)
		r.putJob(coordinator.JobSettings{})
		r.wantSettings(coordinator.JobSettings{})
		r.sweep()
		r.accept(second.ID, names(1500)[1499])
		r.ackRefused(coordinator.CodeTaskNotExpected, second.ID, names(2500)[1500])
		equal(t, "missing", len(r.get(second.ID).MissingTasks), coordinator.MissingTasksShown)
		equal(t, "named by the next", r.trigger(leftOpen()).NamedTasks, false)
	})
	s.rule(t, "the job's cap comes before the server's", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 1
		r.putJob(coordinator.JobSettings{MaxConcurrent: new(2)})
		r.trigger()
		r.trigger()
		_, err := r.store.Trigger(t.Context(), r.triggerCall())
		r.refused(err, coordinator.CodeTooManyPending)
		r.putJob(coordinator.JobSettings{MaxConcurrent: new(3)})
		r.trigger()
		r.putJob(coordinator.JobSettings{})
		r.abort(r.list(coordinator.ListCall{Status: coordinator.StatusPending})[0])
		_, err = r.store.Trigger(t.Context(), r.triggerCall())
		r.refused(err, coordinator.CodeTooManyPending)
	})
	s.rule(t, "a change of settings is no change of the job's checkpoints, failures or schedule", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{IntervalMs: new(int64(1000))})
		r.completed()
		r.decline(r.trigger().ID, "a")
		r.trigger()
		r.recover("")
		before := r.jobState()
		r.clock.Advance(20)
		after := r.putJob(coordinator.JobSettings{IntervalMs: new(int64(1000)), Description: "d"}).State
		ignored := cmpopts.IgnoreFields(coordinator.JobState{}, "Settings", "Revision", "LastEvent", "ObservedAt")
		if diff := cmp.Diff(before, after, ignored); diff != "" {
			t.Errorf("the job changed (-before +after):\n%s", diff)
		}
	})
}

// wantSettings reads the job's own settings.
func (r *rig) wantSettings(want coordinator.JobSettings) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.jobState().Settings, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("settings (-want +got):\n%s", diff)
	}
}
