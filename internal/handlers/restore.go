package handlers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// restoreWish is a restore as its headers ask for it.
type restoreWish struct {
	coordinator.RestoreRequest
	byteRange, ifRange, ifNoneMatch *string
}

// restoreRequestOf maps the filters. Shared state without tasks is part of everything.
func restoreRequestOf(ref coordinator.Ref, tasks []string, shared *bool) coordinator.RestoreRequest {
	return coordinator.RestoreRequest{Ref: ref, Tasks: tasks, Shared: valueOr(shared, false)}
}

// RestoreCheckpoint streams a completed checkpoint back.
func (s *server) RestoreCheckpoint(ctx context.Context, request api.RestoreCheckpointRequestObject) (api.RestoreCheckpointResponseObject, error) {
	params := request.Params
	return s.restore(ctx, restoreWish{
		RestoreRequest: restoreRequestOf(coordinator.Ref{Job: jobOf(params.Job), ID: int64(request.ID)}, params.TaskID, params.Shared),
		byteRange:      params.Range, ifRange: params.IfRange, ifNoneMatch: params.IfNoneMatch,
	})
}

// RestoreLatest streams the latest completed checkpoint back.
func (s *server) RestoreLatest(ctx context.Context, request api.RestoreLatestRequestObject) (api.RestoreLatestResponseObject, error) {
	params := request.Params
	return s.restore(ctx, restoreWish{
		RestoreRequest: restoreRequestOf(latestOf(params.Job), params.TaskID, params.Shared),
		byteRange:      params.Range, ifRange: params.IfRange, ifNoneMatch: params.IfNoneMatch,
	})
}

