package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// ErrorDocs is the page that says what each code asks of the caller; a problem's type is
// this and the code as its fragment.
const ErrorDocs = "https://github.com/checkpointd/checkpointd/blob/main/docs/errors.md"

// Presentation is how a code looks in HTTP.
type Presentation struct {
	Status int
	// Title is the code in words.
	Title string
	// Retryable says that the same request may work later; such answers carry Retry-After.
	Retryable bool
}

// presentations has every code of the domain, in the order of coordinator.Codes.
var presentations = map[coordinator.Code]Presentation{
	coordinator.CodeInvalidRequest:           {Status: http.StatusBadRequest, Title: "Invalid request"},
	coordinator.CodeInvalidParameter:         {Status: http.StatusBadRequest, Title: "Invalid parameter"},
	coordinator.CodeInvalidJSON:              {Status: http.StatusBadRequest, Title: "Invalid JSON"},
	coordinator.CodeUnauthorized:             {Status: http.StatusUnauthorized, Title: "Unauthorized"},
	coordinator.CodeForbidden:                {Status: http.StatusForbidden, Title: "Forbidden"},
	coordinator.CodeTaskNotExpected:          {Status: http.StatusForbidden, Title: "Task not expected"},
	coordinator.CodeNotFound:                 {Status: http.StatusNotFound, Title: "Not found"},
	coordinator.CodeJobNotFound:              {Status: http.StatusNotFound, Title: "Job not found"},
	coordinator.CodeCheckpointNotFound:       {Status: http.StatusNotFound, Title: "Checkpoint not found"},
	coordinator.CodeCheckpointDeleted:        {Status: http.StatusNotFound, Title: "Checkpoint deleted"},
	coordinator.CodeNoCompletedCheckpoint:    {Status: http.StatusNotFound, Title: "No completed checkpoint"},
	coordinator.CodeKeyNotFound:              {Status: http.StatusNotFound, Title: "Key not found"},
	coordinator.CodeAllSetAside:              {Status: http.StatusConflict, Title: "All completed checkpoints set aside"},
	coordinator.CodeTaskAbsent:               {Status: http.StatusConflict, Title: "Task absent from this checkpoint"},
	coordinator.CodeTaskNotInCheckpoint:      {Status: http.StatusNotFound, Title: "Task not in this checkpoint"},
	coordinator.CodeMethodNotAllowed:         {Status: http.StatusMethodNotAllowed, Title: "Method not allowed"},
	coordinator.CodeNotAcceptable:            {Status: http.StatusNotAcceptable, Title: "Not acceptable"},
	coordinator.CodeCheckpointNotCompleted:   {Status: http.StatusConflict, Title: "Checkpoint not completed"},
	coordinator.CodeCheckpointCompleted:      {Status: http.StatusConflict, Title: "Checkpoint completed"},
	coordinator.CodeCheckpointExpired:        {Status: http.StatusConflict, Title: "Checkpoint expired"},
	coordinator.CodeCheckpointAborted:        {Status: http.StatusConflict, Title: "Checkpoint aborted"},
	coordinator.CodeAcksMissing:              {Status: http.StatusConflict, Title: "Acknowledgements missing"},
	coordinator.CodeAckConflict:              {Status: http.StatusConflict, Title: "Conflicting acknowledgement"},
	coordinator.CodePartChanged:              {Status: http.StatusConflict, Title: "Part changed"},
	coordinator.CodeStaleEpoch:               {Status: http.StatusConflict, Title: "Stale epoch"},
	coordinator.CodeStaleAttempt:             {Status: http.StatusConflict, Title: "Stale attempt"},
	coordinator.CodePinned:                   {Status: http.StatusConflict, Title: "Checkpoint pinned"},
	coordinator.CodeUnsupportedVersion:       {Status: http.StatusConflict, Title: "Unsupported snapshot version"},
	coordinator.CodeSnapshotDamaged:          {Status: http.StatusConflict, Title: "Snapshot damaged"},
	coordinator.CodeJobNotEmpty:              {Status: http.StatusConflict, Title: "Job not empty"},
	coordinator.CodeMinPause:                 {Status: http.StatusConflict, Title: "Minimum pause not over", Retryable: true},
	coordinator.CodeIdempotencyTargetDeleted: {Status: http.StatusGone, Title: "Checkpoint of this key deleted"},
	coordinator.CodePreconditionFailed:       {Status: http.StatusPreconditionFailed, Title: "Precondition failed"},
	coordinator.CodeTooLarge:                 {Status: http.StatusRequestEntityTooLarge, Title: "Too large"},
	coordinator.CodeUnsupportedMediaType:     {Status: http.StatusUnsupportedMediaType, Title: "Unsupported media type"},
	coordinator.CodeRangeNotSatisfiable:      {Status: http.StatusRequestedRangeNotSatisfiable, Title: "Range not satisfiable"},
	coordinator.CodeIdempotencyKeyReused:     {Status: http.StatusUnprocessableEntity, Title: "Idempotency key reused"},
	coordinator.CodeTypeMismatch:             {Status: http.StatusUnprocessableEntity, Title: "Type mismatch"},
	coordinator.CodeSnapshotTooLarge:         {Status: http.StatusUnprocessableEntity, Title: "Snapshot too large for one document"},
	coordinator.CodeLimitExceeded:            {Status: http.StatusUnprocessableEntity, Title: "Limit exceeded"},
	coordinator.CodeTooManyPending:           {Status: http.StatusTooManyRequests, Title: "Too many pending checkpoints", Retryable: true},
	coordinator.CodeTooManyRequests:          {Status: http.StatusTooManyRequests, Title: "Too many requests", Retryable: true},
	coordinator.CodeInternal:                 {Status: http.StatusInternalServerError, Title: "Internal error"},
	coordinator.CodeStoreUnavailable:         {Status: http.StatusServiceUnavailable, Title: "Store unavailable", Retryable: true},
	coordinator.CodeOutcomeUnknown:           {Status: http.StatusServiceUnavailable, Title: "Outcome unknown", Retryable: true},
	coordinator.CodeNotReplicated:            {Status: http.StatusServiceUnavailable, Title: "Not replicated", Retryable: true},
	coordinator.CodeOverloaded:               {Status: http.StatusServiceUnavailable, Title: "Overloaded", Retryable: true},
	coordinator.CodeShuttingDown:             {Status: http.StatusServiceUnavailable, Title: "Shutting down", Retryable: true},
	coordinator.CodeStoreFull:                {Status: http.StatusInsufficientStorage, Title: "Store full", Retryable: true},
}

