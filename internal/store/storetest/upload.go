package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testUpload(t *testing.T, s suite) {
	for _, size := range []int{
		100, coordinator.ChunkBytes - 1, coordinator.ChunkBytes, coordinator.ChunkBytes + 1,
		3*coordinator.ChunkBytes + 17,
	} {
		s.rule(t, fmt.Sprintf("a part of %d bytes comes back byte for byte", size), func(t *testing.T, r *rig) {
			c := r.trigger()
			p := bigPart("task-1", size)
			equal(t, "size", len(p.Content), size)
			outcome := r.uploadAndAck(c.ID, "task-1", p)
			equal(t, "outcome", outcome.Outcome, coordinator.AckAccepted)
			equal(t, "status", outcome.Status, coordinator.StatusCompleted)
			equal(t, "the snapshot is as uploaded", r.restored(c.ID) == string(p.Content), true)
			equal(t, "bytes", r.get(c.ID).Bytes, int64(size))
		})
	}
	s.rule(t, "an empty part is a part", func(t *testing.T, r *rig) {
		c := r.trigger()
		p := part("task-1")
		r.upload(c.ID, "task-1", p)
		r.accept(c.ID, "task-1", digest(p.Digest))
		equal(t, "the snapshot", r.restored(c.ID), "")
	})
	s.rule(t, "an upload does not acknowledge by itself", func(t *testing.T, r *rig) {
		c := r.trigger(named("task-1"))
		p := part("task-1", "k", "1")
		r.upload(c.ID, "task-1", p)
		equal(t, "acknowledged", r.get(c.ID).AcknowledgedTasks, 0)
		state, err := r.store.Task(t.Context(), r.ref(c.ID), "task-1")
		r.check("task", err)
		equal(t, "status", state.Status, coordinator.TaskMissing)
		if state.Uploaded == nil || *state.Uploaded != info(p) {
			t.Errorf("uploaded = %v, want %v", state.Uploaded, info(p))
		}
	})
	s.rule(t, "a later upload replaces the part as a whole", func(t *testing.T, r *rig) {
		c := r.trigger()
		r.upload(c.ID, "task-1", bigPart("task-1", 3*coordinator.ChunkBytes))
		p := part("task-1", "k", "1")
		r.upload(c.ID, "task-1", p)
		r.accept(c.ID, "task-1")
		equal(t, "the snapshot", r.restored(c.ID), string(p.Content))
		equal(t, "bytes", r.get(c.ID).Bytes, int64(len(p.Content)))
	})
	s.rule(t, "of two uploads at once the one committed last counts, never a mixture", func(t *testing.T, r *rig) {
		c := r.trigger()
		one, two := bigPart("task-1", 2*coordinator.ChunkBytes), bigPart("task-1", 2*coordinator.ChunkBytes+5)
		first, second := r.begin(c.ID, "task-1", one), r.begin(c.ID, "task-1", two)
		equal(t, "refusal", r.commitCode(second, two, false), "")
		equal(t, "refusal", r.commitCode(first, one, false), "")
		r.accept(c.ID, "task-1", digest(one.Digest))
		equal(t, "the snapshot is the part committed last", r.restored(c.ID) == string(one.Content), true)
	})
	s.rule(t, "what was not committed does not count", func(t *testing.T, r *rig) {
		c := r.trigger()
		upload := r.begin(c.ID, "task-1", bigPart("task-1", 2*coordinator.ChunkBytes))
		r.accept(c.ID, "task-1")
		equal(t, "the snapshot", r.restored(c.ID), "")
		r.check("discard", upload.Discard(t.Context()))
	})
	s.rule(t, "a discarded upload leaves the part of before", func(t *testing.T, r *rig) {
		c := r.trigger()
		p := part("task-1", "k", "1")
		r.upload(c.ID, "task-1", p)
		r.check("discard", r.begin(c.ID, "task-1", bigPart("task-1", 2*coordinator.ChunkBytes)).Discard(t.Context()))
		r.accept(c.ID, "task-1", digest(p.Digest))
		equal(t, "the snapshot", r.restored(c.ID), string(p.Content))
	})
	s.rule(t, "a running upload reads back what it wrote", func(t *testing.T, r *rig) {
		c := r.trigger()
		p := bigPart("task-1", 3*coordinator.ChunkBytes+17)
		upload := r.begin(c.ID, "task-1", p)
		for _, span := range []struct{ off, length int }{
			{0, 10},
			{5, coordinator.ChunkBytes},
			{coordinator.ChunkBytes - 1, 2},
			{coordinator.ChunkBytes, coordinator.ChunkBytes},
			{3 * coordinator.ChunkBytes, 17},
			{0, len(p.Content)},
		} {
			got := make([]byte, span.length)
			r.check("read back", upload.ReadAt(t.Context(), got, int64(span.off)))
			equal(t, fmt.Sprintf("%d bytes at %d are as written", span.length, span.off), bytes.Equal(got, p.Content[span.off:span.off+span.length]), true)
		}
		r.check("discard", upload.Discard(t.Context()))
	})
	s.rule(t, "the checkpoint is looked at before the first byte", func(t *testing.T, r *rig) {
		begin := func(id int64, task string, options ...uploadOption) error {
			_, err := r.store.BeginUpload(t.Context(), r.uploadCall(id, task, options...))
			return err
		}
		c := r.trigger(named("a", "b"))
		r.accept(c.ID, "a", attempt(2))
		r.refused(begin(c.ID+1, "a"), coordinator.CodeCheckpointNotFound)
		r.refused(begin(c.ID, "stranger"), coordinator.CodeTaskNotExpected)
		r.refused(begin(c.ID, "b", uploadEpoch(1)), coordinator.CodeStaleEpoch)
		r.refused(begin(c.ID, "a", uploadAttempt(1)), coordinator.CodeStaleAttempt)
		r.refused(begin(c.ID, "a", uploadAttempt(2)), coordinator.CodeAckConflict)
		r.refused(begin(r.completed().ID, "b"), coordinator.CodeCheckpointCompleted)
		r.refused(begin(r.aborted().ID, "b"), coordinator.CodeCheckpointAborted)
		r.clock.Advance(60_001)
		r.refused(begin(c.ID, "b"), coordinator.CodeCheckpointExpired)
		_, err := r.in("nowhere").store.BeginUpload(t.Context(), r.in("nowhere").uploadCall(0, "a"))
		r.refused(err, coordinator.CodeJobNotFound)
	})
	ends := []struct {
		how  string
		end  func(r *rig, id int64)
		want coordinator.Code
	}{
		{"aborted", func(r *rig, id int64) { r.abort(id) }, coordinator.CodeCheckpointAborted},
		{"expired", func(r *rig, _ int64) { r.clock.Advance(60_001) }, coordinator.CodeCheckpointExpired},
		{"completed", func(r *rig, id int64) { r.complete(id, true) }, coordinator.CodeCheckpointCompleted},
		{"deleted", func(r *rig, id int64) { r.delete(id) }, coordinator.CodeCheckpointDeleted},
		{"superseded by a recovery", func(r *rig, _ int64) { r.recover("") }, coordinator.CodeStaleEpoch},
		{"acknowledged by the task", func(r *rig, id int64) { r.accept(id, "task-1", attempt(1)) }, coordinator.CodeAckConflict},
		{"acknowledged by a newer attempt", func(r *rig, id int64) { r.accept(id, "task-1", attempt(2)) }, coordinator.CodeStaleAttempt},
	}
	for _, e := range ends {
		s.rule(t, "an upload whose checkpoint was "+e.how+" meanwhile learns so at its next check and at commit", func(t *testing.T, r *rig) {
			c := r.trigger(requires(2))
			p := bigPart("task-1", 2*coordinator.ChunkBytes)
			upload := r.begin(c.ID, "task-1", p, uploadAttempt(1), uploadEpoch(0))
			r.check("check of a good upload", upload.Check(t.Context()))
			e.end(r, c.ID)
			r.refused(upload.Check(t.Context()), e.want)
			equal(t, "refusal of the commit", r.commitCode(upload, p, false), e.want)
			equal(t, "refusal of the commit with ack", r.commitCode(upload, p, true), e.want)
			r.check("discard", upload.Discard(t.Context()))
		})
	}
	s.rule(t, "a commit raises the attempt, a refused one does not", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		p := part("task-1", "k", "1")
		r.upload(c.ID, "task-1", p, uploadAttempt(3))
		r.ackRefused(coordinator.CodeStaleAttempt, c.ID, "task-1", attempt(2))
		late := r.begin(c.ID, "task-2", p, uploadAttempt(8))
		r.abort(c.ID)
		equal(t, "refusal", r.commitCode(late, p, false), coordinator.CodeCheckpointAborted)
		r.check("discard", late.Discard(t.Context()))
		r.accept(r.trigger(requires(2)).ID, "task-2", attempt(1))
	})
	s.rule(t, "an upload that lasts longer than any lease is kept by its checks", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(0))
		p := bigPart("task-1", 2*coordinator.ChunkBytes)
		upload := r.begin(c.ID, "task-1", p)
		for range 60 {
			r.clock.Advance(10_000)
			r.check("check", upload.Check(t.Context()))
			r.sweep()
		}
		equal(t, "refusal", r.commitCode(upload, p, true), "")
		equal(t, "the snapshot is as uploaded", r.restored(c.ID) == string(p.Content), true)
	})
	s.rule(t, "uploads that broke off are cleared away", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(0), requires(2))
		r.begin(c.ID, "task-1", bigPart("task-1", 2*coordinator.ChunkBytes))
		r.begin(c.ID, "task-1", part("task-1", "k", "1"))
		r.begin(r.trigger().ID, "task-1", part("task-1", "k", "1"))
		r.reopen() // the server that received them is gone; leftovers are looked for at the end
	})
	s.rule(t, "a part that was uploaded and never acknowledged goes when the checkpoint ends", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		for _, task := range []string{"task-1", "task-2", "task-3"} {
			r.upload(c.ID, task, bigPart(task, coordinator.ChunkBytes+9))
		}
		r.accept(c.ID, "task-1")
		r.complete(c.ID, true)
		equal(t, "the snapshot has the acknowledged part only", r.restored(c.ID) == string(bigPart("task-1", coordinator.ChunkBytes+9).Content), true)
		equal(t, "entries", r.get(c.ID).Entries, 1)
	})
}