// restore opens a restore and decides what of it is sent.
func (s *server) restore(ctx context.Context, wish restoreWish) (*restoreAnswer, error) {
	wish.By = requesterOf(exchangeOf(ctx))
	stream, inTime, cancel := s.starting(ctx, longBudget)
	restore, err := s.coordinator.OpenRestore(stream, wish.RestoreRequest)
	if !inTime() {
		if err == nil {
			restore.Abandon()
		}
		err = coordinator.ErrStoreUnavailable(err)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	if parts := len(restore.Parts()) * partMemory; parts > largeBytes {
		if err := s.takeBuffered(exchangeOf(ctx), int64(parts)); err != nil {
			restore.Abandon()
			cancel()
			return nil, err
		}
	}
	answer := &restoreAnswer{server: s, restore: restore, exchange: exchangeOf(ctx), cancel: cancel, part: byteRange{length: restore.Size()}}
	if err := answer.choose(wish); err != nil {
		answer.close()
		return nil, err
	}
	return answer, nil
}

// partMemory is about what a restore keeps in memory of each part, in bytes.
const partMemory = 256

// restoreAnswer streams a restore. Whoever has it must visit or close it.
type restoreAnswer struct {
	server   *server
	restore  *coordinator.Restore
	exchange *exchange
	cancel   context.CancelFunc
	status   int
	part     byteRange
	ranges   string
}

// choose decides between 304, 206 and 200 in the order of RFC 9110 section 13.2.2.
func (a *restoreAnswer) choose(wish restoreWish) error {
	a.status, a.ranges = http.StatusOK, "bytes"
	if wish.ID == coordinator.Latest {
		a.ranges = "none"
	}
	tag := a.restore.Digest()
	if unchanged(wish.ifNoneMatch, tag) {
		a.status = http.StatusNotModified
		return nil
	}
	// Two requests for the latest may see two checkpoints: only the tag can tell.
	ranged := wish.ID != coordinator.Latest
	if wish.ifRange != nil {
		ranged = *wish.ifRange == quoted(tag)
	}
	if wish.byteRange == nil || !ranged {
		return nil
	}
	part, ok, err := parseRange(*wish.byteRange, a.restore.Size())
	if err != nil {
		a.exchange.writer.Header().Set("Content-Range", "bytes */"+strconv.FormatInt(a.restore.Size(), 10))
		return err
	}
	if ok {
		a.status, a.part = http.StatusPartialContent, part
	}
	return nil
}

// close gives back the lease of a restore that is not going to be sent.
func (a *restoreAnswer) close() {
	a.restore.Abandon()
	a.cancel()
}

// VisitRestoreCheckpointResponse streams.
func (a *restoreAnswer) VisitRestoreCheckpointResponse(w http.ResponseWriter) error {
	return a.write(w)
}

// VisitRestoreLatestResponse streams.
func (a *restoreAnswer) VisitRestoreLatestResponse(w http.ResponseWriter) error { return a.write(w) }

// write sends the head and the bytes. What fails before the head is out is refused; after it an error can only
// break the transfer off: its length tells the client that it is short.
func (a *restoreAnswer) write(w http.ResponseWriter) error {
	if a.status == http.StatusNotModified {
		w.Header().Set("ETag", quoted(a.restore.Digest()))
		a.close()
		w.WriteHeader(a.status)
		return nil
	}
	defer a.cancel()
	defer a.restore.Close()
	sink := &restoreWriter{
		patientWriter: patientWriter{to: w, control: http.NewResponseController(w), patience: a.server.options.RestoreIdle},
		head:          func() { a.writeHead(w) },
	}
	if err := a.restore.WriteRange(sink, a.part.offset, a.part.length); err != nil {
		if !sink.begun {
			return err
		}
		a.server.reportStream(a.exchange.request, err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// writeHead sends the head of a restore.
func (a *restoreAnswer) writeHead(w http.ResponseWriter) {
	header := w.Header()
	header.Set("ETag", quoted(a.restore.Digest()))
	header.Set("Content-Type", mediaNDJSON)
	header.Set("Content-Length", strconv.FormatInt(a.part.length, 10))
	header.Set("Accept-Ranges", a.ranges)
	header.Set("Checkpoint-Entries", strconv.FormatInt(a.restore.Entries(), 10))
	nameCheckpoint(w, a.restore.Checkpoint().ID)
	if a.status == http.StatusPartialContent {
		header.Set("Content-Range", a.part.contentRange(a.restore.Size()))
	}
	w.WriteHeader(a.status)
}

// heldBack is how many bytes of a restore wait for those behind them before its head is sent: the whole of a small
// one is found to be as it was recorded, or refused. The first piece of a larger one is up to a chunk, whose part was
// checked if it ends in it.
const heldBack = 64 << 10

// restoreWriter holds the first bytes of a restore, and its head, back.
type restoreWriter struct {
	patientWriter

	head  func()
	held  []byte
	begun bool
}

// Write holds p back, or sends it.
func (w *restoreWriter) Write(p []byte) (int, error) {
	if !w.begun && len(w.held)+len(p) <= heldBack {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	if err := w.begin(); err != nil {
		return 0, err
	}
	return w.patientWriter.Write(p)
}

// begin sends the head and what was held back.
func (w *restoreWriter) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	w.head()
	_, err := w.patientWriter.Write(w.held)
	w.held = nil
	return err
}

// Flush sends everything; a reader that left shows at the next write.
func (w *restoreWriter) Flush() {
	if w.begin() == nil {
		_ = w.control.Flush()
	}
}

// reportStream reports why a stream broke off. A reader that left is no trouble.
func (s *server) reportStream(r *http.Request, err error) {
	if _, ours := errors.AsType[*coordinator.Error](err); ours {
		s.options.OnError(r, err)
	}
}

// patientWriter drops a reader that has stopped reading, however long the whole takes.
type patientWriter struct {
	to       io.Writer
	control  *http.ResponseController
	patience time.Duration
}

// Write writes all of p within the patience.
func (w *patientWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patience)) // a server without deadlines waits
	return w.to.Write(p)                                       //nolint:wrapcheck // WriteRange wraps it.
}

// HeadRestore checks that a checkpoint can be restored and describes the stream.
func (s *server) HeadRestore(ctx context.Context, request api.HeadRestoreRequestObject) (api.HeadRestoreResponseObject, error) {
	params := request.Params
	ref := coordinator.Ref{Job: jobOf(params.Job), ID: int64(request.ID)}
	headers, same, err := s.describeRestore(ctx, restoreRequestOf(ref, params.TaskID, params.Shared), params.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	if same {
		return api.HeadRestore304Response{Headers: api.NotModifiedResponseHeaders{ETag: headers.ETag}}, nil
	}
	return describedRestore(headers), nil
}

// HeadRestoreLatest does so for the latest completed checkpoint.
func (s *server) HeadRestoreLatest(ctx context.Context, request api.HeadRestoreLatestRequestObject) (api.HeadRestoreLatestResponseObject, error) {
	params := request.Params
	headers, same, err := s.describeRestore(ctx, restoreRequestOf(latestOf(params.Job), params.TaskID, params.Shared), params.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	if same {
		return api.HeadRestoreLatest304Response{Headers: api.NotModifiedResponseHeaders{ETag: headers.ETag}}, nil
	}
	return describedRestore(headers), nil
}

// describeRestore opens a restore without a lease; same tells that the client has it.
func (s *server) describeRestore(
	ctx context.Context, request coordinator.RestoreRequest, ifNoneMatch *string,
) (headers api.RestoreHeadersResponseHeaders, same bool, err error) {
	restore, err := s.coordinator.OpenManifest(ctx, request)
	if err != nil {
		return headers, false, err
	}
	defer restore.Close()
	headers = api.RestoreHeadersResponseHeaders{
		AcceptRanges: "bytes", CheckpointEntries: restore.Entries(), CheckpointID: restore.Checkpoint().ID,
		ContentLength: restore.Size(), ETag: quoted(restore.Digest()),
	}
	if request.ID == coordinator.Latest {
		headers.AcceptRanges = "none"
	}
	return headers, unchanged(ifNoneMatch, restore.Digest()), nil
}

// describedRestore is the answer to HEAD: the generated one lacks the media type, which
// HEAD answers as GET does.
type describedRestore api.RestoreHeadersResponseHeaders

// VisitHeadRestoreResponse writes the head.
func (a describedRestore) VisitHeadRestoreResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", mediaNDJSON)
	return api.HeadRestore200Response{Headers: api.RestoreHeadersResponseHeaders(a)}.VisitHeadRestoreResponse(w)
}

// VisitHeadRestoreLatestResponse writes the head.
func (a describedRestore) VisitHeadRestoreLatestResponse(w http.ResponseWriter) error {
	return a.VisitHeadRestoreResponse(w)
}
