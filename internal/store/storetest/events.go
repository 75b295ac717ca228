package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// testEvents is about what the events of a job's log tell; where they stand in the log is
// testEventLog's.
func testEvents(t *testing.T, s suite) {
	rule := func(t *testing.T, sentence string, body func(*testing.T, *rig)) {
		t.Helper()
		s.rule(t, sentence, func(t *testing.T, r *rig) {
			r.defaults.TolerableFailures = 100
			body(t, r)
		})
	}
	rule(t, "a trigger's event has what a worker needs to take part", func(t *testing.T, r *rig) {
		c := r.trigger(named(names(25)...), timeout(5000))
		r.wantEvents(coordinator.EventID{}, coordinator.Event{
			Type: coordinator.EventTriggered, CheckpointID: c.ID, Status: coordinator.StatusPending,
			RequiredTaskAcks: 25, MissingTasks: names(25)[:coordinator.MissingTasksShown], Deadline: c.Start + 5000,
		})
	})
	rule(t, "a trigger's event has no deadline where there is none, and no names where any task may come", func(t *testing.T, r *rig) {
		r.clock.Advance(70)
		c := r.trigger(requires(2), timeout(0))
		r.wantEvents(coordinator.EventID{}, coordinator.Event{
			Type: coordinator.EventTriggered, CheckpointID: c.ID, Status: coordinator.StatusPending, RequiredTaskAcks: 2,
		})
	})
	rule(t, "an ack that completes nothing has no event, the completing one has one with the snapshot's size", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"))
		r.shared(c.ID, "s", "0")
		p := part("a", "k", "1", "l", "2")
		mark := r.position()
		r.clock.Advance(30)
		r.accept(c.ID, "a", with(p))
		r.wantEvents(mark)
		r.accept(c.ID, "b")
		r.wantEvents(mark, coordinator.Event{
			Type: coordinator.EventCompleted, CheckpointID: c.ID, Status: coordinator.StatusCompleted,
			RequiredTaskAcks: 2, AcknowledgedTasks: 2, DurationMs: 30,
			Entries: 3, Bytes: int64(len(p.Content) + len(sharedLines("s", "0"))),
		})
	})
	rule(t, "a completion by an upload with its ack has the same event", func(t *testing.T, r *rig) {
		c := r.trigger()
		mark := r.position()
		r.clock.Advance(30)
		p := bigPart("task-1", 2*coordinator.ChunkBytes)
		r.uploadAndAck(c.ID, "task-1", p)
		r.wantEvents(mark, coordinator.Event{
			Type: coordinator.EventCompleted, CheckpointID: c.ID, Status: coordinator.StatusCompleted,
			RequiredTaskAcks: 1, AcknowledgedTasks: 1, DurationMs: 30, Entries: 1, Bytes: int64(len(p.Content)),
		})
	})
	rule(t, "a completion by hand has the same event, with the acknowledgements that there were", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b", "c"))
		r.accept(c.ID, "a")
		mark := r.position()
		r.clock.Advance(10)
		r.complete(c.ID, true)
		r.complete(c.ID, true)
		r.wantEvents(mark, coordinator.Event{
			Type: coordinator.EventCompleted, CheckpointID: c.ID, Status: coordinator.StatusCompleted,
			RequiredTaskAcks: 3, AcknowledgedTasks: 1, DurationMs: 10,
		})
	})
	rule(t, "an expiry's event comes when it is written, and tells how long the checkpoint lived and who was missing", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"), timeout(1000))
		r.accept(c.ID, "a")
		mark := r.position()
		r.clock.Advance(1500)
		r.wantStatus(c.ID, coordinator.StatusExpired)
		r.wantEvents(mark)
		r.sweep()
		r.sweep()
		r.wantEvents(mark, coordinator.Event{
			Type: coordinator.EventExpired, CheckpointID: c.ID, Status: coordinator.StatusExpired,
			RequiredTaskAcks: 2, AcknowledgedTasks: 1, MissingTasks: []string{"b"}, DurationMs: 1000,
			Failure: &coordinator.Failure{Reason: coordinator.ReasonExpired},
		})
	})
	rule(t, "an expiry that a refused call writes has its event all the same", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		mark := r.position()
		r.clock.Advance(1001)
		r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "task-1")
		r.wantKinds(mark, kind(coordinator.EventExpired, c.ID))
	})
	rule(t, "an abort's event tells why", func(t *testing.T, r *rig) {
		one, two := r.trigger(requires(2)), r.trigger(named("a", "b"))
		r.accept(one.ID, "a")
		mark := r.position()
		r.clock.Advance(30)
		_, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: one.ID, Message: "disk \"full\"\n", Token: r.token()})
		r.check("abort", err)
		r.abort(one.ID)
		_, err = r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: two.ID, TaskID: "a", Message: "busy", Token: r.token()})
		r.check("decline", err)
		r.wantEvents(mark, coordinator.Event{
			Type: coordinator.EventAborted, CheckpointID: one.ID, Status: coordinator.StatusAborted,
			RequiredTaskAcks: 2, AcknowledgedTasks: 1, DurationMs: 30,
			Failure: &coordinator.Failure{Reason: coordinator.ReasonAborted, Message: "disk \"full\"\n"},
		}, coordinator.Event{
			Type: coordinator.EventAborted, CheckpointID: two.ID, Status: coordinator.StatusAborted,
			RequiredTaskAcks: 2, MissingTasks: []string{"a", "b"}, DurationMs: 30,
			Failure: &coordinator.Failure{Reason: coordinator.ReasonDeclined, TaskID: "a", Message: "busy"},
		})
	})
	rule(t, "a deletion's event tells why it went and what it was last", func(t *testing.T, r *rig) {
		done, gone := r.completed(), r.aborted()
		mark := r.position()
		r.clock.Advance(5)
		r.delete(done.ID)
		r.delete(gone.ID)
		size := int64(len(part("task-1", "k", "1").Content))
		r.wantEvents(mark, coordinator.Event{
			Type: coordinator.EventDeleted, CheckpointID: done.ID, Status: coordinator.StatusCompleted,
			RequiredTaskAcks: 1, AcknowledgedTasks: 1, Entries: 1, Bytes: size, Why: coordinator.DeletedByRequest,
		}, coordinator.Event{
			Type: coordinator.EventDeleted, CheckpointID: gone.ID, Status: coordinator.StatusAborted, RequiredTaskAcks: 1,
			Failure: &coordinator.Failure{Reason: coordinator.ReasonAborted}, Why: coordinator.DeletedByRequest,
		})
	})
	rule(t, "a pending one that is deleted or cleaned away is aborted first", func(t *testing.T, r *rig) {
		one, two := r.trigger(), r.trigger()
		mark := r.position()
		r.clock.Advance(5)
		r.delete(one.ID)
		r.cleanup(0)
		want := func(kind coordinator.EventType, id int64, reason coordinator.FailureReason, why coordinator.DeletionReason) coordinator.Event {
			return coordinator.Event{
				Type: kind, CheckpointID: id, Status: coordinator.StatusAborted, RequiredTaskAcks: 1, DurationMs: 5,
				Failure: &coordinator.Failure{Reason: reason}, Why: why,
			}
		}
		r.wantEvents(mark,
			want(coordinator.EventAborted, one.ID, coordinator.ReasonAborted, ""),
			want(coordinator.EventDeleted, one.ID, coordinator.ReasonAborted, coordinator.DeletedByRequest),
			want(coordinator.EventAborted, two.ID, coordinator.ReasonEvicted, ""),
			want(coordinator.EventDeleted, two.ID, coordinator.ReasonEvicted, coordinator.DeletedByCleanup),
		)
	})
	rule(t, "what retention takes is told after the completion that made it too many", func(t *testing.T, r *rig) {
		r.defaults.Keep = 2
		ids := r.completedTimes(2)
		c := r.trigger()
		mark := r.position()
		r.accept(c.ID, "task-1")
		got := r.wantKinds(mark, kind(coordinator.EventCompleted, c.ID), kind(coordinator.EventDeleted, ids[0]))
		equal(t, "why", got[1].Why, coordinator.DeletedByRetention)
	})
	rule(t, "what newer failures push out is told as deleted by retention, after them", func(t *testing.T, r *rig) {
		first := r.aborted()
		for range coordinator.EndedKept - 1 {
			r.aborted()
		}
		c := r.trigger()
		mark := r.position()
		r.abort(c.ID)
		got := r.wantKinds(mark, kind(coordinator.EventAborted, c.ID), kind(coordinator.EventDeleted, first.ID))
		equal(t, "why", got[1].Why, coordinator.DeletedByRetention)
	})
	rule(t, "a cleanup tells what it takes in the order of its answer, and its dry run nothing", func(t *testing.T, r *rig) {
		one, gone, two := r.completed(), r.aborted(), r.completed()
		mark := r.position()
		_, err := r.store.Cleanup(t.Context(), coordinator.CleanupCall{Job: r.job, DryRun: true, Max: coordinator.MaxCleanupAnswer})
		r.check("dry run", err)
		r.wantKinds(mark)
		r.cleanup(0)
		for _, e := range r.wantKinds(mark, kind(coordinator.EventDeleted, gone.ID), kind(coordinator.EventDeleted, one.ID), kind(coordinator.EventDeleted, two.ID)) {
			equal(t, "why", e.Why, coordinator.DeletedByCleanup)
		}
	})
	rule(t, "a recovery tells what it ended and then the new epoch, in whose name it stands, and where to go on from", func(t *testing.T, r *rig) {
		done := r.completed()
		late, open := r.trigger(timeout(10)), r.trigger()
		mark := r.position()
		r.clock.Advance(11)
		r.recover("crash")
		r.recover("crash")
		got := r.wantKinds(mark, kind(coordinator.EventExpired, late.ID), kind(coordinator.EventAborted, open.ID), kind(coordinator.EventRecovered, done.ID))
		equal(t, "epoch of what it ended", got[1].ID.Epoch, 0)
		if diff := cmp.Diff(&coordinator.Failure{Reason: coordinator.ReasonSuperseded}, got[1].Failure); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
		equal(t, "epoch of the recovery", got[2].ID.Epoch, 1)
		equal(t, "epoch of the position", r.position().Epoch, 1)
	})
	rule(t, "a recovery from nothing names no checkpoint", func(t *testing.T, r *rig) {
		r.recover("")
		got := r.wantKinds(coordinator.EventID{}, kind(coordinator.EventRecovered, -1))
		if got[0].Status != "" || got[0].Failure != nil || got[0].RequiredTaskAcks != 0 {
			t.Errorf("the event says more of a checkpoint than there is: %+v", got[0])
		}
	})
	s.rule(t, "a job that begins to fail is told right after the failure that did it, and once", func(t *testing.T, r *rig) {
		r.defaults.TolerableFailures = 1
		one, two := r.trigger(), r.trigger(timeout(1000))
		three := r.trigger(timeout(5000))
		mark := r.position()
		r.decline(one.ID, "a")
		r.clock.Advance(1001)
		r.sweep()
		failing := r.clock.Now()
		r.clock.Advance(4000)
		r.sweep()
		got := r.wantKinds(mark, kind(coordinator.EventAborted, one.ID), kind(coordinator.EventExpired, two.ID), kind(coordinator.EventFailing, two.ID), kind(coordinator.EventExpired, three.ID))
		want := coordinator.Event{
			Type: coordinator.EventFailing, Job: r.job, At: failing, CheckpointID: two.ID, ConsecutiveFailures: 2,
			Failure: &coordinator.Failure{Reason: coordinator.ReasonExpired},
		}
		if diff := diffEvents([]coordinator.Event{want}, got[2:3]); diff != "" {
			t.Errorf("the event (-want +got):\n%s", diff)
		}
	})
	s.rule(t, "a job that is well again is told right after the completion that did it, and once", func(t *testing.T, r *rig) {
		r.decline(r.trigger().ID, "a")
		r.defaults.Keep = 1
		old, c := r.completed(), r.trigger()
		r.decline(r.trigger().ID, "b")
		mark := r.position()
		r.accept(c.ID, "task-1")
		r.wantKinds(mark, kind(coordinator.EventCompleted, c.ID), kind(coordinator.EventHealthy, c.ID), kind(coordinator.EventDeleted, old.ID))
		mark = r.position()
		r.defaults.Keep = 0
		next := r.completed()
		r.wantKinds(mark, kind(coordinator.EventTriggered, next.ID), kind(coordinator.EventCompleted, next.ID))
	})
	rule(t, "a call that is refused tells nothing", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 2
		done, pinnedOne, open := r.completed(), r.completed(pinned()), r.trigger(named("a", "b"))
		r.trigger()
		r.accept(open.ID, "a", attempt(1))
		mark := r.position()
		_, err := r.store.Trigger(t.Context(), r.triggerCall())
		r.refused(err, coordinator.CodeTooManyPending)
		r.ackRefused(coordinator.CodeTaskNotExpected, open.ID, "stranger")
		r.ackRefused(coordinator.CodeCheckpointCompleted, done.ID, "late")
		_, err = r.store.Complete(t.Context(), r.completeCall(open.ID, false))
		r.refused(err, coordinator.CodeAcksMissing)
		_, err = r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: done.ID, Token: r.token()})
		r.refused(err, coordinator.CodeCheckpointCompleted)
		r.refused(r.store.Delete(t.Context(), coordinator.DeleteCall{Job: r.job, ID: pinnedOne.ID}), coordinator.CodePinned)
		_, err = r.store.DeleteJob(t.Context(), r.deleteJobCall(false))
		r.refused(err, coordinator.CodePinned)
		r.wantEvents(mark)
	})
	rule(t, "what changes no status tells nothing", func(t *testing.T, r *rig) {
		c := r.trigger(requires(3), withKey("k", "body"))
		mark := r.position()
		r.accept(c.ID, "a")
		r.ack(c.ID, "a")
		r.trigger(requires(3), withKey("k", "body"))
		r.shared(c.ID, "k", "1")
		r.upload(c.ID, "b", part("b", "k", "1"))
		r.forgetTask("a")
		r.sweep()
		r.wantEvents(mark)
	})
	rule(t, "a change of labels, description or pin is told with whether it is pinned now", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"), timeout(5000))
		mark := r.position()
		r.pin(c.ID, true)
		r.clock.Advance(10)
		_, err := r.store.Update(t.Context(), coordinator.UpdateCall{Job: r.job, ID: c.ID, Description: new("kept")})
		r.check("update", err)
		gone := r.abort(c.ID)
		r.pin(c.ID, false)
		want := coordinator.Event{
			Type: coordinator.EventUpdated, At: r.clock.Now() - 10, CheckpointID: c.ID, Status: coordinator.StatusPending, RequiredTaskAcks: 2,
			MissingTasks: []string{"a", "b"}, Deadline: c.Start + 5000, Pinned: true,
		}
		later := want
		later.At = r.clock.Now()
		ended := coordinator.Event{
			Type: coordinator.EventAborted, CheckpointID: c.ID, Status: coordinator.StatusAborted, RequiredTaskAcks: 2,
			MissingTasks: []string{"a", "b"}, DurationMs: gone.DurationMs(), Failure: gone.Failure,
		}
		unpinned := ended
		unpinned.Type = coordinator.EventUpdated
		r.wantEvents(mark, want, later, ended, unpinned)
	})
	rule(t, "other settings are told, and the end of a job after that of its checkpoints", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{Description: "d"})
		c := r.trigger()
		r.deleteJob(true)
		r.wantKinds(coordinator.EventID{}, kind(coordinator.EventConfigured, -1), kind(coordinator.EventTriggered, c.ID),
			kind(coordinator.EventAborted, c.ID), kind(coordinator.EventDeleted, c.ID), kind(coordinator.EventJobDeleted, -1))
	})
	testEventsBy(t, rule)
	rule(t, "the same call again after a lost reply tells nothing again", func(t *testing.T, r *rig) {
		r.resent = true
		trigger := r.triggerCall()
		var c coordinator.Checkpoint
		for range 2 {
			result, err := r.store.Trigger(t.Context(), trigger)
			r.check("trigger", err)
			c = result.Checkpoint
		}
		ack := r.ackCall(c.ID, item("task-1"))
		for range 2 {
			_, err := r.store.Acknowledge(t.Context(), ack)
			r.check("acknowledge", err)
		}
		recovery := r.recoverCall("")
		for range 2 {
			_, err := r.store.Recover(t.Context(), recovery)
			r.check("recover", err)
		}
		r.wantKinds(coordinator.EventID{}, kind(coordinator.EventTriggered, c.ID), kind(coordinator.EventCompleted, c.ID), kind(coordinator.EventRecovered, c.ID))
	})
}

