package redisstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// completed writes the completed checkpoint 7 whose task "a" has the content as its part.
func (l *lab) completed(all []byte) {
	l.Helper()
	l.record(7, values{"status": "completed"})
	sum := sha256.Sum256(all)
	l.ack(7, "a", "0", storedPart{uploadID: "up", chunks: chunksOf(int64(len(all))), PartInfo: coordinator.PartInfo{
		Entries: 1, Bytes: int64(len(all)), Digest: "sha256:" + hex.EncodeToString(sum[:]),
	}})
	for index := 0; len(all) > 0; index++ {
		n := min(len(all), coordinator.ChunkBytes)
		l.do("SET", l.keys.chunk(7, "up", index), all[:n])
		all = all[n:]
	}
}

func (l *lab) open(s *Store, tasks ...string) (coordinator.RestoreSource, error) {
	l.Helper()
	return s.OpenRestore(l.Context(), coordinator.RestoreCall{Ref: l.ref(7), Tasks: tasks, LeaseMs: 60_000, Token: "lease"})
}

func TestRestoreReadsAtAnyPlace(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	all := content(2*coordinator.ChunkBytes + 100)
	l.completed(all)
	source, err := l.open(l.store())
	l.ok(err)
	l.same("parts", len(source.Parts()), 2)
	for _, at := range []struct{ off, length, want int }{
		{off: 0, length: coordinator.ChunkBytes, want: coordinator.ChunkBytes},
		{off: 0, length: 10, want: 10},
		{off: 5, length: coordinator.ChunkBytes, want: coordinator.ChunkBytes - 5},
		{off: coordinator.ChunkBytes, length: 2 * coordinator.ChunkBytes, want: coordinator.ChunkBytes},
		{off: 2 * coordinator.ChunkBytes, length: coordinator.ChunkBytes, want: 100},
		{off: 2*coordinator.ChunkBytes + 90, length: 100, want: 10},
		{off: len(all), length: 100, want: 0},
	} {
		got := make([]byte, at.length)
		n, err := source.ReadAt(t.Context(), 1, got, int64(at.off))
		l.ok(err)
		l.same(fmt.Sprintf("bytes read of %d from %d", at.length, at.off), n, at.want)
		if !bytes.Equal(got[:n], all[at.off:at.off+n]) {
			t.Errorf("%d bytes from %d are not those that were written", at.length, at.off)
		}
	}
	l.ok(source.Release(t.Context()))
	l.same("leases", l.members(l.keys.leases(7)), []string{})
	l.ok(source.Close())
}

func TestRestoreFindsDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(l *lab)
		// late damage is done after the opening, and shows when the bytes are read.
		late bool
	}{
		{name: "a first chunk that is gone", damage: func(l *lab) { l.do("DEL", l.keys.chunk(7, "up", 0)) }},
		{name: "a last chunk that is short", damage: func(l *lab) { l.do("SET", l.keys.chunk(7, "up", 2), "x") }},
		{name: "a chunk of another type", damage: func(l *lab) {
			l.do("DEL", l.keys.chunk(7, "up", 0))
			l.do("HSET", l.keys.chunk(7, "up", 0), "a", "b")
		}},
		{name: "a part that is not there", damage: func(l *lab) { l.do("DEL", l.keys.parts(7)) }},
		{name: "a part that is not the acknowledged one", damage: func(l *lab) { l.do("HSET", l.keys.parts(7), "a", "up|3|1|1|sha256:other") }},
		{name: "an acknowledgement that cannot be read", damage: func(l *lab) { l.do("HSET", l.keys.acks(7), "a", "nonsense") }},
		{name: "totals that do not add up", damage: func(l *lab) { l.do("HINCRBY", l.keys.record(7), "entries", 1) }},
		{name: "a middle chunk that is gone", damage: func(l *lab) { l.do("DEL", l.keys.chunk(7, "up", 1)) }},
		{name: "a middle chunk that is short", damage: func(l *lab) { l.do("SET", l.keys.chunk(7, "up", 1), "x") }},
		{name: "a middle chunk that is too long", damage: func(l *lab) { l.do("APPEND", l.keys.chunk(7, "up", 1), "x") }},
		{name: "a chunk that goes", late: true, damage: func(l *lab) { l.do("DEL", l.keys.chunk(7, "up", 1)) }},
		{name: "a chunk that becomes short", late: true, damage: func(l *lab) { l.do("SET", l.keys.chunk(7, "up", 1), "x") }},
		{name: "a chunk that becomes too long", late: true, damage: func(l *lab) { l.do("APPEND", l.keys.chunk(7, "up", 1), "x") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "orders")
			l.completed(content(2*coordinator.ChunkBytes + 100))
			if !c.late {
				c.damage(l)
			}
			source, err := l.open(l.store())
			if !c.late {
				l.refused(err, coordinator.CodeSnapshotDamaged)
				l.same("leases", l.members(l.keys.leases(7)), []string{})
				return
			}
			l.ok(err)
			c.damage(l)
			_, err = source.ReadAt(t.Context(), 1, make([]byte, coordinator.ChunkBytes), coordinator.ChunkBytes)
			l.refused(err, coordinator.CodeSnapshotDamaged)
		})
	}
}

