package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// wantFailures checks what a job says of its failures.
func (r *rig) wantFailures(consecutive int, failing bool) {
	r.t.Helper()
	for _, state := range []coordinator.JobState{r.jobState(), r.state()} {
		equal(r.t, "failures in a row", state.ConsecutiveFailures, consecutive)
		equal(r.t, "failing", state.Failing, failing)
	}
}

func (r *rig) wantLastFailure(want *coordinator.JobFailure) {
	r.t.Helper()
	for _, state := range []coordinator.JobState{r.jobState(), r.state()} {
		if diff := cmp.Diff(want, state.LastFailure); diff != "" {
			r.t.Errorf("last failure (-want +got):\n%s", diff)
		}
	}
}

// lastFailed gives the checkpoint that failed last, -1 for none.
func (r *rig) lastFailed() int64 {
	r.t.Helper()
	if last := r.jobState().LastFailure; last != nil {
		return last.CheckpointID
	}
	return -1
}

// expired makes a checkpoint that expires, and has the sweeper write it.
func (r *rig) expired() coordinator.Checkpoint {
	r.t.Helper()
	c := r.trigger(timeout(10))
	r.clock.Advance(11)
	r.sweep()
	return c
}

// declined makes a checkpoint that a task declines.
func (r *rig) declined() coordinator.Checkpoint {
	r.t.Helper()
	return r.decline(r.trigger().ID, "a")
}

