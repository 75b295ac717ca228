package redisstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

var (
	openRestoreScript  = newScript("open_restore", orderPreludes)
	renewLeaseScript   = newScript("renew_lease", findPreludes)
	releaseLeaseScript = newScript("release_lease", readPreludes)
	saveDigestScript   = newScript("save_digest", findPreludes)
)

// Words of scripts for what is not there as it was recorded. A completed checkpoint that is damaged has a whole
// record. Of one that is inconsistent the record is gone, is not whole, or says something else than the lists do.
const (
	wordDamaged      = "damaged"
	wordInconsistent = "inconsistent"
)

// restore is an open restore. It reads chunks one by one as it is asked to, and the
// shared state once, when its bytes or its digest are first needed.
type restore struct {
	store      *Store
	checkpoint coordinator.Checkpoint
	leaseID    string
	leaseMs    int64
	// era is that of the links before anything of the checkpoint was read.
	era   int64
	parts []coordinator.ManifestPart
	// uploads has the upload of each part whose bytes lie in chunks.
	uploads []string
	// shared are the restore bytes of the shared state, nil before they were needed.
	shared []byte
}

// OpenRestore leases a completed checkpoint, reads its manifest, and looks whether every
// chunk of each part is there: damage should show before the first byte.
func (s *Store) OpenRestore(ctx context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	era := s.era()
	r, err := s.runInOrder(ctx, openRestoreScript, call.Job, refText(call.Ref), coordinator.SnapshotVersion, call.Token, call.LeaseMs)
	if err != nil {
		return nil, err
	}
	if r.word != wordOK {
		return nil, s.sure(ctx, call.Job, era, restoreRefusal(openRestoreScript.verb, call.Ref, r))
	}
	checkpoint, err := s.checkpoint(openRestoreScript.verb, call.Job, r)
	if err != nil {
		return nil, err
	}
	body := cursor{values: r.body[1:]}
	sharedDigest := body.text()
	if body.err != nil {
		return nil, badReply(openRestoreScript.verb, r, body.err)
	}
	o := &restore{store: s, checkpoint: checkpoint, leaseID: call.Token, leaseMs: call.LeaseMs, era: era}
	err = o.readManifest(ctx, call, sharedDigest)
	if coordinator.CodeOf(err) == coordinator.CodeSnapshotDamaged {
		// What a deletion has taken since is no damage.
		if _, gone := o.readParts(ctx, []any{"tasks"}); coordinator.CodeOf(gone) == coordinator.CodeCheckpointDeleted {
			err = gone
		}
	}
	if err != nil {
		err = s.sure(ctx, call.Job, era, err)
		o.giveUp(ctx)
		return nil, err
	}
	return o, nil
}

// restoreRefusal reads the refusals of the scripts that read snapshots.
func restoreRefusal(verb string, ref coordinator.Ref, r reply) error {
	if r.word != string(coordinator.CodeCheckpointNotCompleted) {
		return refusal(verb, ref.Job, ref.ID, r)
	}
	body := cursor{values: r.body}
	err := coordinator.ErrNotCompleted(body.number(), coordinator.Status(body.text()))
	if body.err != nil {
		return badReply(verb, r, body.err)
	}
	return err
}

// giveUp gives the lease of a restore back that never began, also when ctx has ended.
// If it fails, the lease ends by itself.
func (o *restore) giveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callBudget)
	defer cancel()
	_ = o.Release(ctx)
}

// Checkpoint is what is restored.
func (o *restore) Checkpoint() coordinator.Checkpoint { return o.checkpoint }

// Parts are the selected parts in restore order.
func (o *restore) Parts() []coordinator.ManifestPart { return o.parts }

