package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	uploadPreludes = append(slices.Clip(importPreludes), "prelude_upload")
	commitPreludes = append(slices.Clip(ackPreludes), "prelude_import", "prelude_upload")

	beginUploadScript   = newScript("begin_upload", uploadPreludes)
	writeChunkScript    = newScript("write_chunk", uploadPreludes)
	checkUploadScript   = newScript("check_upload", uploadPreludes)
	commitUploadScript  = newScript("commit_upload", commitPreludes)
	discardUploadScript = newScript("discard_upload", uploadPreludes)
)

// Words of the scripts about uploads.
const (
	wordUploadLost       = "upload_lost"
	wordUploadIncomplete = "upload_incomplete"
)

// uploadLease is how long an upload lives without a check; the coordinator checks every
// two seconds.
const uploadLease = time.Minute

// chunksInFlight is how many chunks of one upload are on their way to Redis at a time. It
// hides the round trip and bounds the memory of an upload to a megabyte.
const chunksInFlight = 4

// upload is a running upload. Chunks are copied and sent in the background; the first
// failure is kept and shows in every later call.
type upload struct {
	store *Store
	call  coordinator.UploadCall

	// slots has a buffer for each chunk that may still be sent, nil before its first use.
	slots chan *[coordinator.ChunkBytes]byte

	mu        sync.Mutex
	failed    error
	committed bool
}

// chunkBuffers outlive uploads, since most uploads are small and many.
var chunkBuffers = sync.Pool{New: func() any { return new([coordinator.ChunkBytes]byte) }}

// BeginUpload checks that the task may hand in a part and names the upload in the leased
// index. Like all scripts of uploads but the commit it may run twice unnoticed, and a
// lost reply changes nothing that anybody sees.
func (s *Store) BeginUpload(ctx context.Context, call coordinator.UploadCall) (coordinator.Upload, error) {
	u := &upload{store: s, call: call, slots: make(chan *[coordinator.ChunkBytes]byte, chunksInFlight)}
	for range chunksInFlight {
		u.slots <- nil
	}
	if err := u.ask(ctx, beginUploadScript); err != nil {
		return nil, err
	}
	return u, nil
}

// ask runs a script that judges the upload and renews its lease.
func (u *upload) ask(ctx context.Context, sc *script) error {
	args := append(u.sender(), uploadLease.Milliseconds(), coordinator.MaxTasksPerCheckpoint, u.call.Import)
	r, err := u.store.run(ctx, sc, reads, u.call.Job, args...)
	if err != nil {
		return err
	}
	if r.word != wordOK {
		return u.refusal(sc.verb, r)
	}
	return nil
}

// sender is what the scripts judge an upload by.
func (u *upload) sender() []any {
	return []any{decimal(u.call.ID), u.call.TaskID, epochText(u.call.Epoch), decimal(u.call.Attempt), u.call.Token}
}

func (u *upload) refusal(verb string, r reply) error {
	body := cursor{values: r.body}
	switch r.word {
	case string(coordinator.CodeStoreFull):
		return coordinator.ErrStoreFull(errors.New("what is left of maxmemory is kept for what is smaller than an upload"))
	case wordUploadLost:
		return coordinator.ErrStoreUnavailable(errors.New("the store gave the upload up: it was not checked for longer than its lease"))
	case wordUploadIncomplete:
		return coordinator.ErrStoreUnavailable(fmt.Errorf("the store lost chunks of the upload: it has %d of them with %d bytes", body.number(), body.number()))
	case string(coordinator.CodeLimitExceeded):
		return coordinator.ErrLimitExceeded("tasksPerCheckpoint", coordinator.MaxTasksPerCheckpoint, "The checkpoint has too many tasks")
	default:
		return refusal(verb, u.call.Job, u.call.ID, r)
	}
}

// WriteChunk hands a chunk to the background, and waits while chunksInFlight are there.
func (u *upload) WriteChunk(ctx context.Context, index int, chunk []byte) error {
	slot, err := u.take(ctx)
	if err != nil {
		return err
	}
	if slot == nil {
		slot = chunkBuffers.Get().(*[coordinator.ChunkBytes]byte) //nolint:forcetypeassert // The pool holds nothing else.
	}
	if err := u.failure(); err != nil {
		u.slots <- slot
		return err
	}
	length := copy(slot[:], chunk)
	// The caller may well end the context before it commits: this chunk counts all the
	// same. The call's own budget ends it.
	background := context.WithoutCancel(ctx)
	go func() {
		defer func() { u.slots <- slot }()
		u.send(background, index, slot[:length])
	}()
	return nil
}

