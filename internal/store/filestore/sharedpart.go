package filestore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// Shared state is stored by key, so that one entry can be read and written. Its restore
// bytes are rendered when they are read; they are never held in memory as a whole.

// sumShared describes the shared state as a part. It reads all of it, so that a value that has changed
// is found before anybody is given one.
func (c *checkpoint) sumShared() (coordinator.PartInfo, error) {
	sum := coordinator.PartInfo{Entries: c.Shared.Entries, Bytes: c.Shared.Bytes, Digest: c.Shared.Digest}
	found := coordinator.PartInfo{}
	digest := sha256.New()
	var line []byte
	for key, value := range ascend(child(c.b, bucketState), nil) {
		line = snapshot.AppendEntry(line[:0], snapshot.Shared, key, value)
		digest.Write(line)
		found.Entries++
		found.Bytes += int64(len(line))
	}
	if found.Entries != sum.Entries || found.Bytes != sum.Bytes {
		return sum, coordinator.ErrSnapshotDamaged(c.id, "the shared state", fmt.Errorf("%d of %d bytes are there", found.Bytes, sum.Bytes))
	}
	found.Digest = coordinator.Digest(digest.Sum(nil))
	if sum.Digest != "" && sum.Digest != found.Digest {
		return sum, coordinator.ErrSnapshotDamaged(c.id, "the shared state", errChangedState)
	}
	return found, nil
}

var errChangedState = errors.New("its values do not have the recorded digest")

// checkShared is sumShared for who reads the shared state of a completed checkpoint, which does not change
// any more: it is summed up at the first time.
func (s *Store) checkShared(c *checkpoint) error {
	if c.Status != coordinator.StatusCompleted || c.Shared.Digest == "" {
		return nil
	}
	key := sumOf{sick{c.job.name, c.id}, c.Shared.Digest}
	if _, checked := s.summed.Load(key); checked {
		return nil
	}
	_, err := c.sumShared()
	if err == nil {
		if s.summedCount.Add(1) > mostSummed { // those of checkpoints that are gone are not told apart
			s.summed.Clear()
			s.summedCount.Store(1)
		}
		s.summed.Store(key, struct{}{})
	}
	return err
}

// sumOf names the shared state of a checkpoint.
type sumOf struct {
	sick
	digest string
}

const mostSummed = 10_000

// saveSharedDigest keeps the digest of the shared state that opening the restore had to
// compute. It is no change that a reader sees, and failing to keep it is no failure: the
// next restore computes it again.
func (r *restore) saveSharedDigest(ctx context.Context) {
	if len(r.parts) == 0 || !r.parts[0].Shared || r.parts[0].Bytes == 0 || r.sharedDigest != "" {
		return
	}
	digest := r.parts[0].Digest
	_, _ = mutate(ctx, r.store, func(st *step) (struct{}, error) {
		if c, err := st.find(r.call.Ref, false); err == nil && c.Shared.Digest == "" {
			c.Shared.Digest = digest
			st.touch(c)
		}
		return struct{}{}, nil
	})
}

// sharedReader reads the restore bytes of shared state from any offset. It remembers
// where it stopped, so that reading on does not begin with the first key again.
type sharedReader struct {
	key string // the entry whose line begins at off; "" is the first
	off int64
}

// readAt fills p from off, and gives fewer bytes where the state ends.
func (r *sharedReader) readAt(c *checkpoint, p []byte, off int64) int {
	if off < r.off {
		*r = sharedReader{}
	}
	n := 0
	lineAt := r.off
	for key, value := range ascend(child(c.b, bucketState), []byte(r.key)) {
		r.key, r.off = string(key), lineAt
		size := int64(snapshot.EntrySize(snapshot.Shared, key, value))
		if lineAt+size > off {
			n += copyLine(p[n:], key, value, off+int64(n)-lineAt)
		}
		if n == len(p) {
			break
		}
		lineAt += size
	}
	return n
}

// copyLine copies an entry's restore line from its byte number from on. A value may have
// megabytes, so the line is not rendered as a whole for the sake of one piece.
func copyLine(p, key, value []byte, from int64) int {
	frame := snapshot.AppendEntry(nil, snapshot.Shared, key, nil)
	const tail = len("}\n")
	n := 0
	for _, piece := range [][]byte{frame[:len(frame)-tail], value, frame[len(frame)-tail:]} {
		if size := int64(len(piece)); from >= size {
			from -= size
			continue
		}
		n += copy(p[n:], piece[from:])
		from = 0
	}
	return n
}

// SaveDigest keeps the digest of a completed checkpoint's manifest.
func (s *Store) SaveDigest(ctx context.Context, ref coordinator.Ref, digest string) error {
	_, err := mutate(ctx, s, func(st *step) (struct{}, error) {
		if c, err := st.find(ref, false); err == nil && c.Status == coordinator.StatusCompleted && c.Digest != digest {
			c.Digest = digest
			st.touch(c)
		}
		return struct{}{}, nil
	})
	return err
}