// ReadAt reads from one chunk of a part.
func (o *restore) ReadAt(ctx context.Context, part int, p []byte, off int64) (int, error) {
	described := o.parts[part]
	if off < 0 || off > described.Bytes {
		return 0, coordinator.ErrInternal(fmt.Errorf("read part %d of %d bytes at %d", part, described.Bytes, off))
	}
	if described.Shared {
		lines, err := o.sharedLines(ctx)
		if err != nil {
			return 0, err
		}
		return copy(p, lines[off:]), nil
	}
	chunk, start := int(off/coordinator.ChunkBytes), off%coordinator.ChunkBytes
	length := chunkLength(described.Bytes, chunk)
	p = p[:max(0, min(int64(len(p)), length-start))]
	if len(p) == 0 {
		return 0, nil
	}
	key := o.store.keys(o.checkpoint.Job).chunk(o.checkpoint.ID, o.uploads[part], chunk)
	var err error
	if start == 0 && int64(len(p)) == length {
		err = o.store.fetchChunk(ctx, key, p)
	} else {
		err = o.store.fetchRange(ctx, key, p, start)
	}
	if errors.Is(err, errNotAsRecorded) {
		return 0, o.store.sure(ctx, o.checkpoint.Job, o.era, o.damaged(partOf(described.TaskID), err))
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *restore) damaged(what string, cause error) error {
	return coordinator.ErrSnapshotDamaged(o.checkpoint.ID, what, cause)
}

const sharedText = "the shared state"

// sharedStep is how many values of the shared state one step of rendering reads.
const sharedStep = 500

// sharedLines renders the shared state, once. A completed checkpoint's never changes, so
// plain reads in steps do, which keeps little more than the result in memory; it is gone
// when the checkpoint is.
func (o *restore) sharedLines(ctx context.Context) ([]byte, error) {
	if o.shared != nil || o.checkpoint.SharedEntries == 0 {
		return o.shared, nil
	}
	key := o.store.keys(o.checkpoint.Job).state(o.checkpoint.ID)
	var names []string
	err := o.store.fetchFrom(ctx, "read the keys of the shared state", key, func(ctx context.Context, node *redis.Client) error {
		var err error
		names, err = node.HKeys(ctx, key).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	lines := make([]byte, 0, o.checkpoint.SharedBytes)
	for some := range slices.Chunk(names, sharedStep) {
		var found []any
		err := o.store.fetchFrom(ctx, "read the shared state", key, func(ctx context.Context, node *redis.Client) error {
			var err error
			found, err = node.HMGet(ctx, key, some...).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, name := range some {
			value, _ := found[i].(string) // one that is gone shows in the number of bytes
			lines = snapshot.AppendEntry(lines, snapshot.Shared, name, []byte(value))
		}
	}
	if int64(len(names)) != o.checkpoint.SharedEntries || int64(len(lines)) != o.checkpoint.SharedBytes {
		missing := o.damaged(sharedText, fmt.Errorf("%w: %d entries with %d bytes instead of %d with %d", errNotAsRecorded,
			len(names), len(lines), o.checkpoint.SharedEntries, o.checkpoint.SharedBytes))
		return nil, o.store.sure(ctx, o.checkpoint.Job, o.era, missing)
	}
	o.shared = lines
	return lines, nil
}

// sharedPart describes the shared state. Its digest is computed by whoever needs it
// first and kept in the record, so that a reader of other parts need not read all of it.
func (o *restore) sharedPart(ctx context.Context, digest string) (coordinator.ManifestPart, error) {
	part := coordinator.ManifestPart{Shared: true, PartInfo: coordinator.PartInfo{
		Entries: o.checkpoint.SharedEntries, Bytes: o.checkpoint.SharedBytes, Digest: digest,
	}}
	if part.Entries == 0 {
		part.Digest = coordinator.EmptyDigest
	}
	if part.Digest != "" {
		return part, nil
	}
	lines, err := o.sharedLines(ctx)
	if err != nil {
		return part, err
	}
	sum := sha256.Sum256(lines)
	part.Digest = coordinator.Digest(sum[:])
	// Failing to keep it is no failure of the restore: it can be computed again. A full
	// Redis refuses it, for example.
	_ = o.store.saveDigest(ctx, coordinator.Ref{Job: o.checkpoint.Job, ID: o.checkpoint.ID}, "sdigest", part.Digest)
	return part, nil
}

// Renew prolongs the lease.
func (o *restore) Renew(ctx context.Context) error {
	if o.leaseMs <= 0 {
		return nil
	}
	r, err := o.store.run(ctx, renewLeaseScript, reads, o.checkpoint.Job, decimal(o.checkpoint.ID), o.leaseID, o.leaseMs)
	if err != nil {
		return err
	}
	if r.word != wordOK {
		return refusal(renewLeaseScript.verb, o.checkpoint.Job, o.checkpoint.ID, r)
	}
	return nil
}

// Release gives the lease back.
func (o *restore) Release(ctx context.Context) error {
	if o.leaseMs <= 0 {
		return nil
	}
	_, err := o.store.run(ctx, releaseLeaseScript, reads, o.checkpoint.Job, decimal(o.checkpoint.ID), o.leaseID)
	return err
}

// Close drops the rendered shared state; there is nothing else to give back.
func (o *restore) Close() error {
	o.shared = nil
	return nil
}

// SaveDigest keeps the digest of a completed checkpoint's manifest.
func (s *Store) SaveDigest(ctx context.Context, ref coordinator.Ref, digest string) error {
	return s.saveDigest(ctx, ref, "digest", digest)
}

func (s *Store) saveDigest(ctx context.Context, ref coordinator.Ref, field, digest string) error {
	_, err := s.run(ctx, saveDigestScript, reads, ref.Job, refText(ref), field, digest)
	return err
}
