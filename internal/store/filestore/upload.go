package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// uploadLeaseMs is how long an upload lives without a sign of life. One whose request
// has died without discarding it would keep its bytes until the next start.
const uploadLeaseMs = int64(time.Minute / time.Millisecond)

// upload is a running upload. Its bytes belong to nobody until Commit; up to InlineBytes
// are kept in memory, more go to a file.
type upload struct {
	store *Store
	call  coordinator.UploadCall
	name  string

	// mu guards the rest: Check runs beside the other methods, and the sweep ends
	// uploads that were left alone.
	mu        sync.Mutex
	small     []byte
	file      *os.File // nil while the bytes fit into small
	size      int64
	flushed   int64 // of size, that were sent to the disk
	published bool  // the file has its final name
	committed bool  // the bytes are the task's part
	result    coordinator.CommitResult
	ended     bool
	expires   int64
}

var _ coordinator.Upload = (*upload)(nil)

var (
	errUploadEnded = errors.New("the upload was discarded, or given up because it showed no sign of life for a minute")
	errIncomplete  = errors.New("the upload does not have the bytes that its commit names")
)

// BeginUpload checks that the task may hand in a part.
func (s *Store) BeginUpload(ctx context.Context, call coordinator.UploadCall) (coordinator.Upload, error) {
	u := &upload{store: s, call: call, name: newName()}
	if err := u.Check(ctx); err != nil {
		return nil, err
	}
	s.uploadsMu.Lock()
	defer s.uploadsMu.Unlock()
	s.uploads[u.name] = u
	return u, nil
}

// WriteChunk stores one chunk.
func (u *upload) WriteChunk(_ context.Context, index int, chunk []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return coordinator.ErrStoreUnavailable(errUploadEnded)
	}
	off := int64(index) * coordinator.ChunkBytes
	if off > u.size {
		return coordinator.ErrInternal(fmt.Errorf("chunk %d came before the one that it follows", index))
	}
	end := off + int64(len(chunk))
	u.size = max(u.size, end)
	u.expires = u.store.clock() + uploadLeaseMs
	if u.file == nil && end <= InlineBytes {
		u.small = append(u.small[:off], chunk...)
		return nil
	}
	if u.file == nil {
		file, err := u.store.folder.create(u.name)
		if err != nil {
			return storageError(err)
		}
		u.file = file
		if _, err := u.store.disk.WriteAt(file, u.small, 0); err != nil {
			return storageError(fmt.Errorf("write a part: %w", err))
		}
		u.small = nil
	}
	if _, err := u.store.disk.WriteAt(u.file, chunk, off); err != nil {
		return storageError(fmt.Errorf("write a part: %w", err))
	}
	if u.size-u.flushed >= flushEvery {
		u.store.folder.flush(u.file, u.flushed, u.size)
		u.flushed = u.size
	}
	return nil
}

// ReadAt reads back bytes that were written.
func (u *upload) ReadAt(_ context.Context, p []byte, off int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return coordinator.ErrStoreUnavailable(errUploadEnded)
	}
	var from io.ReaderAt = bytes.NewReader(u.small)
	if u.file != nil {
		from = onDisk{u.store.disk, u.file}
	}
	n, err := from.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return coordinator.ErrInternal(fmt.Errorf("read back an upload: %w", err))
	}
	return storageError(fmt.Errorf("read back an upload: %w", err))
}

// Check renews the lease and answers the refusal that Commit would answer now.
func (u *upload) Check(ctx context.Context) error {
	if err := u.check(ctx); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended && !u.committed {
		return coordinator.ErrStoreUnavailable(errUploadEnded)
	}
	u.expires = u.store.clock() + uploadLeaseMs
	return nil
}

// check reads, unless it finds that time has done something to the checkpoint, which
// whoever meets it writes.
func (u *upload) check(ctx context.Context) error {
	unsettled := false
	_, err := read(ctx, u.store, func(st *step) (struct{}, error) {
		c, err := st.subject(coordinator.Ref{Job: u.call.Job, ID: u.call.ID}, u.call.Import, true)
		if err != nil {
			return struct{}{}, err
		}
		unsettled = c.unsettled(st.now)
		return struct{}{}, u.admit(st, c)
	})
	if !unsettled {
		return err
	}
	_, err = free(ctx, u.store, func(st *step) (struct{}, error) {
		c, err := st.subjectToChange(u.call.Job, u.call.ID, u.call.Import, true)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, u.admit(st, c)
	})
	return err
}

