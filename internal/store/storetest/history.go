package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func (r *rig) wantCounts(want coordinator.Counts) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.history().Counts); diff != "" {
		r.t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func (r *rig) recordRestore(restore coordinator.RestoreRecord) {
	r.t.Helper()
	r.check("record restore", r.store.RecordRestore(r.t.Context(), r.job, restore))
}

func testHistory(t *testing.T, s suite) {
	s.rule(t, "a new job has no history", func(t *testing.T, r *rig) {
		for _, job := range []*rig{r, r.in("orders")} {
			job.putJob(coordinator.JobSettings{})
			got := job.history()
			want := coordinator.History{State: job.jobState()}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
		}
	})
	s.rule(t, "each outcome is counted, and goes on being counted when the checkpoint is gone", func(t *testing.T, r *rig) {
		r.completed()
		done := r.complete(r.trigger(requires(2)).ID, true)
		r.expired()
		r.declined()
		r.declined()
		aborted := r.aborted()
		r.trigger()
		r.trigger()
		r.recover("")
		r.delete(r.trigger().ID)
		r.trigger(withKey("k", "body"))
		r.trigger(withKey("k", "body"))
		want := coordinator.Counts{Triggered: 10, Completed: 2, Expired: 1, Declined: 2, Aborted: 2, Superseded: 2, Deleted: 1}
		r.wantCounts(want)
		r.delete(done.ID)
		r.delete(aborted.ID)
		r.cleanup(0)
		want.Evicted, want.Deleted = 1, 10
		r.wantCounts(want)
		r.reopen()
		r.wantCounts(want)
	})
	s.rule(t, "what retention and newer failures push out is counted as deleted", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		r.completedTimes(3)
		for range coordinator.EndedKept + 3 {
			r.aborted()
		}
		r.wantCounts(coordinator.Counts{Triggered: 26, Completed: 3, Aborted: 23, Deleted: 5})
	})
	s.rule(t, "a scheduled trigger counts like any other, one that was refused does not", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 1
		r.clock.Set(r.beginSchedule(every(1000)))
		r.tickMakes()
		_, err := r.store.Trigger(t.Context(), r.triggerCall())
		r.refused(err, coordinator.CodeTooManyPending)
		r.clock.Advance(1000)
		r.tickIdles()
		r.wantCounts(coordinator.Counts{Triggered: 1})
	})
	s.rule(t, "duplicates and repeats are counted once", func(t *testing.T, r *rig) {
		r.resent = true
		c := r.trigger()
		call := r.ackCall(c.ID, item("a"))
		for range 2 {
			_, err := r.store.Acknowledge(t.Context(), call)
			r.check("acknowledge", err)
		}
		r.ack(c.ID, "a")
		r.complete(c.ID, true)
		gone := r.aborted()
		r.abort(gone.ID)
		r.wantCounts(coordinator.Counts{Triggered: 2, Completed: 1, Aborted: 1})
		equal(t, "samples", len(r.history().Samples), 1)
	})
	s.rule(t, "each completion is a sample, newest first, with what it took and who came last", func(t *testing.T, r *rig) {
		one := r.trigger(named("a", "é"))
		p := part("a", "k", "1", "l", "2")
		r.shared(one.ID, "s", "0")
		r.accept(one.ID, "a", with(p))
		r.clock.Advance(30)
		r.accept(one.ID, "é")
		first := r.clock.Now()
		older, two := r.trigger(requires(3)), r.trigger()
		r.clock.Advance(7)
		big := bigPart("b", 2*coordinator.ChunkBytes)
		r.uploadAndAck(two.ID, "b", big)
		second := r.clock.Now()
		r.clock.Advance(1)
		r.accept(older.ID, "c")
		r.complete(older.ID, true)
		bulk := r.trigger(requires(2))
		r.acks(bulk.ID, item("x"), item("y"), item("z"))
		want := []coordinator.Sample{
			{CheckpointID: bulk.ID, CompletedAt: r.clock.Now(), Acks: 2, LastTask: "y"},
			{CheckpointID: older.ID, CompletedAt: r.clock.Now(), DurationMs: 8, Acks: 1},
			{CheckpointID: two.ID, CompletedAt: second, DurationMs: 7, Entries: 1, Bytes: int64(len(big.Content)), Acks: 1, LastTask: "b"},
			{CheckpointID: one.ID, CompletedAt: first, DurationMs: 30, Entries: 3, Bytes: int64(len(p.Content) + len(sharedLines("s", "0"))), Acks: 2, LastTask: "é"},
		}
		if diff := cmp.Diff(want, r.history().Samples); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
		r.cleanup(0)
		r.reopen()
		if diff := cmp.Diff(want, r.history().Samples); diff != "" {
			t.Errorf("samples after their checkpoints went (-want +got):\n%s", diff)
		}
	})
	s.rule(t, "as many samples are kept as the statistics look back on, the newest ones", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		const more = 3
		ids := r.completedTimes(more)
		r.completedAtOnce(coordinator.SamplesKept - 1)
		ids = append(ids, r.completed().ID)
		got := r.history()
		equal(t, "samples", len(got.Samples), coordinator.SamplesKept)
		equal(t, "the newest", got.Samples[0].CheckpointID, ids[more])
		for _, sample := range got.Samples {
			if slices.Contains(ids[:more], sample.CheckpointID) {
				t.Errorf("the sample of %d, one of the first %d, is kept", sample.CheckpointID, more)
			}
		}
		equal(t, "completed", got.Counts.Completed, coordinator.SamplesKept+more)
	})
	s.rule(t, "restores are remembered newest first, with the time at which they ended", func(t *testing.T, r *rig) {
		r.recordRestore(coordinator.RestoreRecord{CheckpointID: 7, At: 1, Bytes: 100, Finished: true, By: "worker \"é\"\n"})
		first := r.clock.Now()
		r.clock.Advance(50)
		r.recordRestore(coordinator.RestoreRecord{CheckpointID: 8, Bytes: 11})
		want := []coordinator.RestoreRecord{
			{CheckpointID: 8, At: r.clock.Now(), Bytes: 11},
			{CheckpointID: 7, At: first, Bytes: 100, Finished: true, By: "worker \"é\"\n"},
		}
		r.reopen()
		if diff := cmp.Diff(want, r.history().Restores); diff != "" {
			t.Errorf("restores (-want +got):\n%s", diff)
		}
		r.wantCounts(coordinator.Counts{Restores: 2, RestoredBytes: 111})
		equal(t, "restores of another job", r.in("orders").restoresAfterPut(), 0)
	})
	s.rule(t, "as many restores are remembered as it says, and all are counted", func(t *testing.T, r *rig) {
		const more = 5
		for i := range coordinator.RestoresKept + more {
			r.recordRestore(coordinator.RestoreRecord{CheckpointID: int64(i), Bytes: 1 << 40, By: fmt.Sprint("worker ", i)})
		}
		got := r.history()
		equal(t, "restores", len(got.Restores), coordinator.RestoresKept)
		equal(t, "the newest", got.Restores[0].CheckpointID, coordinator.RestoresKept+more-1)
		equal(t, "the oldest", got.Restores[len(got.Restores)-1].By, fmt.Sprint("worker ", more))
		r.wantCounts(coordinator.Counts{Restores: coordinator.RestoresKept + more, RestoredBytes: (coordinator.RestoresKept + more) << 40})
	})
	s.rule(t, "a history comes with the state of its job", func(t *testing.T, r *rig) {
		r.declined()
		r.completed()
		r.putJob(allSettings())
		ignored := cmpopts.IgnoreFields(coordinator.JobSettings{}, "Tasks") // it may have them or not
		if diff := cmp.Diff(r.jobState(), r.history().State, ignored); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
	})
	s.rule(t, "each job has a history of its own", func(t *testing.T, r *rig) {
		r.completed()
		orders := r.in("orders")
		orders.trigger()
		orders.wantCounts(coordinator.Counts{Triggered: 1})
		equal(t, "samples", len(orders.history().Samples), 0)
		r.wantCounts(coordinator.Counts{Triggered: 1, Completed: 1})
	})
}

func (r *rig) restoresAfterPut() int {
	r.t.Helper()
	r.putJob(coordinator.JobSettings{})
	return len(r.history().Restores)
}