func (u *upload) send(ctx context.Context, index int, chunk []byte) {
	err := u.writeChunk(ctx, index, chunk)
	if err == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed == nil {
		u.failed = err
	}
}

func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed
}

// take waits for a free slot.
func (u *upload) take(ctx context.Context) (*[coordinator.ChunkBytes]byte, error) {
	select {
	case slot := <-u.slots:
		return slot, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a chunk to be written: %w", context.Cause(ctx))
	}
}

// settle waits until every chunk is written and gives the first failure. It gives the
// buffers back to the other uploads.
func (u *upload) settle(ctx context.Context) error {
	var err error
	taken := 0
	for taken < chunksInFlight && err == nil {
		var slot *[coordinator.ChunkBytes]byte
		slot, err = u.take(ctx)
		if err == nil {
			taken++
		}
		if slot != nil {
			chunkBuffers.Put(slot)
		}
	}
	for range taken {
		u.slots <- nil
	}
	if err != nil {
		return err
	}
	return u.failure()
}

// ReadAt reads back bytes that were written, across chunks.
func (u *upload) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := u.settle(ctx); err != nil {
		return err
	}
	keys := u.store.keys(u.call.Job)
	for len(p) > 0 {
		chunk, start := int(off/coordinator.ChunkBytes), off%coordinator.ChunkBytes
		n := min(int64(len(p)), coordinator.ChunkBytes-start)
		err := u.store.fetchRange(ctx, keys.chunk(u.call.ID, u.call.Token, chunk), p[:n], start)
		if errors.Is(err, errNotAsRecorded) {
			return coordinator.ErrStoreUnavailable(fmt.Errorf("read chunk %d of the upload back: %w", chunk, err))
		}
		if err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

// Check renews the lease and answers the refusal that Commit would answer now.
func (u *upload) Check(ctx context.Context) error {
	return u.ask(ctx, checkUploadScript)
}

// Commit makes the part the task's own. The upload's token makes a repeat harmless.
func (u *upload) Commit(ctx context.Context, call coordinator.CommitCall) (coordinator.CommitResult, error) {
	if err := u.settle(ctx); err != nil {
		return coordinator.CommitResult{}, err
	}
	part := call.Part
	args := append(u.sender(), coordinator.MaxTasksPerCheckpoint, chunksOf(part.Bytes), decimal(part.Bytes),
		decimal(part.Entries), part.Digest, flag(call.Ack), retentionText(call.Retention), u.call.Import)
	r, err := u.store.run(ctx, commitUploadScript, repeatable, u.call.Job, args...)
	if err != nil {
		return coordinator.CommitResult{}, err
	}
	if r.word != wordOK {
		return coordinator.CommitResult{}, u.refusal(commitUploadScript.verb, r)
	}
	u.mu.Lock()
	u.committed = true
	u.mu.Unlock()
	if !call.Ack {
		return coordinator.CommitResult{}, nil
	}
	outcome, err := u.acknowledged(r)
	if err != nil {
		return coordinator.CommitResult{}, badReply(commitUploadScript.verb, r, err)
	}
	return coordinator.CommitResult{Ack: &outcome}, nil
}

func (u *upload) acknowledged(r reply) (coordinator.AckOutcome, error) {
	acks, err := readAcks(u.call.Job, u.call.ID, r.body, 1)
	if err != nil {
		return coordinator.AckOutcome{}, err
	}
	return acks.next(u.call.TaskID)
}

// Discard gives the chunks back.
func (u *upload) Discard(ctx context.Context) error {
	settled := u.settle(ctx)
	u.mu.Lock()
	committed := u.committed
	u.mu.Unlock()
	if committed {
		return nil
	}
	if settled != nil && ctx.Err() != nil {
		return settled
	}
	_, err := u.store.run(ctx, discardUploadScript, reads, u.call.Job, decimal(u.call.ID), u.call.Token)
	return err
}

// epochText is an epoch as scripts take it: "" is not checked.
func epochText(epoch *int64) string {
	if epoch == nil {
		return ""
	}
	return decimal(*epoch)
}
