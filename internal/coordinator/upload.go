package coordinator

import (
	"context"
	"sync"
	"time"
)

// UploadCall begins the upload of a task's part.
type UploadCall struct {
	Job     string
	ID      int64
	TaskID  string
	Attempt int64
	Epoch   *int64
	// Token identifies the upload; the store keeps it with the part.
	Token string
	// Import is the token of the import that makes the checkpoint, see [ImportStep]; "" for everybody else.
	Import string
}

// Upload is one running upload. Its methods are for one goroutine, except Check.
type Upload interface {
	// WriteChunk stores chunk number index (from 0, each ChunkBytes long but the last).
	// It may return before the chunk is durable and must not keep the slice; a failure
	// shows in a later call, at the latest in Commit.
	WriteChunk(ctx context.Context, index int, chunk []byte) error
	// ReadAt reads back bytes handed to WriteChunk earlier.
	ReadAt(ctx context.Context, p []byte, off int64) error
	// Check renews the lease and answers the refusal that Commit would answer now.
	Check(ctx context.Context) error
	// Commit makes the part the task's own, all of it at once, and with Ack also
	// acknowledges in the same step. Repeating it is harmless. Errors: the order above,
	// CodeAckConflict, CodeLimitExceeded (MaxTasksPerCheckpoint).
	Commit(ctx context.Context, call CommitCall) (CommitResult, error)
	// Discard gives the chunks back. It is harmless after Commit.
	Discard(ctx context.Context) error
}

// ChunkBytes is the size of every chunk of a part but the last.
const ChunkBytes = 256 << 10

// CommitCall ends an upload.
type CommitCall struct {
	Part PartInfo
	// Ack acknowledges too; Retention is the server's default then.
	Ack       bool
	Retention Retention
}

// CommitResult has the acknowledgement's outcome when CommitCall.Ack was set.
type CommitResult struct {
	Ack *AckOutcome
}

// RunningUpload is an [Upload] that is watched: its checkpoint may end or its epoch may
// pass while bytes are still coming, and its sender should learn so at once.
type RunningUpload struct {
	Upload
	coordinator *Coordinator
	job         string
	id          int64
	ctx         context.Context //nolint:containedctx // It is the upload's own life, handed out by Context.
	cancel      context.CancelCauseFunc
	watched     sync.WaitGroup
}

// BeginUpload checks that the task may hand in a part now and names the upload in the
// store. The caller must end it with Commit or Discard. The call's Token is filled in.
func (c *Coordinator) BeginUpload(ctx context.Context, begin UploadCall) (*RunningUpload, error) {
	var f faults
	f.ref(begin.Job, begin.ID)
	f.param("taskId", CheckTaskID(begin.TaskID))
	f.param("attempt", CheckCounter(begin.Attempt))
	if begin.Epoch != nil {
		f.param("epoch", CheckCounter(*begin.Epoch))
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	begin.Token = newToken()
	upload, err := call(c, "begin_upload", func() (Upload, error) { return c.store.BeginUpload(ctx, begin) })
	if err != nil {
		return nil, err
	}
	u := &RunningUpload{Upload: upload, coordinator: c, job: begin.Job, id: begin.ID}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	u.watched.Go(u.watch)
	return u, nil
}

// Context ends when the upload can no longer succeed; its cause is the refusal. Reading
// the body should stop then.
func (u *RunningUpload) Context() context.Context { return u.ctx }

// watch asks the store again and again whether the upload may still be committed, which
// also renews its lease. A store that is away is no refusal: commit will find out.
func (u *RunningUpload) watch() {
	tick := time.NewTicker(u.coordinator.pace.UploadCheck)
	defer tick.Stop()
	for {
		select {
		case <-u.ctx.Done():
			return
		case <-tick.C:
		}
		err := u.Check(u.ctx)
		switch CodeOf(err) {
		case "", CodeStoreUnavailable, CodeOutcomeUnknown, CodeStoreFull, CodeInternal:
		default:
			u.cancel(err)
			return
		}
	}
}

// stop ends the watch and gives the refusal that it met, if any.
func (u *RunningUpload) stop() error {
	refused := context.Cause(u.ctx)
	u.cancel(context.Canceled)
	u.watched.Wait()
	return refused
}

// Commit makes the part the task's own, all of it at once; with ack it also
// acknowledges in the same step.
func (u *RunningUpload) Commit(ctx context.Context, part PartInfo, ack bool) (*AckOutcome, error) {
	if refused := u.stop(); refused != nil {
		return nil, asError(refused)
	}
	result, err := call(u.coordinator, "commit_upload", func() (CommitResult, error) {
		return u.Upload.Commit(ctx, CommitCall{Part: part, Ack: ack, Retention: u.coordinator.settings.Retention})
	})
	if err != nil {
		return nil, err
	}
	if result.Ack != nil {
		u.coordinator.observer.Acknowledged(u.job, u.id, *result.Ack)
		if result.Ack.Refusal != nil {
			return nil, result.Ack.Refusal
		}
	}
	return result.Ack, nil
}

// Discard gives back what was uploaded. It is harmless after Commit, so it can be
// deferred; it runs to its end although the request's context has ended.
func (u *RunningUpload) Discard(ctx context.Context) {
	_ = u.stop() // the caller has the refusal already, or does not want it
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	if err := u.Upload.Discard(ctx); err != nil {
		// The sweeper unlinks it when its lease has run out.
		u.coordinator.observer.BackgroundFailed("discard_upload", err)
	}
}

const discardTimeout = 5 * time.Second
