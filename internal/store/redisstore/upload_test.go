package redisstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// content is bytes no two chunks of which are alike.
func content(length int) []byte {
	all := make([]byte, 0, length+8)
	for n := uint64(0); len(all) < length; n++ {
		all = binary.BigEndian.AppendUint64(all, n)
	}
	return all[:length]
}

// send begins the upload of task a's part of checkpoint 7 and writes the content.
func (l *lab) send(s *Store, all []byte) coordinator.Upload {
	l.Helper()
	u, err := s.BeginUpload(l.Context(), coordinator.UploadCall{Job: l.job, ID: 7, TaskID: "a", Token: "up"})
	l.ok(err)
	lent := make([]byte, coordinator.ChunkBytes)
	for index := 0; len(all) > 0; index++ {
		n := copy(lent, all)
		l.ok(u.WriteChunk(l.Context(), index, lent[:n]))
		clear(lent)
		all = all[n:]
	}
	return u
}

func TestUploadKeepsSeveralChunksInFlight(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{})
	all := content(11*coordinator.ChunkBytes + 5)
	u := l.send(l.store(), all)

	// Across a border, and more than one chunk long.
	for _, at := range []struct{ off, length int }{{0, 1}, {coordinator.ChunkBytes - 3, 6}, {coordinator.ChunkBytes / 2, 3 * coordinator.ChunkBytes}, {len(all) - 5, 5}} {
		got := make([]byte, at.length)
		l.ok(u.ReadAt(t.Context(), got, int64(at.off)))
		if !bytes.Equal(got, all[at.off:at.off+at.length]) {
			t.Errorf("ReadAt %d bytes from %d gave other bytes", at.length, at.off)
		}
	}
	l.refused(u.ReadAt(t.Context(), make([]byte, 6), int64(len(all)-5)), coordinator.CodeStoreUnavailable)

	_, err := u.Commit(t.Context(), coordinator.CommitCall{Part: coordinator.PartInfo{Entries: 1, Bytes: int64(len(all)), Digest: "sha256:d"}})
	l.ok(err)
	l.ok(u.Discard(t.Context()))
	l.same("running", l.members(l.keys.uploads()), []string{})
	l.same("garbage", l.members(l.keys.garbage()), []string{})
	stored := []byte{}
	for n := range 12 {
		stored = append(stored, l.redis.Get(t.Context(), l.keys.chunk(7, "up", n)).Val()...)
	}
	if !bytes.Equal(stored, all) {
		t.Error("the stored bytes are not those that were written")
	}
}

func TestUploadOutlivesTheContextOfItsChunks(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{})
	u := l.send(l.store(), nil)
	reading, stop := context.WithCancel(t.Context())
	for index := range 2 * chunksInFlight {
		l.ok(u.WriteChunk(reading, index, content(coordinator.ChunkBytes)))
	}
	stop()
	_, err := u.Commit(t.Context(), coordinator.CommitCall{Part: coordinator.PartInfo{Bytes: 2 * chunksInFlight * coordinator.ChunkBytes}})
	l.ok(err)
}

func TestUploadThatTheStoreGaveUp(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{})
	s := l.store()
	u := l.send(s, content(5))
	// Reading waits for the chunk, which must not come after the sweep.
	l.ok(u.ReadAt(t.Context(), make([]byte, 5), 0))
	l.ok(u.Check(t.Context()))
	l.now += uploadLease.Milliseconds() + 1
	l.do("HSET", l.keys.record(7), "timeout", "0")
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("chunk is there", l.exists(l.keys.chunk(7, "up", 0)), false)

	l.refused(u.Check(t.Context()), coordinator.CodeStoreUnavailable)
	// The chunk is refused in the background, so it shows in a later call.
	l.ok(u.WriteChunk(t.Context(), 1, content(5)))
	_, err := u.Commit(t.Context(), coordinator.CommitCall{Part: coordinator.PartInfo{Bytes: 10}})
	l.refused(err, coordinator.CodeStoreUnavailable)
	l.refused(u.WriteChunk(t.Context(), 2, content(5)), coordinator.CodeStoreUnavailable)
	l.ok(u.Discard(t.Context()))
	l.same("chunk is there", l.exists(l.keys.chunk(7, "up", 1)), false)
}

func TestUploadThatRedisHasNoRoomFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	l := labOn(t, server, "orders")
	l.record(7, values{})
	u := l.send(l.store(), content(5))
	l.ok(u.ReadAt(t.Context(), make([]byte, 5), 0)) // so that the chunk is there
	l.do("CONFIG", "SET", "maxmemory", 1)
	l.ok(u.WriteChunk(t.Context(), 1, content(5)))
	_, err := u.Commit(t.Context(), coordinator.CommitCall{Part: coordinator.PartInfo{Bytes: 10}})
	l.refused(err, coordinator.CodeStoreFull)
	l.same("chunk is there", l.exists(l.keys.chunk(7, "up", 1)), false)
	l.ok(u.Discard(t.Context()))
	l.do("CONFIG", "SET", "maxmemory", 0)
	l.same("garbage", l.members(l.keys.garbage()), []string{"upload:7:up:1"})
}

func TestUploadGoesOnWhereRedisForgotItsScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	l := labOn(t, server, "orders")
	l.record(7, values{})
	u := l.send(l.store(), nil)
	for index := range 3 {
		l.do("SCRIPT", "FLUSH")
		l.ok(u.WriteChunk(t.Context(), index, content(coordinator.ChunkBytes)))
		l.ok(u.ReadAt(t.Context(), make([]byte, 1), 0))
	}
	_, err := u.Commit(t.Context(), coordinator.CommitCall{Part: coordinator.PartInfo{Bytes: 3 * coordinator.ChunkBytes}})
	l.ok(err)
}

// BenchmarkWriteChunk hands chunks to Redis, as many at a time as an upload does.
func BenchmarkWriteChunk(b *testing.B) {
	l := newLab(b, "orders")
	l.record(7, values{})
	u := l.send(l.store(), nil)
	chunk := content(coordinator.ChunkBytes)
	b.SetBytes(coordinator.ChunkBytes)
	index := 0
	for b.Loop() {
		l.ok(u.WriteChunk(b.Context(), index, chunk))
		index = (index + 1) % 1000 // over and over, so that Redis keeps little
	}
	l.ok(u.ReadAt(b.Context(), make([]byte, 1), 0)) // waits for all of them
}
