package handlers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/load"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// commitBudget is how long the store may take to make a received part the task's own.
const commitBudget = 30 * time.Second

// UploadPart receives the part of the task in the path.
func (s *server) UploadPart(ctx context.Context, request api.UploadPartRequestObject) (api.UploadPartResponseObject, error) {
	params := request.Params
	stored, err := s.uploadPart(ctx, uploadOf(params.Job, request.ID, request.TaskID, params.Attempt, params.Epoch), params.Ack, params.ContentDigest)
	return api.UploadPart200JSONResponse{PartStoredJSONResponse: stored}, err
}

// UploadPartByQuery receives the part of the task in the query.
func (s *server) UploadPartByQuery(ctx context.Context, request api.UploadPartByQueryRequestObject) (api.UploadPartByQueryResponseObject, error) {
	params := request.Params
	stored, err := s.uploadPart(ctx, uploadOf(params.Job, request.ID, params.TaskID, params.Attempt, params.Epoch), params.Ack, params.ContentDigest)
	return api.UploadPartByQuery200JSONResponse{PartStoredJSONResponse: stored}, err
}

func uploadOf(job *string, id api.ID, taskID string, attempt, epoch *int64) coordinator.UploadCall {
	return coordinator.UploadCall{Job: jobOf(job), ID: int64(id), TaskID: taskID, Attempt: valueOr(attempt, 0), Epoch: epoch}
}

// uploadPart receives a part. The store is asked before the first byte is read, so that a
// client which waits for 100 Continue learns of a refusal before it sends anything.
func (s *server) uploadPart(
	ctx context.Context, call coordinator.UploadCall, ack *bool, contentDigest *string,
) (stored api.PartStoredJSONResponse, _ error) {
	e := exchangeOf(ctx)
	if err := checkMediaType(e.request, mediaNDJSON, mediaJSON); err != nil {
		return stored, err
	}
	if err := admitTask(ctx, call.TaskID, ""); err != nil {
		return stored, err
	}
	digest, err := sha256Of(contentDigest)
	if err != nil {
		return stored, err
	}
	upload, err := s.beginUpload(ctx, call)
	if err != nil {
		return stored, err
	}
	defer upload.Discard(ctx)
	part, err := s.receive(e, upload, call.TaskID, digest)
	if err != nil {
		return stored, err
	}
	commit, cancel := context.WithTimeout(ctx, commitBudget)
	defer cancel()
	outcome, err := upload.Commit(commit, part, valueOr(ack, false))
	if err != nil {
		return stored, err
	}
	return api.PartStoredJSONResponse(uploadResultOf(call.ID, part, outcome)), nil
}

// beginUpload asks the store within the budget of a small request. The upload's context
// lives on until the request ends.
func (s *server) beginUpload(ctx context.Context, call coordinator.UploadCall) (*coordinator.RunningUpload, error) {
	stream, inTime, cancel := s.starting(ctx, s.options.Budget)
	upload, err := s.coordinator.BeginUpload(stream, call)
	if !inTime() {
		if err == nil {
			upload.Discard(ctx)
		}
		err = coordinator.ErrStoreUnavailable(err)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	context.AfterFunc(ctx, cancel)
	return upload, nil
}

// receive reads the body into the store and describes the part. When the upload cannot
// succeed any more, reading ends at once and the cause is the error.
func (s *server) receive(e *exchange, upload *coordinator.RunningUpload, taskID string, digest []byte) (coordinator.PartInfo, error) {
	body := s.uploadBody(upload.Context(), e)
	if digest != nil {
		body.sum = sha256.New()
	}
	stop := context.AfterFunc(upload.Context(), body.interrupt)
	defer body.endTurn()
	part, err := s.store(e, upload, taskID, body)
	if !stop() {
		return coordinator.PartInfo{}, whyEnded(upload.Context(), err)
	}
	if err == nil && digest != nil {
		err = checkContentDigest(digest, body.sum.Sum(nil))
	}
	return part, err
}

// whyEnded tells the refusal that ended an upload from a connection that did: net/http
// ends a request's context with every failed read, also one that we gave up ourselves.
func whyEnded(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) && errors.As(err, new(*bodyError)) {
		return err
	}
	return cause
}

// store renders the entries of a body into chunks and checks that no key comes twice.
func (s *server) store(e *exchange, upload *coordinator.RunningUpload, taskID string, body *uploadBody) (coordinator.PartInfo, error) {
	entries, err := s.entriesOf(e, taskID, body)
	if err != nil {
		return coordinator.PartInfo{}, stateRefusal("", err)
	}
	keys := snapshot.NewKeySet(s.options.TempDir)
	defer keys.Close() //nolint:errcheck // The temporary file has no name any more.
	part := snapshot.NewPartWriter(taskID, s.coordinator.Settings().MaxPartBytes, func(index int, chunk []byte) error {
		return upload.WriteChunk(upload.Context(), index, chunk)
	})
	part.KeepPace(body)
	defer part.Close() // before the upload is discarded, as nothing may be written then
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = keys.Add(entry.Key, part.Bytes(), entry.Line)
		}
		if err == nil {
			err = part.Add(entry.Key, entry.Value)
		}
		if err != nil {
			return coordinator.PartInfo{}, stateRefusal("", err)
		}
	}
	stored, err := part.Finish()
	if err != nil {
		return coordinator.PartInfo{}, stateRefusal("", err)
	}
	if err := keys.Finish(readBack(upload, stored.Bytes)); err != nil {
		return coordinator.PartInfo{}, stateRefusal("", err)
	}
	return stored, nil
}

