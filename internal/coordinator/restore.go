package coordinator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// RestoreCall opens a completed checkpoint for reading.
type RestoreCall struct {
	Ref
	// Tasks selects parts; nil selects all of them and the shared state.
	Tasks []string
	// Shared adds the shared state to selected Tasks.
	Shared bool
	// LeaseMs is how long the lease lives without Renew; 0 takes none, for a look at the
	// manifest only.
	LeaseMs int64
	// Token names the lease.
	Token string
}

// ReadSlack is how many bytes behind those that it is asked for a RestoreSource may use: a
// reply of Redis ends with two, which are then read together with the rest.
const ReadSlack = 2

// RestoreSource is an open restore. Its methods are for one goroutine, except Renew.
type RestoreSource interface {
	Checkpoint() Checkpoint
	// Parts are the selected parts in restore order.
	Parts() []ManifestPart
	// ReadAt fills p from part number part at off, and fails with CodeSnapshotDamaged
	// when the bytes are not there as recorded. One call never reads across a
	// ChunkBytes boundary's second; it may return fewer bytes than len(p) at a chunk's end.
	// Where p has capacity for it, ReadAt may scribble on the ReadSlack bytes behind len(p).
	ReadAt(ctx context.Context, part int, p []byte, off int64) (int, error)
	// Renew prolongs the lease; an error means that the checkpoint is gone.
	Renew(ctx context.Context) error
	// Release gives the lease back at once.
	Release(ctx context.Context) error
	// Close frees what this process holds (files, buffers) and leaves the lease to its time.
	Close() error
}

// RestoreRequest names what to read back.
type RestoreRequest struct {
	Ref
	// Tasks selects parts; nil selects everything.
	Tasks []string
	// Shared adds the shared state to selected Tasks.
	Shared bool
	// By says who asks, for the job's record of restores.
	By string
}

// Restore is an open restore of a completed checkpoint: a fixed sequence of bytes of
// known length. The caller must end it with Close.
type Restore struct {
	coordinator *Coordinator
	source      RestoreSource
	checkpoint  Checkpoint
	parts       []ManifestPart
	size        int64
	entries     int64
	digest      string
	by          string
	leased      bool
	released    bool
	cancel      context.CancelCauseFunc
	ctx         context.Context //nolint:containedctx // It is the lease's own life; see renew.
	renewing    sync.WaitGroup
}

// OpenRestore opens a completed checkpoint and leases it, so that no retention or
// cleanup takes it away under the reader. One that is marked as damaged is CodeSnapshotDamaged where what it lacks is
// among what is asked for.
func (c *Coordinator) OpenRestore(ctx context.Context, request RestoreRequest) (*Restore, error) {
	return c.openRestore(ctx, request, c.pace.RestoreLease)
}

// OpenManifest opens a completed checkpoint for a look at its manifest and takes no lease.
func (c *Coordinator) OpenManifest(ctx context.Context, request RestoreRequest) (*Restore, error) {
	return c.openRestore(ctx, request, 0)
}