// wantEvents checks what stands behind a place in the job's log. It fills in the job and,
// where a test leaves it out, the present time.
func (r *rig) wantEvents(place coordinator.EventID, want ...coordinator.Event) {
	r.t.Helper()
	got := r.eventsAfter(place)
	for i := range want {
		want[i].Job = r.job
		if want[i].At == 0 {
			want[i].At = r.clock.Now()
		}
	}
	if diff := diffEvents(want, got); diff != "" {
		r.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// diffEvents compares events but for their places in the log.
func diffEvents(want, got []coordinator.Event) string {
	return cmp.Diff(want, got, cmpopts.IgnoreUnexported(coordinator.Event{}), cmpopts.IgnoreFields(coordinator.Event{}, "ID"), cmpopts.EquateEmpty())
}

// kind names an event in short, as wantKinds compares them.
func kind(kind coordinator.EventType, id int64) string {
	return fmt.Sprintf("%s %d", kind, max(id, -1))
}

// wantKinds checks types and checkpoints of what stands behind a place in the job's log,
// and gives the events, which are as many as wanted.
func (r *rig) wantKinds(place coordinator.EventID, want ...string) []coordinator.Event {
	r.t.Helper()
	events := r.eventsAfter(place)
	got := []string{}
	for _, e := range events {
		got = append(got, kind(e.Type, e.CheckpointID))
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("events (-want +got):\n%s", cmp.Diff(want, got))
	}
	return events
}
