package storetest

import (
	"errors"
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

// spoil makes the records of a checkpoint contradict themselves between two runs of the servers.
func (r *rig) spoil(id int64, kind SpoilKind) {
	r.t.Helper()
	if r.storage.Spoil == nil {
		r.t.Skip("this storage offers no way to spoil a record")
	}
	r.betweenRuns(func() { r.storage.Spoil(r.t, r.job, id, kind) })
}

// asked asks for a completed checkpoint in the ways by which fleets and operators do, changing nothing.
func (r *rig) asked(id int64) map[string]error {
	ctx := r.t.Context()
	found := map[string]error{}
	for name, id := range map[string]int64{"by its id": id, "as the latest": coordinator.Latest} {
		_, found["get "+name] = r.store.Get(ctx, r.ref(id))
		_, found["restore "+name] = r.store.OpenRestore(ctx, r.restoreCall(id))
		_, found["shared state "+name] = r.store.SharedState(ctx, r.ref(id))
		_, found["task "+name] = r.store.Task(ctx, r.ref(id), "a")
		_, found["tasks "+name] = r.store.Tasks(ctx, coordinator.TasksCall{Ref: r.ref(id), Limit: 9})
	}
	_, found["recover"] = r.store.Recover(ctx, r.recoverCall(""))
	_, found["acknowledge"] = r.store.Acknowledge(ctx, r.ackCall(id, item("a")))
	_, found["complete"] = r.store.Complete(ctx, r.completeCall(id, true))
	_, found["update"] = r.store.Update(ctx, coordinator.UpdateCall{Job: r.job, ID: id, Pinned: new(true)})
	return found
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
	for _, kind := range []SpoilKind{RecordGone, RecordCut, RecordNewer} {
		s.rule(t, "a completed checkpoint is told as damaged, by its id, as the latest and to a recovery, where "+string(kind), func(t *testing.T, r *rig) {
			older, lost := r.completed(), r.trigger(requires(1))
			r.shared(lost.ID, "s", "1")
			r.uploadAndAck(lost.ID, "a", bigPart("a", 2*coordinator.ChunkBytes))
			epoch := r.state().Epoch
			r.spoil(lost.ID, kind)
			for what, err := range r.asked(lost.ID) {
				refused, is := errors.AsType[*coordinator.Error](err)
				if !is || refused.Code != coordinator.CodeSnapshotDamaged || refused.CheckpointID == nil || *refused.CheckpointID != lost.ID {
					t.Errorf("%s: %v, want snapshot_damaged of checkpoint %d", what, err, lost.ID)
				}
			}
			equal(t, "the epoch", r.state().Epoch, epoch)
			r.wantIDs("the list", r.list(coordinator.ListCall{Status: coordinator.StatusCompleted}), older.ID)
			r.sweep()
			r.getRefused(coordinator.CodeSnapshotDamaged, lost.ID)
			r.delete(lost.ID)
			r.getRefused(coordinator.CodeCheckpointDeleted, lost.ID)
			equal(t, "the latest after its deletion", r.get(coordinator.Latest).ID, older.ID)
			equal(t, "where a fleet goes on", r.recover("").Checkpoint.ID, older.ID)
		})
		s.rule(t, "the deletion of a job leaves nothing of a checkpoint of which "+string(kind), func(t *testing.T, r *rig) {
			r = r.in("orders")
			for _, c := range []coordinator.Checkpoint{r.trigger(requires(1)), r.trigger(requires(2))} {
				r.uploadAndAck(c.ID, "a", bigPart("a", 2*coordinator.ChunkBytes))
				r.spoil(c.ID, kind)
			}
			r.deleteJob(true)
		})
		s.rule(t, "a pending checkpoint is neither acknowledged nor completed, and goes at its deadline, where "+string(kind), func(t *testing.T, r *rig) {
			c := r.trigger(requires(2))
			r.accept(c.ID, "a", with(part("a", "k", "1")))
			r.spoil(c.ID, kind)
			_, err := r.store.Acknowledge(t.Context(), r.ackCall(c.ID, item("b")))
			r.refused(err, coordinator.CodeSnapshotDamaged)
			_, err = r.store.Complete(t.Context(), r.completeCall(c.ID, true))
			r.refused(err, coordinator.CodeSnapshotDamaged)
			r.clock.Advance(ms(leasesOver))
			r.sweep()
			equal(t, "pending", r.jobState().Pending, 0)
			r.delete(c.ID)
		})
	}
	s.rule(t, "a checkpoint never completes with another list of acknowledgements than it counts", func(t *testing.T, r *rig) {
		ack := func(id int64, tasks ...string) coordinator.Code {
			call := r.ackCall(id)
			for _, task := range tasks {
				call.Items = append(call.Items, item(task))
			}
			_, err := r.store.Acknowledge(t.Context(), call)
			return coordinator.CodeOf(err)
		}
		for what, end := range map[string]func(id int64) coordinator.Code{
			"the last acknowledgement": func(id int64) coordinator.Code { return ack(id, "c") },
			"again, and the last":      func(id int64) coordinator.Code { return ack(id, "a", "c") },
			"by hand": func(id int64) coordinator.Code {
				_, err := r.store.Complete(t.Context(), r.completeCall(id, true))
				return coordinator.CodeOf(err)
			},
			"an upload": func(id int64) coordinator.Code {
				p := part("c", "k", "1")
				return r.commitCode(r.begin(id, "c", p), p, true)
			},
		} {
			c := r.trigger(requires(3))
			r.accept(c.ID, "a")
			r.accept(c.ID, "b")
			r.spoil(c.ID, AckGone)
			if code := end(c.ID); code != coordinator.CodeSnapshotDamaged {
				t.Errorf("%s: %q, want snapshot_damaged", what, code)
			}
			r.getRefused(coordinator.CodeSnapshotDamaged, c.ID)
			r.getRefused(coordinator.CodeNoCompletedCheckpoint, coordinator.Latest)
			r.delete(c.ID)
		}
	})
	for _, kind := range []SpoilKind{TotalChanged, AckGone} {
		s.rule(t, "a restore is refused, and never less or other than was acknowledged, where "+string(kind), func(t *testing.T, r *rig) {
			c := r.trigger(requires(2))
			r.tolerant = true
			r.shared(c.ID, "s", "11", "t", `"x"`)
			r.accept(c.ID, "a", with(part("a", "k", "1")))
			r.accept(c.ID, "b", with(part("b", "k", "2")))
			r.spoil(c.ID, kind)
			source, err := r.store.OpenRestore(t.Context(), r.restoreCall(c.ID))
			if err == nil {
				_, err = r.read(source, 0, 0, 9)
			}
			r.refused(err, coordinator.CodeSnapshotDamaged)
		})
	}
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
