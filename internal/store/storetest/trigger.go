package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testTrigger(t *testing.T, s suite) {
	s.rule(t, "a new checkpoint is pending and has what the trigger asked for", func(t *testing.T, r *rig) {
		call := r.triggerCall(requires(3), timeout(5000))
		call.Labels, call.Description = map[string]string{"why": "nightly", "": ""}, "before the \"release\"\n"
		result, err := r.store.Trigger(t.Context(), call)
		r.check("trigger", err)
		want := coordinator.Checkpoint{
			Job: coordinator.DefaultJob, Status: coordinator.StatusPending, Revision: result.Checkpoint.Revision,
			Timestamp: r.clock.Now(), Start: r.clock.Now(), TimeoutMs: 5000, RequiredTaskAcks: 3,
			Labels: call.Labels, Description: call.Description, ObservedAt: r.clock.Now(),
			SnapshotVersion: result.Checkpoint.SnapshotVersion, // says nothing before the completion
		}
		wantSame(t, want, result.Checkpoint)
		equal(t, "repeated", result.Repeated, false)
		wantSame(t, result.Checkpoint, r.get(result.Checkpoint.ID).Checkpoint)
	})
	s.rule(t, "named tasks are missing until they acknowledge, in byte order", func(t *testing.T, r *rig) {
		c := r.trigger(named("b", "é", "a", "Z", "\U0001F600"))
		equal(t, "named", c.NamedTasks, true)
		equal(t, "required", c.RequiredTaskAcks, 5)
		want := []string{"Z", "a", "b", "é", "\U0001F600"}
		if !slices.Equal(c.MissingTasks, want) {
			t.Errorf("missing = %q, want %q", c.MissingTasks, want)
		}
		r.accept(c.ID, "a")
		if got := r.get(c.ID).MissingTasks; !slices.Equal(got, []string{"Z", "b", "é", "\U0001F600"}) {
			t.Errorf("missing after the ack of a = %q", got)
		}
	})
	s.rule(t, "only the first missing names are shown", func(t *testing.T, r *rig) {
		c := r.trigger(named(names(50)...))
		if want := names(50)[:coordinator.MissingTasksShown]; !slices.Equal(c.MissingTasks, want) {
			t.Errorf("missing = %q, want %q", c.MissingTasks, want)
		}
	})
	for _, n := range []int{1000, 1001, coordinator.MaxTasks} {
		s.rule(t, fmt.Sprintf("%d named tasks can acknowledge, and nobody else", n), func(t *testing.T, r *rig) {
			tasks := names(n)
			c := r.trigger(named(tasks...))
			r.ackRefused(coordinator.CodeTaskNotExpected, c.ID, "stranger")
			for chunk := range slices.Chunk(tasks, coordinator.MaxBulkAcks) {
				items := make([]coordinator.AckItem, 0, len(chunk))
				for _, task := range chunk {
					items = append(items, item(task))
				}
				r.acks(c.ID, items...)
			}
			got := r.get(c.ID)
			equal(t, "status", got.Status, coordinator.StatusCompleted)
			equal(t, "acknowledged", got.AcknowledgedTasks, n)
			equal(t, "acks shown", len(got.Acks), coordinator.AcksShown)
		})
	}
	s.rule(t, "long name lists go with their checkpoint", func(t *testing.T, r *rig) {
		r.delete(r.trigger(named(names(1500)...)).ID)
		r.aborted(named(names(1500)...))
	})
	s.rule(t, "the cap counts pending checkpoints of its own job only", func(t *testing.T, r *rig) {
		first := r.trigger(atMostPending(2))
		r.completed(atMostPending(2))
		r.trigger(atMostPending(2))
		_, err := r.store.Trigger(t.Context(), r.triggerCall(atMostPending(2)))
		r.refused(err, coordinator.CodeTooManyPending)
		r.in("orders").trigger(atMostPending(1))
		r.abort(first.ID)
		r.trigger(atMostPending(2))
	})
	s.rule(t, "pendings past their deadline do not count towards the cap", func(t *testing.T, r *rig) {
		r.trigger(atMostPending(1), timeout(1000))
		r.clock.Advance(1000)
		_, err := r.store.Trigger(t.Context(), r.triggerCall(atMostPending(1)))
		r.refused(err, coordinator.CodeTooManyPending)
		r.clock.Advance(1)
		r.trigger(atMostPending(1))
	})
	s.rule(t, "a trigger beyond the cap leaves nothing", func(t *testing.T, r *rig) {
		r.trigger(atMostPending(1))
		before := r.state()
		_, err := r.store.Trigger(t.Context(), r.triggerCall(atMostPending(1), named(names(1500)...)))
		r.refused(err, coordinator.CodeTooManyPending)
		if diff := cmp.Diff(before, r.state()); diff != "" {
			t.Errorf("the job changed (-before +after):\n%s", diff)
		}
	})
	s.rule(t, "a trigger pins from the start when asked to", func(t *testing.T, r *rig) {
		c := r.trigger(pinned())
		equal(t, "pinned", c.Pinned, true)
		err := r.store.Delete(t.Context(), coordinator.DeleteCall{Job: r.job, ID: c.ID})
		r.refused(err, coordinator.CodePinned)
	})
	s.rule(t, "a new checkpoint names the epoch of its job", func(t *testing.T, r *rig) {
		equal(t, "epoch", r.trigger().Epoch, 0)
		r.recover("")
		r.recover("")
		equal(t, "epoch after two recoveries", r.trigger().Epoch, 2)
	})
}

// names gives n task names whose byte order is their order.
func names(n int) []string {
	tasks := make([]string, n)
	for i := range tasks {
		tasks[i] = fmt.Sprintf("task-%05d", i)
	}
	return tasks
}