// admit tells whether the task may hand in a part now, and else gives the refusal.
func (u *upload) admit(st *step, c *checkpoint) error {
	r := c.at(st.now)
	if refusal := c.checkSender(u.call.TaskID, u.call.Epoch, u.call.Attempt); refusal != nil {
		return refusal
	}
	late := func() error { return st.nextSteps(c.job, coordinator.ErrEnded(c.id, r.Status)) }
	tasks := r.Acked + r.Staged
	switch {
	case r.Status == coordinator.StatusExpired, r.Status == coordinator.StatusAborted:
		return late()
	case c.hasAcked(u.call.TaskID):
		return coordinator.ErrAckConflict(c.id, u.call.TaskID)
	case r.Status == coordinator.StatusCompleted:
		return late()
	case tasks >= coordinator.MaxTasksPerCheckpoint && !has(child(c.b, bucketParts), u.call.TaskID):
		what := fmt.Sprintf("Checkpoint %d has parts of %d tasks already", c.id, tasks)
		return coordinator.ErrLimitExceeded("tasksPerCheckpoint", coordinator.MaxTasksPerCheckpoint, what)
	}
	return nil
}

// Commit makes the part the task's own. Repeated, it answers what it answered.
func (u *upload) Commit(ctx context.Context, call coordinator.CommitCall) (coordinator.CommitResult, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.committed {
		return u.result, nil
	}
	if err := u.publish(call.Part); err != nil {
		return coordinator.CommitResult{}, err
	}
	result, err := mutate(ctx, u.store, func(st *step) (coordinator.CommitResult, error) {
		return u.commit(st, call)
	})
	if err != nil {
		return coordinator.CommitResult{}, err
	}
	u.committed, u.result = true, result
	u.end()
	return result, nil
}

// publish makes the bytes whole and durable, before a record names them.
func (u *upload) publish(info coordinator.PartInfo) error {
	switch {
	case u.ended:
		return coordinator.ErrStoreUnavailable(errUploadEnded)
	case u.size != info.Bytes:
		return coordinator.ErrStoreUnavailable(fmt.Errorf("%w: %d instead of %d", errIncomplete, u.size, info.Bytes))
	case u.file == nil || u.published:
		return nil
	}
	if u.flushed > 0 { // most of it is on the disk, and the rest takes its turn, too
		u.store.folder.flush(u.file, u.flushed, u.size)
	}
	err := u.store.folder.publish(u.file, u.name)
	if err == nil {
		u.published = true
		err = u.store.folder.sync()
	}
	if err != nil {
		u.end() // see publish: what failed once must not be tried again
		return storageError(err)
	}
	return nil
}

func (u *upload) commit(st *step, call coordinator.CommitCall) (coordinator.CommitResult, error) {
	c, err := st.subjectToChange(u.call.Job, u.call.ID, u.call.Import, true)
	if err != nil {
		return coordinator.CommitResult{}, err
	}
	if err := u.admit(st, c); err != nil {
		return coordinator.CommitResult{}, err
	}
	if call.Ack {
		if err := c.checkBefore(1); err != nil {
			return coordinator.CommitResult{}, err
		}
	}
	if !has(child(c.b, bucketParts), u.call.TaskID) {
		c.Staged++
	}
	st.setPart(c, u.call.TaskID, newPart(u.name, call.Part, u.file != nil), u.small)
	st.hearAttempt(c.job, u.call.TaskID, u.call.Attempt)
	if !call.Ack {
		return coordinator.CommitResult{}, nil
	}
	item := coordinator.AckItem{TaskID: u.call.TaskID, Attempt: u.call.Attempt, Epoch: u.call.Epoch}
	outcome, _ := st.acknowledge(c, ackWord{AckItem: item, token: u.name})
	if c.Status == coordinator.StatusCompleted {
		st.retain(c.job, call.Retention)
	}
	return coordinator.CommitResult{Ack: &outcome}, nil
}

// Discard gives the bytes back.
func (u *upload) Discard(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.end()
	if err := u.store.folder.unlink(unlinkNow); err != nil {
		return storageError(err)
	}
	return nil
}

// end lets go of everything, but for a file that is a task's part now. The caller holds mu.
func (u *upload) end() {
	if u.ended {
		return
	}
	u.ended = true
	u.small = nil
	if u.file != nil {
		_ = u.file.Close() // it is synced, or given up
		switch {
		case u.committed:
		case u.published:
			u.store.folder.discard(u.name)
		default:
			u.store.folder.discard(u.name + partial)
		}
	}
	u.store.uploadsMu.Lock()
	defer u.store.uploadsMu.Unlock()
	delete(u.store.uploads, u.name)
}

// running gives the running uploads.
func (s *Store) running() []*upload {
	s.uploadsMu.Lock()
	defer s.uploadsMu.Unlock()
	return slices.Collect(maps.Values(s.uploads))
}

// endUploads ends all running uploads.
func (s *Store) endUploads() {
	for _, u := range s.running() {
		u.mu.Lock()
		u.end()
		u.mu.Unlock()
	}
}

// endSilentUploads ends those uploads that have shown no sign of life for too long.
func (s *Store) endSilentUploads() {
	for _, u := range s.running() {
		if !u.mu.TryLock() {
			continue // somebody is at work on it, for long if it syncs gigabytes
		}
		if u.expires < s.clock() {
			u.end()
		}
		u.mu.Unlock()
	}
}
