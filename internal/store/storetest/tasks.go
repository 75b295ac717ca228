package storetest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// tasks reads all pages of a checkpoint's tasks.
func (r *rig) tasks(id int64, status coordinator.TaskStatus, limit int) []coordinator.TaskState {
	r.t.Helper()
	call := coordinator.TasksCall{Ref: r.ref(id), Status: status, Limit: limit}
	var all []coordinator.TaskState
	for {
		page, err := r.store.Tasks(r.t.Context(), call)
		r.check("tasks", err)
		if len(page.Tasks) > limit {
			r.t.Fatalf("a page of at most %d has %d tasks", limit, len(page.Tasks))
		}
		all = append(all, page.Tasks...)
		if page.Next == "" {
			return all
		}
		if page.Next <= call.After {
			r.t.Fatalf("the page after %q names %q as the next", call.After, page.Next)
		}
		call.After = page.Next
	}
}

func (r *rig) taskIDs(id int64, status coordinator.TaskStatus, limit int) []string {
	r.t.Helper()
	ids := []string{}
	for _, task := range r.tasks(id, status, limit) {
		ids = append(ids, task.TaskID)
	}
	return ids
}

func testTasks(t *testing.T, s suite) {
	wantIDs := func(t *testing.T, what string, got, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	s.rule(t, "named tasks are listed in byte order with where each stands", func(t *testing.T, r *rig) {
		c := r.trigger(named("b", "é", "a", "Z", "\U0001F600", "\uffff"))
		p := part("b", "k", "1")
		r.clock.Advance(20)
		r.accept(c.ID, "b", with(p), attempt(2))
		r.upload(c.ID, "a", part("a", "k", "1"))
		want := []coordinator.TaskState{
			{TaskID: "Z", Status: coordinator.TaskMissing},
			{TaskID: "a", Status: coordinator.TaskMissing, Uploaded: new(info(part("a", "k", "1")))},
			{TaskID: "b", Status: coordinator.TaskAcknowledged, Ack: &coordinator.Ack{TaskID: "b", Attempt: 2, AcknowledgedAt: c.Start + 20, LatencyMs: 20, Part: info(p)}},
			{TaskID: "é", Status: coordinator.TaskMissing},
			{TaskID: "\uffff", Status: coordinator.TaskMissing},
			{TaskID: "\U0001F600", Status: coordinator.TaskMissing},
		}
		for _, limit := range []int{1, 2, 6, 1000} {
			if diff := cmp.Diff(want, r.tasks(c.ID, "", limit)); diff != "" {
				t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
			}
		}
		for _, state := range want {
			got, err := r.store.Task(t.Context(), r.ref(c.ID), state.TaskID)
			r.check("task", err)
			if diff := cmp.Diff(state, got); diff != "" {
				t.Errorf("the task alone (-want +got):\n%s", diff)
			}
		}
	})
	s.rule(t, "a status selects tasks, page by page", func(t *testing.T, r *rig) {
		tasks := names(40)
		c := r.trigger(named(tasks...))
		var acked, missing []string
		for i, task := range tasks {
			if i%3 == 0 {
				r.accept(c.ID, task)
				acked = append(acked, task)
			} else {
				missing = append(missing, task)
			}
		}
		for _, limit := range []int{1, 7, 100} {
			wantIDs(t, "acknowledged", r.taskIDs(c.ID, coordinator.TaskAcknowledged, limit), acked)
			wantIDs(t, "missing", r.taskIDs(c.ID, coordinator.TaskMissing, limit), missing)
			wantIDs(t, "all", r.taskIDs(c.ID, "", limit), tasks)
		}
	})
	s.rule(t, "without named tasks those that acknowledged are known", func(t *testing.T, r *rig) {
		c := r.trigger(requires(5))
		r.accept(c.ID, "b")
		r.accept(c.ID, "a")
		wantIDs(t, "all", r.taskIDs(c.ID, "", 10), []string{"a", "b"})
		wantIDs(t, "acknowledged", r.taskIDs(c.ID, coordinator.TaskAcknowledged, 1), []string{"a", "b"})
		wantIDs(t, "missing", r.taskIDs(c.ID, coordinator.TaskMissing, 10), []string{})
	})
	s.rule(t, "a task that is not in the checkpoint is told so", func(t *testing.T, r *rig) {
		open, closed := r.trigger(requires(2)), r.trigger(named("a"))
		for _, id := range []int64{open.ID, closed.ID} {
			_, err := r.store.Task(t.Context(), r.ref(id), "stranger")
			r.refused(err, coordinator.CodeTaskNotInCheckpoint)
		}
	})
	s.rule(t, "the tasks of a checkpoint stay known after its end, however it ended", func(t *testing.T, r *rig) {
		for _, end := range []func(int64){
			func(id int64) { r.complete(id, true) },
			func(id int64) { r.abort(id) },
			func(int64) { r.clock.Advance(60_001); r.sweep() },
		} {
			c := r.trigger(named("a", "b"))
			r.accept(c.ID, "a", with(part("a", "k", "1")))
			end(c.ID)
			wantIDs(t, "acknowledged", r.taskIDs(c.ID, coordinator.TaskAcknowledged, 10), []string{"a"})
			wantIDs(t, "missing", r.taskIDs(c.ID, coordinator.TaskMissing, 10), []string{"b"})
			got, err := r.store.Task(t.Context(), r.ref(c.ID), "a")
			r.check("task", err)
			if got.Ack == nil || got.Ack.Part != info(part("a", "k", "1")) {
				t.Errorf("the ack is %+v", got.Ack)
			}
		}
	})
	s.rule(t, "in a checkpoint that has ended no uploaded part waits any more, however it ended", func(t *testing.T, r *rig) {
		for _, end := range []func(int64){
			func(id int64) { r.complete(id, true) },
			func(id int64) { r.abort(id) },
			func(int64) { r.clock.Advance(60_001) }, // as derived
			func(int64) { r.clock.Advance(60_001); r.sweep() },
		} {
			c := r.trigger(named("a", "b"))
			r.upload(c.ID, "a", part("a", "k", "1"))
			r.upload(c.ID, "b", part("b"))
			end(c.ID)
			want := []coordinator.TaskState{{TaskID: "a", Status: coordinator.TaskMissing}, {TaskID: "b", Status: coordinator.TaskMissing}}
			wantSame(t, want, r.tasks(c.ID, "", 10))
			got, err := r.store.Task(t.Context(), r.ref(c.ID), "a")
			r.check("task", err)
			wantSame(t, want[0], got)
		}
	})
	s.rule(t, "get shows the first acks by task id", func(t *testing.T, r *rig) {
		tasks := names(coordinator.AcksShown + 20)
		c := r.trigger(requires(1000))
		backwards := slices.Clone(tasks)
		slices.Reverse(backwards)
		for _, task := range backwards {
			r.accept(c.ID, task)
		}
		var got []string
		for _, ack := range r.get(c.ID).Acks {
			got = append(got, ack.TaskID)
		}
		wantIDs(t, "acks", got, tasks[:coordinator.AcksShown])
	})
	s.rule(t, "latest reads the tasks of the latest completed checkpoint", func(t *testing.T, r *rig) {
		_, err := r.store.Tasks(t.Context(), coordinator.TasksCall{Ref: r.ref(coordinator.Latest), Limit: 10})
		r.refused(err, coordinator.CodeNoCompletedCheckpoint)
		c := r.completed()
		r.trigger()
		page, err := r.store.Tasks(t.Context(), coordinator.TasksCall{Ref: r.ref(coordinator.Latest), Limit: 10})
		r.check("tasks", err)
		equal(t, "checkpoint", page.Checkpoint.ID, c.ID)
	})
}
