package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// lacks is what the suite's damaged checkpoints lack.
const lacks = `the part of task "task-1"`

func (r *rig) markDamaged(id int64) {
	r.t.Helper()
	r.check("mark damaged", r.store.MarkDamaged(r.t.Context(), coordinator.DamageCall{Job: r.job, ID: id, What: lacks, By: "ada"}))
}

func (r *rig) repair(id int64) {
	r.t.Helper()
	_, err := r.store.Update(r.t.Context(), coordinator.UpdateCall{Job: r.job, ID: id, Repaired: true})
	r.check("update", err)
}

func testDamage(t *testing.T, s suite) {
	s.rule(t, "a damaged checkpoint is nobody's latest, says what it lacks, and can still be asked for", func(t *testing.T, r *rig) {
		ids := r.completedTimes(3)
		mark := r.position()
		before := r.get(ids[2]).Revision
		r.markDamaged(ids[2])
		r.markDamaged(ids[2])
		got := r.get(ids[2])
		equal(t, "damage", got.Damage, lacks)
		equal(t, "status", got.Status, coordinator.StatusCompleted)
		equal(t, "revision", got.Revision, before+1)
		r.wantKinds(mark, kind(coordinator.EventUpdated, ids[2]))
		equal(t, "latest", r.get(coordinator.Latest).ID, ids[1])
		equal(t, "latest of the job", r.state().LatestID, ids[1])
		r.wantIDs("the list", r.list(coordinator.ListCall{Status: coordinator.StatusCompleted}), ids[2], ids[1], ids[0])
		equal(t, "what latest restores", r.openRestore(r.restoreCall(coordinator.Latest)).Checkpoint().ID, ids[1])
		equal(t, "what its id restores", r.openRestore(r.restoreCall(ids[2])).Checkpoint().ID, ids[2])
		equal(t, "where a fleet goes on", r.recover("").Checkpoint.ID, ids[1])
	})
	s.rule(t, "a damaged checkpoint takes no place of a whole one, and nobody takes it away unasked", func(t *testing.T, r *rig) {
		r.defaults.Keep = 2
		ids := r.completedTimes(2)
		r.markDamaged(ids[1])
		third := r.completed()
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), third.ID, ids[1], ids[0])
		r.pin(ids[1], true)
		r.pin(ids[1], false)
		fourth := r.completed()
		r.wantIDs("the list after it was pinned for a while", r.list(coordinator.ListCall{}), fourth.ID, third.ID, ids[1])
		r.wantIDs("what a cleanup takes", r.cleanup(0).Deleted, third.ID, fourth.ID)
		r.delete(ids[1])
		r.getRefused(coordinator.CodeNoCompletedCheckpoint, coordinator.Latest)
	})
	s.rule(t, "where all are damaged latest and recovery say so, and change nothing", func(t *testing.T, r *rig) {
		ids := r.completedTimes(2)
		pending := r.trigger()
		r.markDamaged(ids[0])
		r.markDamaged(ids[1])
		r.getRefused(coordinator.CodeSnapshotDamaged, coordinator.Latest)
		_, err := r.store.OpenRestore(t.Context(), r.restoreCall(coordinator.Latest))
		r.refused(err, coordinator.CodeSnapshotDamaged)
		_, err = r.store.SharedState(t.Context(), r.ref(coordinator.Latest))
		r.refused(err, coordinator.CodeSnapshotDamaged)
		_, err = r.store.Recover(t.Context(), r.recoverCall(""))
		r.refused(err, coordinator.CodeSnapshotDamaged)
		equal(t, "epoch", r.state().Epoch, 0)
		equal(t, "latest of the job", r.state().LatestID, -1)
		r.wantStatus(pending.ID, coordinator.StatusPending)
		r.delete(ids[0])
		r.delete(ids[1])
		if c := r.recover("").Checkpoint; c != nil {
			t.Errorf("a fleet goes on from %d, which was deleted", c.ID)
		}
	})
	s.rule(t, "a recovery's key that stands for a damaged checkpoint refuses, and a new key does not", func(t *testing.T, r *rig) {
		ids := r.completedTimes(2)
		equal(t, "the first recovery", r.recover("key").Checkpoint.ID, ids[1])
		r.markDamaged(ids[1])
		_, err := r.store.Recover(t.Context(), r.recoverCall("key"))
		r.refused(err, coordinator.CodeSnapshotDamaged)
		equal(t, "the next recovery", r.recover("next").Checkpoint.ID, ids[0])
	})
	s.rule(t, "what was repaired is the latest again, and in its place among those to keep", func(t *testing.T, r *rig) {
		r.defaults.Keep = 2
		ids := r.completedTimes(2)
		r.markDamaged(ids[1])
		r.repair(ids[1])
		equal(t, "damage", r.get(ids[1]).Damage, "")
		equal(t, "latest", r.get(coordinator.Latest).ID, ids[1])
		last := r.completed(pinned())
		r.markDamaged(last.ID)
		r.repair(last.ID)
		r.repair(r.aborted().ID)
		third := r.completed()
		r.wantIDs("the list", r.list(coordinator.ListCall{Status: coordinator.StatusCompleted}), third.ID, last.ID, ids[1])
	})
	s.rule(t, "an export leaves out what is known to be damaged", func(t *testing.T, r *rig) {
		ids := r.completedTimes(2)
		r.markDamaged(ids[1])
		text := r.export()
		if !strings.Contains(text, fmt.Sprintf(`"checkpointId":%d,`, ids[0])) || strings.Contains(text, fmt.Sprintf(`"checkpointId":%d,`, ids[1])) {
			t.Errorf("the export has\n%s", text)
		}
	})
	s.rule(t, "only what completed can be damaged", func(t *testing.T, r *rig) {
		pending, ended := r.trigger(), r.aborted()
		for _, id := range []int64{pending.ID, ended.ID, ended.ID + 1} {
			r.markDamaged(id)
		}
		for _, id := range []int64{pending.ID, ended.ID} {
			equal(t, "damage", r.get(id).Damage, "")
		}
		r.check("in a job that does not exist", r.store.MarkDamaged(t.Context(), coordinator.DamageCall{Job: "nobody", What: lacks}))
	})
	for verb, ask := range map[string]func(*coordinator.Coordinator, *rig) (int64, error){
		"restore": func(c *coordinator.Coordinator, r *rig) (int64, error) {
			restore, err := c.OpenRestore(r.t.Context(), coordinator.RestoreRequest{Ref: r.ref(coordinator.Latest)})
			if err != nil {
				return -1, err
			}
			defer restore.Close()
			return restore.Checkpoint().ID, nil
		},
		"recovery": func(c *coordinator.Coordinator, r *rig) (int64, error) {
			recovered, err := c.Recover(r.t.Context(), coordinator.RecoverRequest{Job: r.job})
			if err != nil {
				return -1, err
			}
			return recovered.Checkpoint.ID, nil
		},
	} {
		s.rule(t, "a "+verb+" passes the latest over that has lost a part", func(t *testing.T, r *rig) {
			if r.storage.Damage == nil {
				t.Skip("this storage offers no way to damage a part")
			}
			r.tolerant = true
			var ids []int64
			for range 3 {
				c := r.trigger(requires(1))
				r.uploadAndAck(c.ID, "a", bigPart("a", 2*coordinator.ChunkBytes))
				ids = append(ids, c.ID)
			}
			r.betweenRuns(func() {
				r.storage.Damage(t, Damage{Job: r.job, ID: ids[2], TaskID: "a", Kind: LoseLast})
				r.storage.Damage(t, Damage{Job: r.job, ID: ids[1], TaskID: "a", Kind: LoseLast})
			})
			id, err := ask(r.coordinator(), r)
			r.check(verb, err)
			equal(t, verb, id, ids[0])
			equal(t, "latest", r.get(coordinator.Latest).ID, ids[0])
			equal(t, "damage", r.get(ids[2]).Damage, `the part of task "a"`)
		})
	}
}