// Present gives the status, title and retryability of a code, and false for one that is
// none of ours.
func Present(code coordinator.Code) (Presentation, bool) {
	p, known := presentations[code]
	return p, known
}

// statusClientGone is what the access log shows when the client closed the connection
// before the answer; nobody receives it. The number is nginx' convention.
const statusClientGone = 499

// asRefusal gives err as a refusal that a client may read. What is not one already is our
// own fault and becomes CodeInternal.
func asRefusal(err error) *coordinator.Error {
	refusal, ok := errors.AsType[*coordinator.Error](err)
	if !ok {
		return coordinator.ErrInternal(err)
	}
	if _, known := presentations[refusal.Code]; !known {
		return coordinator.ErrInternal(err)
	}
	return refusal
}

// problemOf is the one place that makes a problem of a refusal.
func problemOf(refusal *coordinator.Error, instance string) api.Problem {
	presentation := presentations[refusal.Code]
	problem := api.Problem{
		Type: ErrorDocs + "#" + string(refusal.Code), Title: presentation.Title, Status: presentation.Status,
		Detail: refusal.Detail, Instance: instance, Code: api.ProblemCode(refusal.Code),
		Current: refusal.Current, Latest: refusal.Latest, CheckpointID: refusal.CheckpointID,
		MissingTasks: refusal.MissingTasks,
	}
	if refusal.Missing > 0 {
		problem.Missing = &refusal.Missing
	}
	if limit := api.LimitName(refusal.Limit); limit.Valid() {
		problem.Limit = &limit
	}
	for _, field := range refusal.Fields[:min(len(refusal.Fields), coordinator.MaxErrorsShown)] {
		problem.Errors = append(problem.Errors, problemErrorOf(field))
	}
	return problem
}

func problemErrorOf(field coordinator.FieldError) api.ProblemError {
	place := api.ProblemError{Detail: field.Detail}
	if field.Parameter != "" {
		place.Parameter = &field.Parameter
		return place
	}
	if field.Line > 0 {
		place.Line = &field.Line
	}
	if field.Pointer != "" || field.Line == 0 {
		place.Pointer = &field.Pointer // "" is the pointer to the whole body
	}
	return place
}

// writeProblem is the one writer behind every door.
func (s *server) writeProblem(w http.ResponseWriter, r *http.Request, refusal *coordinator.Error) {
	problem := problemOf(refusal, "urn:checkpointd:request:"+s.options.RequestID(r))
	header := w.Header()
	// What a handler had prepared for a success does not describe a problem.
	for _, name := range []string{"ETag", "Content-Length", "Accept-Ranges", "Last-Modified", "Location", "Age"} {
		header.Del(name)
	}
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	if refusal.Code == coordinator.CodeUnauthorized {
		header.Set("WWW-Authenticate", challenge(r))
	}
	if presentations[refusal.Code].Retryable {
		header.Set("Retry-After", strconv.FormatInt(retryAfterSeconds(refusal.RetryAfter), 10))
	}
	body := &bytes.Buffer{}
	encoder := json.NewEncoder(body)
	encoder.SetEscapeHTML(false) // details quote names, which should stay readable
	if err := encoder.Encode(problem); err != nil {
		s.options.OnError(r, err) // cannot happen: a problem of ours always marshals
	}
	e := exchangeOf(r.Context())
	unread, bounds, keep := e.unread(), readOnFor(e, refusal), true
	if unread {
		if keep = bounds.keepsConnection(e, refusal); !keep {
			header.Set("Connection", "close")
		}
		// Else net/http would read some of the body before it sends the answer.
		_ = http.NewResponseController(w).EnableFullDuplex() // a recorder in a test has nothing to read
	}
	header.Set("Content-Length", strconv.Itoa(body.Len())) // or the answer would end only with the rest of the body
	w.WriteHeader(problem.Status)
	if _, err := w.Write(body.Bytes()); err != nil {
		s.options.OnError(r, err)
	}
	if unread {
		s.readRest(e, bounds, keep)
	}
}

// retryAfterSeconds rounds up, and is at least a second: 0 would ask for a busy loop.
func retryAfterSeconds(wait time.Duration) int64 {
	return max(1, int64(math.Ceil(wait.Seconds())))
}