func TestRestoreOfADeletedCheckpointBreaksOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.completed(content(2*coordinator.ChunkBytes + 100))
	s := l.store()
	source, err := l.open(s)
	l.ok(err)
	l.ok(s.Delete(t.Context(), coordinator.DeleteCall{Job: l.job, ID: 7}))
	l.refused(source.Renew(t.Context()), coordinator.CodeCheckpointDeleted)
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	_, err = source.ReadAt(t.Context(), 1, make([]byte, coordinator.ChunkBytes), coordinator.ChunkBytes)
	l.refused(err, coordinator.CodeSnapshotDamaged)
}

func TestRestoreReadsTheManifestInPages(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	const tasks = 2*manifestPage + 3
	l.record(7, values{"status": "completed"})
	fields, scored := []any{"HSET", l.keys.acks(7)}, []any{"ZADD", l.keys.acked(7)}
	for n := range tasks {
		fields = append(fields, "task-"+strconv.Itoa(n), fmt.Sprintf("0|%d|%d|0|0||token", labTime, n))
		scored = append(scored, 0, "task-"+strconv.Itoa(n))
	}
	l.do(fields...)
	l.do(scored...)
	l.do("HSET", l.keys.record(7), "acked", tasks)
	s := l.store()

	source, err := l.open(s)
	l.ok(err)
	parts := source.Parts()
	l.same("parts", len(parts), tasks+1)
	l.same("the shared state comes first", parts[0].Shared, true)
	for i := 2; i < len(parts); i++ {
		if parts[i-1].TaskID >= parts[i].TaskID {
			t.Fatalf("part %d (%q) comes before part %d (%q)", i-1, parts[i-1].TaskID, i, parts[i].TaskID)
		}
	}

	source, err = l.open(s, "task-9", "task-10")
	l.ok(err)
	l.same("selected parts", source.Parts(), []coordinator.ManifestPart{
		{TaskID: "task-10", PartInfo: coordinator.PartInfo{Digest: coordinator.EmptyDigest}},
		{TaskID: "task-9", PartInfo: coordinator.PartInfo{Digest: coordinator.EmptyDigest}},
	})
	_, err = l.open(s, "task-9", "stranger")
	l.refused(err, coordinator.CodeTaskNotInCheckpoint)
}

func TestRestoreComputesTheSharedDigestOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	const lines = `{"key":"a","value":1.0}` + "\n" + `{"key":"b","value":null}` + "\n"
	l.record(7, values{"status": "completed", "sentries": "2", "entries": "2", "sbytes": strconv.Itoa(len(lines)), "bytes": strconv.Itoa(len(lines))})
	l.do("HSET", l.keys.state(7), "b", "null", "a", "1.0")
	s := l.store()
	source, err := l.open(s)
	l.ok(err)
	sum := sha256.Sum256([]byte(lines))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	l.same("parts", source.Parts(), []coordinator.ManifestPart{{
		Shared: true, PartInfo: coordinator.PartInfo{Entries: 2, Bytes: int64(len(lines)), Digest: digest},
	}})
	l.same("kept digest", l.field(l.keys.record(7), "sdigest"), digest)
	got := make([]byte, 100)
	n, err := source.ReadAt(t.Context(), 0, got, 5)
	l.ok(err)
	l.same("bytes", string(got[:n]), lines[5:])

	// The next one believes it, and reads the state only for its bytes.
	l.do("HSET", l.keys.state(7), "a", "12.0")
	source, err = l.open(s)
	l.ok(err)
	l.same("digest", source.Parts()[0].Digest, digest)
	_, err = source.ReadAt(t.Context(), 0, got, 0)
	l.refused(err, coordinator.CodeSnapshotDamaged)
}

func TestWhatIsDeletedWhileItsRestoreOpensIsNotDamaged(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	s, other := l.store(), l.store()
	made, err := s.Trigger(t.Context(), coordinator.TriggerCall{Job: l.job, RequiredTaskAcks: 1, Defaults: coordinator.Settings{MaxConcurrent: 1, EventsToKeep: 1}})
	l.ok(err)
	id := made.Checkpoint.ID
	_, err = s.Acknowledge(t.Context(), coordinator.AckCall{Job: l.job, ID: id, Items: []coordinator.AckItem{
		{TaskID: "a", Part: partContent(`{"taskId":"a","key":"k","value":1}` + "\n")},
	}})
	l.ok(err)
	// Right before it is looked whether the chunks are there.
	newTap(t, s).before["strlen"] = func() {
		l.ok(other.Delete(t.Context(), coordinator.DeleteCall{Job: l.job, ID: id}))
		l.ok(other.Sweep(t.Context(), coordinator.SweepCall{})) // which takes the chunks
	}
	_, err = s.OpenRestore(t.Context(), coordinator.RestoreCall{Ref: l.ref(coordinator.Latest), LeaseMs: 60_000, Token: "lease"})
	if coordinator.CodeOf(err) != coordinator.CodeCheckpointDeleted {
		t.Errorf("a restore of what was deleted meanwhile: %v", err)
	}
}