// entryReader gives the entries of an upload one by one, then io.EOF.
type entryReader interface {
	Next() (snapshot.Entry, error)
}

// entriesOf reads NDJSON as it comes, and a JSON object whole, since it is bounded.
func (s *server) entriesOf(e *exchange, taskID string, body io.Reader) (entryReader, error) {
	if mediaType, _ := mediaTypeOf(e.request, mediaNDJSON, mediaJSON); mediaType == mediaNDJSON {
		lines := snapshot.NewLineReader(body, taskID, coordinator.MaxValueBytes)
		lines.OnLongLine(func(bytes int) error { return s.takeBuffered(e, int64(bytes)) })
		return lines, nil
	}
	raw, err := s.readWhole(e, body)
	if err != nil {
		return nil, err
	}
	return snapshot.NewObjectReader(raw, coordinator.MaxValueBytes)
}

// readBack reads what was uploaded, for keys that look alike.
func readBack(upload *coordinator.RunningUpload, size int64) io.ReaderAt {
	return snapshot.ReaderAtFunc(func(p []byte, off int64) (int, error) {
		n := int(min(int64(len(p)), max(0, size-off)))
		if err := upload.ReadAt(upload.Context(), p[:n], off); err != nil {
			return 0, fmt.Errorf("reading the upload back: %w", err)
		}
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	})
}

// uploadBody is the body of an upload: hashed on its way where that is wanted, given up
// when nothing or too little comes, and at once when ctx ends.
type uploadBody struct {
	ctx context.Context //nolint:containedctx // It is the upload's life, which a Reader cannot be passed.
	// turns are taken to compute over what was read, until the next Read.
	turns   load.Turns
	alone   func() bool
	turn    bool
	source  io.Reader
	control *http.ResponseController
	idle    time.Duration
	began   time.Time
	read    int64
	sum     hash.Hash
}

// uploadBody reads the body of a request until ctx ends. Whoever has read it ends its turn.
func (s *server) uploadBody(ctx context.Context, e *exchange) *uploadBody {
	e.transfer = &uploadBody{
		ctx: ctx, source: e.body.real(), control: http.NewResponseController(e.writer), idle: s.options.UploadIdle, began: time.Now(),
		turns: s.options.Load.Turns,
		alone: func() bool { return s.options.Load.Of(load.Upload).Usage().Used <= 1 },
	}
	return e.transfer
}

// bytesPerSecond is the pace that an upload must keep up on the whole, so that a client
// which trickles bytes does not hold a connection for ever.
const bytesPerSecond = 512

// endTurn lets others compute.
func (b *uploadBody) endTurn() {
	if b.turn {
		b.turn = false
		b.turns.End()
	}
}

func (b *uploadBody) beginTurn() {
	b.turns.Begin()
	b.turn = true
}

// Wait leaves the turn to others while the store is slower than the client.
func (b *uploadBody) Wait(done <-chan struct{}) {
	select {
	case <-done:
		return
	default:
	}
	had := b.turn
	b.endTurn()
	<-done
	if had {
		b.beginTurn()
	}
}

// Compute takes a turn, which an upload without company needs not.
func (b *uploadBody) Compute(f func()) {
	if b.alone() {
		f()
		return
	}
	b.turns.Begin()
	defer b.turns.End()
	f()
}

// Read reads some of the body; its errors are bodyErrors.
func (b *uploadBody) Read(p []byte) (int, error) {
	b.endTurn()
	deadline, slowest := time.Now().Add(b.idle), b.began.Add(b.idle+time.Duration(b.read/bytesPerSecond)*time.Second)
	if slowest.Before(deadline) {
		deadline = slowest
	}
	_ = b.control.SetReadDeadline(deadline) // a server without deadlines waits; net/http lifts it at the end
	// In this order, so that an interruption between the two is not undone.
	if err := b.ctx.Err(); err != nil {
		return 0, &bodyError{err}
	}
	n, err := b.source.Read(p)
	b.beginTurn()
	b.read += int64(n)
	if b.sum != nil {
		b.sum.Write(p[:n])
	}
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

// interrupt ends a Read that waits for the client.
func (b *uploadBody) interrupt() {
	_ = b.control.SetReadDeadline(time.Unix(1, 0)) // without deadlines the next Read finds out
}