func (c *Coordinator) openRestore(ctx context.Context, request RestoreRequest, lease time.Duration) (*Restore, error) {
	var f faults
	f.ref(request.Job, request.ID)
	for _, task := range request.Tasks {
		f.param("taskId", CheckTaskID(task))
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	wish := RestoreCall{Ref: request.Ref, Tasks: request.Tasks, Shared: request.Shared, LeaseMs: lease.Milliseconds()}
	source, err := c.openUndamaged(ctx, wish)
	if err != nil {
		return nil, err
	}
	r := &Restore{coordinator: c, source: source, checkpoint: source.Checkpoint(), parts: source.Parts(), by: request.By, leased: lease > 0}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	if lacks := r.checkpoint.Damage; lacks != "" && concerns(lacks, r.parts) {
		r.Abandon()
		return nil, ErrSnapshotDamaged(r.checkpoint.ID, lacks, nil)
	}
	for _, part := range r.parts {
		r.size += part.Bytes
		r.entries += part.Entries
	}
	r.digest = ManifestDigest(r.parts)
	if request.Tasks == nil && r.checkpoint.Digest == "" {
		c.saveDigest(ctx, &r.checkpoint, r.digest)
	}
	if r.leased {
		r.renewing.Go(func() { r.renew(lease / 3) })
	}
	return r, nil
}

// saveDigest keeps a digest that was computed. Failing to is no failure of the request:
// any server can compute it again.
func (c *Coordinator) saveDigest(ctx context.Context, checkpoint *Checkpoint, digest string) {
	checkpoint.Digest = digest
	_, err := call(c, "save_digest", func() (struct{}, error) {
		return struct{}{}, c.store.SaveDigest(ctx, Ref{Job: checkpoint.Job, ID: checkpoint.ID}, digest)
	})
	if err != nil {
		c.observer.BackgroundFailed("save_digest", err)
	}
}

// fillDigest computes the snapshot digest of a completed checkpoint on first need. A
// damaged snapshot has none; restoring it says so.
func (c *Coordinator) fillDigest(ctx context.Context, checkpoint *Checkpoint) {
	if !checkpoint.Completed() || checkpoint.Digest != "" || checkpoint.SnapshotVersion > SnapshotVersion {
		return
	}
	r, err := c.OpenManifest(ctx, RestoreRequest{Ref: Ref{Job: checkpoint.Job, ID: checkpoint.ID}})
	if err != nil {
		return
	}
	checkpoint.Digest = r.digest
	r.Close()
}

// Checkpoint is the checkpoint that is restored.
func (r *Restore) Checkpoint() Checkpoint { return r.checkpoint }

// Size is the number of bytes.
func (r *Restore) Size() int64 { return r.size }

// Entries is the number of lines.
func (r *Restore) Entries() int64 { return r.entries }

// Digest is the digest of the selected parts' manifest: the snapshot's when all are.
func (r *Restore) Digest() string { return r.digest }

// Parts are the selected parts in restore order.
func (r *Restore) Parts() []ManifestPart { return r.parts }

// renew keeps the lease alive however slowly the reader reads.
func (r *Restore) renew(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		err := r.source.Renew(r.ctx)
		switch CodeOf(err) {
		case "", CodeStoreUnavailable, CodeOutcomeUnknown, CodeStoreFull, CodeInternal:
		default:
			r.cancel(err) // the checkpoint is gone: the transfer must break off
			return
		}
	}
}

// WriteRange writes length bytes from offset to w. It gives the lease back before the
// last byte, so that whoever has read it all finds the checkpoint free, and flushes a w that
// can be flushed before it records the transfer, so that nobody waits for that. An error
// means that not all bytes were written and the transfer must be broken off.
func (r *Restore) WriteRange(w io.Writer, offset, length int64) error {
	counted := &countingWriter{to: w}
	err := r.writeRange(counted, offset, length)
	r.markIfDamaged(err)
	r.coordinator.observer.Restored(r.checkpoint.Job, r.checkpoint.ID, counted.written, err)
	if reader, buffered := w.(interface{ Flush() }); buffered && err == nil {
		reader.Flush()
	}
	r.record(counted.written, err == nil)
	return err
}

// markIfDamaged keeps others from the checkpoint where its bytes were found to be others, twice.
func (r *Restore) markIfDamaged(err error) {
	damage, damaged := damageOf(err)
	if !damaged || r.checkpoint.Damage != "" {
		return
	}
	ctx, ref := context.WithoutCancel(r.ctx), Ref{Job: r.checkpoint.Job, ID: r.checkpoint.ID}
	for _, part := range r.parts {
		if partName(part) == damage.Damage && r.coordinator.isDamaged(ctx, ref, part) {
			r.coordinator.markDamaged(ctx, ref.Job, damage)
		}
	}
}

// concerns tells whether what a marked checkpoint lacks is among the parts that are asked for. The others are there,
// and may be all that is left to go on from.
func concerns(lacks string, parts []ManifestPart) bool {
	return !isPartName(lacks) || slices.ContainsFunc(parts, func(part ManifestPart) bool { return partName(part) == lacks })
}

// isPartName tells the name of a part from the other things that a checkpoint can lack, such as its list of acknowledgements.
func isPartName(lacks string) bool {
	return lacks == partName(ManifestPart{Shared: true}) || strings.HasPrefix(lacks, "the part of task ")
}

func partName(part ManifestPart) string {
	if part.Shared {
		return "the shared state"
	}
	return fmt.Sprintf("the part of task %q", part.TaskID)
}

// release gives the lease back. Failing to leaves it to its time.
func (r *Restore) release() {
	if !r.leased || r.released {
		return
	}
	r.released = true
	r.cancel(nil)
	r.renewing.Wait()
	if err := r.source.Release(context.WithoutCancel(r.ctx)); err != nil {
		r.coordinator.observer.BackgroundFailed("release_lease", err)
	}
}

// Close ends the restore. A lease that was not given back lives on for its time, so
// that a broken transfer can be resumed.
func (r *Restore) Close() {
	r.cancel(nil)
	r.renewing.Wait()
	if err := r.source.Close(); err != nil {
		r.coordinator.observer.BackgroundFailed("close_restore", err)
	}
}

// Abandon ends a restore that nobody is going to resume, and gives its lease back at once.
func (r *Restore) Abandon() {
	r.release()
	r.Close()
}