func testFailures(t *testing.T, s suite) {
	s.rule(t, "a job that never failed is not failing", func(t *testing.T, r *rig) {
		r.wantFailures(0, false)
		r.completed()
		r.aborted()
		r.wantFailures(0, false)
		r.wantLastFailure(nil)
	})
	s.rule(t, "expired and declined checkpoints count, and the first beyond what is tolerable makes the job failing", func(t *testing.T, r *rig) {
		r.defaults.TolerableFailures = 2
		r.expired()
		r.wantFailures(1, false)
		r.declined()
		r.wantFailures(2, false)
		r.expired()
		r.wantFailures(3, true)
		r.declined()
		r.wantFailures(4, true)
		r.reopen()
		r.wantFailures(4, true)
	})
	s.rule(t, "with none tolerable the first failure is one too many", func(t *testing.T, r *rig) {
		r.declined()
		r.wantFailures(1, true)
	})
	s.rule(t, "an overdue checkpoint counts when its expiry is written, by whatever call, and once", func(t *testing.T, r *rig) {
		r.defaults.TolerableFailures = 1
		c := r.trigger(timeout(10))
		r.clock.Advance(11)
		r.wantStatus(c.ID, coordinator.StatusExpired)
		r.wantFailures(0, false)
		r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "a")
		r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "a")
		r.sweep()
		r.wantFailures(1, false)
		r.trigger(timeout(10))
		r.clock.Advance(11)
		r.recover("")
		r.wantFailures(2, true)
	})
	for _, finish := range []struct {
		by  string
		end func(r *rig, id int64)
	}{
		{"the last ack", func(r *rig, id int64) { r.accept(id, "b") }},
		{"an upload with the last ack", func(r *rig, id int64) { r.uploadAndAck(id, "b", part("b", "k", "1")) }},
		{"hand", func(r *rig, id int64) { r.complete(id, true) }},
	} {
		s.rule(t, "a completion by "+finish.by+" makes the job well, and the last failure stays known", func(t *testing.T, r *rig) {
			c := r.trigger(requires(2))
			r.accept(c.ID, "a")
			bad := r.declined()
			r.clock.Advance(5)
			r.wantFailures(1, true)
			finish.end(r, c.ID)
			r.wantFailures(0, false)
			want := &coordinator.JobFailure{
				CheckpointID: bad.ID, Failure: coordinator.Failure{Reason: coordinator.ReasonDeclined, TaskID: "a"}, At: bad.EndedAt,
			}
			r.wantLastFailure(want)
			r.reopen()
			r.wantLastFailure(want)
		})
	}
	s.rule(t, "the count begins anew after each completion", func(t *testing.T, r *rig) {
		r.defaults.TolerableFailures = 1
		for range 3 {
			r.declined()
			r.completed()
		}
		r.declined()
		r.wantFailures(1, false)
		r.declined()
		r.wantFailures(2, true)
	})
	s.rule(t, "the last failure tells which checkpoint, why and when it ended", func(t *testing.T, r *rig) {
		c := r.trigger()
		r.clock.Advance(30)
		_, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: c.ID, TaskID: "é", Message: "disk \"full\"\n", Token: r.token()})
		r.check("decline", err)
		r.wantLastFailure(&coordinator.JobFailure{
			CheckpointID: c.ID, At: r.clock.Now(),
			Failure: coordinator.Failure{Reason: coordinator.ReasonDeclined, TaskID: "é", Message: "disk \"full\"\n"},
		})
		late := r.trigger(timeout(1000))
		r.clock.Advance(5000)
		r.sweep()
		r.wantLastFailure(&coordinator.JobFailure{
			CheckpointID: late.ID, At: late.Start + 1000, Failure: coordinator.Failure{Reason: coordinator.ReasonExpired},
		})
		r.delete(late.ID)
		equal(t, "the checkpoint that failed last, deleted since", r.lastFailed(), late.ID)
	})
	s.rule(t, "users' aborts, recoveries, cleanups and deletions are no failures", func(t *testing.T, r *rig) {
		r.aborted()
		r.trigger()
		r.recover("")
		r.trigger()
		r.cleanup(0)
		r.delete(r.trigger().ID)
		r.wantFailures(0, false)
		r.wantLastFailure(nil)
	})
	s.rule(t, "nor do they end a row of failures", func(t *testing.T, r *rig) {
		r.defaults.TolerableFailures = 1
		r.declined()
		r.aborted()
		r.trigger()
		r.recover("")
		r.wantFailures(1, false)
		r.declined()
		r.wantFailures(2, true)
	})
	s.rule(t, "an older checkpoint that fails after a newer one completed is noted, not counted", func(t *testing.T, r *rig) {
		old, older := r.trigger(timeout(1000)), r.trigger()
		r.completed()
		r.decline(older.ID, "a")
		r.wantFailures(0, false)
		equal(t, "the checkpoint that failed last", r.lastFailed(), older.ID)
		r.clock.Advance(1001)
		r.sweep()
		r.wantFailures(0, false)
		equal(t, "the checkpoint that failed last", r.lastFailed(), old.ID)
	})
	s.rule(t, "that holds also when the newer one is gone", func(t *testing.T, r *rig) {
		old := r.trigger()
		r.delete(r.completed().ID)
		r.decline(old.ID, "a")
		r.wantFailures(0, false)
		r.declined()
		r.wantFailures(1, true)
	})
	s.rule(t, "an older checkpoint that completes makes the job well too", func(t *testing.T, r *rig) {
		old := r.trigger()
		r.declined()
		r.wantFailures(1, true)
		r.accept(old.ID, "task-1")
		r.wantFailures(0, false)
	})
	s.rule(t, "the job's own number comes before the server's, at the time of the failure", func(t *testing.T, r *rig) {
		r.defaults.TolerableFailures = 3
		r.putJob(coordinator.JobSettings{TolerableFailures: new(1)})
		r.declined()
		r.wantFailures(1, false)
		c := r.trigger()
		mark := r.position()
		r.putJob(coordinator.JobSettings{TolerableFailures: new(0)})
		r.wantFailures(1, true) // what is too much by the new number is so at once
		r.decline(c.ID, "a")
		r.wantFailures(2, true)
		r.wantKinds(mark, kind(coordinator.EventConfigured, -1), kind(coordinator.EventFailing, c.ID-1), kind(coordinator.EventAborted, c.ID))
		r.putJob(coordinator.JobSettings{TolerableFailures: new(5)})
		r.wantFailures(2, true)
		r.completed()
		r.putJob(coordinator.JobSettings{})
		for i := range 3 {
			r.declined()
			r.wantFailures(i+1, false)
		}
		r.declined()
		r.wantFailures(4, true)
	})
	s.rule(t, "the server's number is the one of the last trigger, put or tick", func(t *testing.T, r *rig) {
		put, ticked := r.in("put"), r.in("ticked")
		for _, job := range []*rig{put, ticked} {
			job.defaults.TolerableFailures = 0
		}
		put.trigger(timeout(10))
		ticked.beginSchedule(every(60_000))
		ticked.trigger(timeout(10))
		put.defaults.TolerableFailures, ticked.defaults.TolerableFailures = 1, 1
		put.putJob(coordinator.JobSettings{})
		r.clock.Advance(1)
		ticked.tickMakes()
		r.clock.Advance(11)
		r.sweep()
		put.wantFailures(1, false)
		ticked.wantFailures(1, false)
	})
	s.rule(t, "each job fails for itself", func(t *testing.T, r *rig) {
		r.in("orders").declined()
		r.wantFailures(0, false)
		r.wantLastFailure(nil)
		r.completed()
		r.in("orders").wantFailures(1, true)
	})
}
