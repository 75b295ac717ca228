package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testJobs(t *testing.T, s suite) {
	// calls are all calls that must not make a job; each reads or changes checkpoint 0.
	calls := map[string]func(*rig) error{
		"acknowledge": func(r *rig) error { _, err := r.store.Acknowledge(r.t.Context(), r.ackCall(0, item("a"))); return err },
		"complete":    func(r *rig) error { _, err := r.store.Complete(r.t.Context(), r.completeCall(0, true)); return err },
		"abort": func(r *rig) error {
			_, err := r.store.Abort(r.t.Context(), coordinator.AbortCall{Job: r.job, Token: r.token()})
			return err
		},
		"extend": func(r *rig) error {
			_, err := r.store.Extend(r.t.Context(), coordinator.ExtendCall{Job: r.job, TimeoutMs: 1})
			return err
		},
		"update": func(r *rig) error {
			_, err := r.store.Update(r.t.Context(), coordinator.UpdateCall{Job: r.job, Description: new("d")})
			return err
		},
		"delete": func(r *rig) error { return r.store.Delete(r.t.Context(), coordinator.DeleteCall{Job: r.job}) },
		"write shared state": func(r *rig) error {
			_, err := r.single(0, coordinator.SharedPut, "k", "1", coordinator.Precondition{})
			return err
		},
		"read shared state": func(r *rig) error { _, err := r.store.SharedState(r.t.Context(), r.ref(0)); return err },
		"read one entry":    func(r *rig) error { _, err := r.store.SharedEntry(r.t.Context(), r.ref(0), "k"); return err },
		"upload":            func(r *rig) error { _, err := r.store.BeginUpload(r.t.Context(), r.uploadCall(0, "a")); return err },
		"get":               func(r *rig) error { _, err := r.store.Get(r.t.Context(), r.ref(0)); return err },
		"tasks": func(r *rig) error {
			_, err := r.store.Tasks(r.t.Context(), coordinator.TasksCall{Ref: r.ref(0), Limit: 1})
			return err
		},
		"task":    func(r *rig) error { _, err := r.store.Task(r.t.Context(), r.ref(0), "a"); return err },
		"restore": func(r *rig) error { _, err := r.store.OpenRestore(r.t.Context(), r.restoreCall(0)); return err },
	}
	// jobOnly are calls about the job as a whole.
	jobOnly := map[string]func(*rig) error{
		"latest": func(r *rig) error { _, err := r.store.Get(r.t.Context(), r.ref(coordinator.Latest)); return err },
		"list": func(r *rig) error {
			_, err := r.store.List(r.t.Context(), coordinator.ListCall{Job: r.job, Before: -1, Limit: 1})
			return err
		},
		"cleanup": func(r *rig) error {
			_, err := r.store.Cleanup(r.t.Context(), coordinator.CleanupCall{Job: r.job, Max: 1})
			return err
		},
		"job":            func(r *rig) error { _, err := r.store.Job(r.t.Context(), r.job); return err },
		"delete job":     func(r *rig) error { _, err := r.store.DeleteJob(r.t.Context(), r.deleteJobCall(true)); return err },
		"forget task":    func(r *rig) error { return r.store.ForgetTask(r.t.Context(), r.job, "a") },
		"trigger if due": func(r *rig) error { _, err := r.store.TriggerIfDue(r.t.Context(), r.dueCall()); return err },
		"history":        func(r *rig) error { _, err := r.store.History(r.t.Context(), r.job); return err },
		"events": func(r *rig) error {
			_, err := r.store.Events(r.t.Context(), coordinator.EventsCall{Job: r.job, After: new(coordinator.EventID), Limit: 1})
			return err
		},
	}
	s.rule(t, "an unknown job is refused by every call but trigger, recover and put, and not made", func(t *testing.T, r *rig) {
		typo := r.in("typo")
		for _, group := range []map[string]func(*rig) error{calls, jobOnly} {
			for name, call := range group {
				if code := coordinator.CodeOf(call(typo)); code != coordinator.CodeJobNotFound {
					t.Errorf("%s is refused as %q, want %q", name, code, coordinator.CodeJobNotFound)
				}
			}
		}
		r.check("save digest", r.store.SaveDigest(t.Context(), typo.ref(0), coordinator.EmptyDigest))
		r.check("record restore", r.store.RecordRestore(t.Context(), typo.job, coordinator.RestoreRecord{Bytes: 1}))
		r.check("sweep", r.store.Sweep(t.Context(), coordinator.SweepCall{}))
		typo.getRefused(coordinator.CodeJobNotFound, 0)
	})
	s.rule(t, "an unknown checkpoint is refused by every call, a deleted one as deleted", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.recover("")
		for name, call := range calls {
			if code := coordinator.CodeOf(call(orders)); code != coordinator.CodeCheckpointNotFound {
				t.Errorf("%s is refused as %q, want %q", name, code, coordinator.CodeCheckpointNotFound)
			}
		}
		orders.delete(orders.trigger().ID)
		for name, call := range calls {
			if code := coordinator.CodeOf(call(orders)); code != coordinator.CodeCheckpointDeleted {
				t.Errorf("%s is refused as %q, want %q", name, code, coordinator.CodeCheckpointDeleted)
			}
		}
	})
	s.rule(t, "the default job exists from the start", func(t *testing.T, r *rig) {
		want := coordinator.JobState{Job: coordinator.DefaultJob, LatestID: -1, Schedule: coordinator.ScheduleState{LastID: -1}, ObservedAt: r.clock.Now()}
		if diff := cmp.Diff([]coordinator.JobState{want}, r.jobs()); diff != "" {
			t.Errorf("jobs (-want +got):\n%s", diff)
		}
		r.getRefused(coordinator.CodeCheckpointNotFound, 0)
	})
	s.rule(t, "every job is read with its gauges", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.completed()
		orders.trigger()
		orders.recover("")
		r.clock.Advance(50)
		done := orders.completed()
		r.clock.Advance(50)
		open := orders.trigger()
		want := coordinator.JobState{
			Job: "orders", Epoch: 1, NextID: open.ID + 1, Pending: 1,
			LatestID: done.ID, LatestAt: done.Start, LastCompletedAt: done.Start, Schedule: coordinator.ScheduleState{LastID: -1},
			LastEvent: orders.position(), ObservedAt: r.clock.Now(),
		}
		got := orders.state()
		if got.NextID < want.NextID {
			t.Errorf("next id %d is not above the last one, %d", got.NextID, open.ID)
		}
		want.NextID = got.NextID
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("job (-want +got):\n%s", diff)
		}
		equal(t, "jobs", len(r.jobs()), 2)
	})
	s.rule(t, "any legal name names a job of its own", func(t *testing.T, r *rig) {
		jobs := []string{"0", "7", "job", "jobs", "Default", "a", "A", "a.b", "a-b", "a_b", "a.", strings.Repeat("x", coordinator.MaxJobNameBytes)}
		for i, name := range jobs {
			job := r.in(name)
			for range i + 1 {
				job.completed()
			}
		}
		for i, name := range jobs {
			equal(t, fmt.Sprintf("completed ones of %q", name), len(r.in(name).list(coordinator.ListCall{})), i+1)
		}
		r.wantIDs("completed ones of the default job", r.list(coordinator.ListCall{}))
	})
	s.rule(t, "the store is healthy", func(t *testing.T, r *rig) {
		_, err := r.store.Health(t.Context())
		r.check("health", err)
	})
}

func (r *rig) jobs() []coordinator.JobState {
	r.t.Helper()
	jobs, err := r.store.Jobs(r.t.Context())
	r.check("jobs", err)
	return jobs
}
