package storetest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// setAside sets a checkpoint aside, or takes it back.
func (r *rig) setAside(id int64, aside bool) coordinator.Checkpoint {
	r.t.Helper()
	c, err := r.store.Update(r.t.Context(), coordinator.UpdateCall{Job: r.job, ID: id, SetAside: &aside})
	r.check("update", err)
	equal(r.t, "set aside", c.SetAside, aside)
	return c
}

// goBack restarts the fleet from a checkpoint that is named.
func (r *rig) goBack(key string, id int64) (coordinator.RecoverResult, error) {
	call := r.recoverCall(key)
	call.CheckpointID, call.Fingerprint = &id, "recover "+string(rune('0'+id))
	return r.store.Recover(r.t.Context(), call)
}

func testSetAside(t *testing.T, s suite) {
	s.rule(t, "what is set aside is nobody's latest until it is taken back, and stays as it is otherwise", func(t *testing.T, r *rig) {
		ids := r.completedTimes(3)
		before := r.get(ids[2])
		got := r.setAside(ids[2], true)
		equal(t, "revision", got.Revision, before.Revision+1)
		equal(t, "status", got.Status, coordinator.StatusCompleted)
		wantSame(t, got, r.get(ids[2]).Checkpoint)
		equal(t, "latest", r.get(coordinator.Latest).ID, ids[1])
		equal(t, "latest of the job", r.state().LatestID, ids[1])
		equal(t, "restored as the latest", r.restored(coordinator.Latest), r.restored(ids[1]))
		equal(t, "restored by its id", r.restored(ids[2]), r.restored(ids[0]))
		equal(t, "the next recovery", r.recover("").Checkpoint.ID, ids[1])
		gone := r.aborted()
		refusal := r.ackRefused(coordinator.CodeCheckpointAborted, gone.ID, "late")
		equal(t, "latest in a refusal", *refusal.Latest, ids[1])
		r.reopen()
		equal(t, "latest after a restart", r.get(coordinator.Latest).ID, ids[1])
		equal(t, "still set aside", r.pin(ids[2], false).SetAside, true)
		equal(t, "revision", r.setAside(ids[2], false).Revision, before.Revision+3)
		equal(t, "latest again", r.get(coordinator.Latest).ID, ids[2])
	})
	s.rule(t, "where all are set aside there is no latest, which is no 'none yet'", func(t *testing.T, r *rig) {
		ids := r.completedTimes(2)
		r.setAside(ids[0], true)
		r.setAside(ids[1], true)
		epoch := r.state().Epoch
		pending := r.trigger()
		r.getRefused(coordinator.CodeAllSetAside, coordinator.Latest)
		_, err := r.store.OpenRestore(t.Context(), r.restoreCall(coordinator.Latest))
		r.refused(err, coordinator.CodeAllSetAside)
		_, err = r.store.SharedState(t.Context(), r.ref(coordinator.Latest))
		r.refused(err, coordinator.CodeAllSetAside)
		_, err = r.store.Recover(t.Context(), r.recoverCall("key"))
		r.refused(err, coordinator.CodeAllSetAside)
		equal(t, "epoch after a refused recovery", r.state().Epoch, epoch)
		r.wantStatus(pending.ID, coordinator.StatusPending)
		equal(t, "latest of the job", r.state().LatestID, -1)
		r.markDamaged(ids[1])
		r.getRefused(coordinator.CodeSnapshotDamaged, coordinator.Latest)
		r.setAside(ids[0], false)
		equal(t, "latest", r.get(coordinator.Latest).ID, ids[0])
		r.setAside(ids[0], true)
		r.delete(ids[0])
		r.delete(ids[1])
		r.getRefused(coordinator.CodeNoCompletedCheckpoint, coordinator.Latest)
	})
	s.rule(t, "retention and cleanup neither count nor remove what is set aside", func(t *testing.T, r *rig) {
		r.defaults.Keep = 2
		first := r.completed()
		r.setAside(first.ID, true)
		ids := r.completedTimes(3)
		r.wantIDs("completed", r.list(coordinator.ListCall{Status: coordinator.StatusCompleted}), ids[2], ids[1], first.ID)
		r.setAside(ids[2], true)
		r.sweep()
		r.wantIDs("deleted", r.cleanup(0).Deleted, ids[1])
		r.wantIDs("left", r.list(coordinator.ListCall{}), ids[2], first.ID)
		newer := r.completedTimes(2)
		r.setAside(first.ID, false)
		equal(t, "taken back", r.get(first.ID).Status, coordinator.StatusCompleted)
		last := r.completed()
		r.wantIDs("left of those that are counted", r.list(coordinator.ListCall{}), last.ID, newer[1], ids[2])
		r.delete(ids[2])
		r.getRefused(coordinator.CodeCheckpointDeleted, ids[2])
	})
	s.rule(t, "retention by bytes and by age does not count it either", func(t *testing.T, r *rig) {
		r.defaults.MaxAgeMs = 1000
		first := r.completed()
		r.setAside(first.ID, true)
		r.clock.Advance(5000)
		r.defaults.MaxBytes = 1
		r.completed()
		last := r.completed()
		r.sweep()
		r.wantIDs("left", r.list(coordinator.ListCall{}), last.ID, first.ID)
	})
	s.rule(t, "a pin and the mark of damage do not depend on it", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		c := r.completed(pinned())
		r.setAside(c.ID, true)
		r.setAside(c.ID, false)
		equal(t, "pinned", r.get(c.ID).Pinned, true)
		r.setAside(c.ID, true)
		r.pin(c.ID, false)
		r.markDamaged(c.ID)
		r.setAside(c.ID, false)
		last := r.completedTimes(2)[1]
		r.wantIDs("left", r.list(coordinator.ListCall{}), last, c.ID)
		r.setAside(c.ID, true)
		r.repair(c.ID)
		r.getRefused("", c.ID)
		r.completed()
		equal(t, "repaired and still set aside", r.get(c.ID).SetAside, true)
	})
	s.rule(t, "only what is completed can be set aside", func(t *testing.T, r *rig) {
		late := r.trigger(timeout(1))
		r.clock.Advance(2)
		pending, gone := r.trigger(), r.aborted()
		for _, c := range []coordinator.Checkpoint{late, pending, gone} {
			before := r.get(c.ID)
			for aside, want := range map[bool]coordinator.Code{true: coordinator.CodeCheckpointNotCompleted, false: ""} {
				_, err := r.store.Update(t.Context(), coordinator.UpdateCall{Job: r.job, ID: c.ID, SetAside: &aside})
				r.refused(err, want)
			}
			equal(t, "status", r.get(c.ID).Status, before.Status)
			equal(t, "set aside", r.get(c.ID).SetAside, false)
		}
	})
	s.rule(t, "the event of a change says whether it is set aside, and who asked", func(t *testing.T, r *rig) {
		c := r.completed()
		mark := r.position()
		for _, aside := range []bool{true, false} {
			_, err := r.store.Update(t.Context(), coordinator.UpdateCall{Job: r.job, ID: c.ID, SetAside: &aside, By: "ops"})
			r.check("update", err)
		}
		got := r.eventsAfter(mark)
		if len(got) != 2 || got[0].Type != coordinator.EventUpdated || !got[0].SetAside || got[1].SetAside || got[0].By != "ops" {
			t.Errorf("the events are %+v", got)
		}
	})
	s.rule(t, "an export carries it", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		ids := r.completedTimes(1)
		r.setAside(ids[0], true)
		text := r.export()
		if strings.Count(text, `"setAside":true`) != 1 {
			t.Errorf("the export has\n%s", text)
		}
		copied := r.in("copy")
		r.check("import", r.importInto(copied.job, text))
		copied.getRefused(coordinator.CodeAllSetAside, coordinator.Latest)
		copied.completedTimes(2)
		equal(t, "kept", len(copied.list(coordinator.ListCall{})), 2)
		equal(t, "set aside", copied.get(ids[0]).SetAside, true)
		if diff := cmp.Diff(text, r.export()); diff != "" {
			t.Errorf("the export changed (-before +after):\n%s", diff)
		}
	})
	s.rule(t, "a recovery goes back to the completed checkpoint that it names", func(t *testing.T, r *rig) {
		ids := r.completedTimes(3)
		pending := r.trigger()
		result, err := r.goBack("", ids[0])
		r.check("recover", err)
		equal(t, "checkpoint", result.Checkpoint.ID, ids[0])
		equal(t, "epoch", result.Epoch, 1)
		r.wantIDs("ended", result.Ended, pending.ID)
		r.wantStatus(pending.ID, coordinator.StatusAborted)
		r.wantIDs("skipped by a cleanup", r.cleanup(0).Skipped, ids[0])
		got := r.eventsAfter(coordinator.EventID{})
		recovered := false
		for _, e := range got {
			recovered = recovered || e.Type == coordinator.EventRecovered && e.CheckpointID == ids[0]
		}
		equal(t, "an event names it", recovered, true)
	})
	s.rule(t, "it may be one that is set aside, and is named by it alone", func(t *testing.T, r *rig) {
		ids := r.completedTimes(2)
		r.setAside(ids[0], true)
		result, err := r.goBack("", ids[0])
		r.check("recover", err)
		equal(t, "checkpoint", result.Checkpoint.ID, ids[0])
		equal(t, "the next recovery", r.recover("").Checkpoint.ID, ids[1])
	})
	s.rule(t, "a recovery to what cannot be gone back to is refused, and changes nothing", func(t *testing.T, r *rig) {
		damaged, gone, deleted, pending := r.completed(), r.aborted(), r.completed(), r.trigger()
		late := r.trigger(timeout(1))
		r.clock.Advance(2)
		r.markDamaged(damaged.ID)
		r.delete(deleted.ID)
		epoch := r.state().Epoch
		for id, want := range map[int64]coordinator.Code{
			damaged.ID: coordinator.CodeSnapshotDamaged, gone.ID: coordinator.CodeCheckpointNotCompleted, deleted.ID: coordinator.CodeCheckpointDeleted,
			pending.ID: coordinator.CodeCheckpointNotCompleted, late.ID: coordinator.CodeCheckpointNotCompleted, late.ID + 1: coordinator.CodeCheckpointNotFound,
		} {
			_, err := r.goBack("key", id)
			r.refused(err, want)
		}
		_, err := r.in("nobody").goBack("", 0)
		r.refused(err, coordinator.CodeJobNotFound)
		_, err = r.store.Job(t.Context(), "nobody")
		r.refused(err, coordinator.CodeJobNotFound)
		equal(t, "epoch", r.state().Epoch, epoch)
		r.wantStatus(pending.ID, coordinator.StatusPending)
	})
	s.rule(t, "an Idempotency-Key is for the checkpoint that came with it", func(t *testing.T, r *rig) {
		ids := r.completedTimes(2)
		first, err := r.goBack("crash", ids[0])
		r.check("recover", err)
		r.setAside(ids[0], true)
		again, err := r.goBack("crash", ids[0])
		r.check("recover again", err)
		equal(t, "repeated", again.Repeated, true)
		equal(t, "epoch", again.Epoch, first.Epoch)
		equal(t, "checkpoint", again.Checkpoint.ID, ids[0])
		_, err = r.goBack("crash", ids[1])
		r.refused(err, coordinator.CodeIdempotencyKeyReused)
		_, err = r.store.Recover(t.Context(), r.recoverCall("crash"))
		r.refused(err, coordinator.CodeIdempotencyKeyReused)
	})
}
