package handlers

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// A plain acknowledgement is what a fleet sends most: one task's word in a small body,
// without anything unusual around it. Bound and decoded as any other request it costs
// three times what the rest of its way does, so it has a door of its own. That door takes
// only what the general one would take, to the same effect; whatever it is not sure of, a
// refusal above all, it leaves to that one, as if it had not looked.

// maxPlainAck is how many bytes the body of a plain acknowledgement may have.
const maxPlainAck = 16 << 10

// The path of acknowledgements around the id, and the pattern of the generated router.
const (
	ackPathHead = "/checkpoints/"
	ackPathTail = "/acks"
	ackPattern  = ackPathHead + "{id}" + ackPathTail
)

// Headers that never change are shared by all answers; net/http only reads them.
var (
	headerJSON    = []string{mediaJSON}
	headerNoSniff = []string{"nosniff"}
	headerNoCache = []string{"no-cache"}
)

// plainAck is the memory of one plain acknowledgement.
type plainAck struct {
	body   [maxPlainAck]byte
	fields []snapshot.Field
	answer []byte
}

var plainAcks = sync.Pool{New: func() any { return new(plainAck) }}

// ServeHTTP takes every request of the API.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	job, id, plain := plainAckHead(r)
	if !plain {
		s.general.ServeHTTP(w, r)
		return
	}
	a := plainAcks.Get().(*plainAck) //nolint:forcetypeassert // The pool holds nothing else.
	defer plainAcks.Put(a)
	body := a.body[:r.ContentLength]
	// A server without deadlines reads without them; net/http lifts them at the body's end.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.options.BodyTimeout))
	n, err := io.ReadFull(r.Body, body)
	if err == nil {
		if item, plain := a.item(body); plain {
			_ = r.Body.Close() // it is read; net/http would make sure of that before the answer
			s.acknowledgePlain(w, r, a, coordinator.Ref{Job: job, ID: id}, item)
			return
		}
	}
	r.Body = &replayedBody{Closer: r.Body, Reader: io.MultiReader(bytes.NewReader(body[:n]), failedReader{err})}
	s.general.ServeHTTP(w, r)
}

// plainAckHead tells whether the head of a request is that of a plain acknowledgement, and
// of which checkpoint.
func plainAckHead(r *http.Request) (job string, id int64, plain bool) {
	path, isAck := strings.CutSuffix(r.URL.Path, ackPathTail)
	if !isAck || r.Method != http.MethodPost || r.ContentLength <= 0 || r.ContentLength > maxPlainAck || r.URL.RawPath != "" {
		return "", 0, false
	}
	if path, isAck = strings.CutPrefix(path, ackPathHead); !isAck || !plainHeaders(r.Header) {
		return "", 0, false
	}
	if id, plain = plainNumber(path); !plain {
		return "", 0, false
	}
	job, plain = plainJob(r.URL.RawQuery)
	return job, id, plain
}

func plainHeaders(header http.Header) bool {
	if mediaType := header["Content-Type"]; len(mediaType) != 1 || mediaType[0] != mediaJSON {
		return false
	}
	if accept := header["Accept"]; len(accept) > 1 || len(accept) == 1 && accept[0] != "*/*" && accept[0] != mediaJSON {
		return false
	}
	for _, unusual := range [...]string{"Content-Encoding", "Expect", "Origin", "Sec-Fetch-Site"} {
		if header[unusual] != nil {
			return false
		}
	}
	return true
}

// plainJob reads a query that is empty or names a job and nothing else.
func plainJob(query string) (job string, plain bool) {
	if query == "" {
		return coordinator.DefaultJob, true
	}
	job, plain = strings.CutPrefix(query, "job=")
	return job, plain && coordinator.CheckJob(job) == nil
}

// plainNumber reads an id, an epoch or an attempt, as every door writes them.
func plainNumber[T string | []byte](text T) (int64, bool) {
	const longest = len("9007199254740991")
	if len(text) == 0 || len(text) > longest || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	n := int64(0)
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(text[i]-'0')
	}
	return n, n <= coordinator.MaxID
}

// plainText reads a string without escapes.
func plainText(value []byte) (string, bool) {
	if len(value) < len(`""`) || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return "", false
	}
	return string(value[1 : len(value)-1]), true
}

// item reads the body of a plain acknowledgement.
func (a *plainAck) item(body []byte) (item coordinator.AckItem, plain bool) {
	// Around a state stands the body's object, and around each of its values the state.
	const depth = maxNesting + 2
	if a.fields, plain = snapshot.AppendFields(a.fields[:0], body, depth); !plain {
		return item, false
	}
	var state []byte
	for _, field := range a.fields {
		switch string(field.Name) {
		case "taskId":
			item.TaskID, plain = plainText(field.Value)
		case "attempt":
			item.Attempt, plain = plainNumber(field.Value)
		case "epoch":
			item.Epoch = new(int64)
			*item.Epoch, plain = plainNumber(field.Value)
		case "digest":
			item.Digest, plain = plainText(field.Value)
			plain = plain && coordinator.CheckDigest(item.Digest) == nil
		case "state":
			state = field.Value
		default:
			return item, false
		}
		if !plain {
			return item, false
		}
	}
	if coordinator.CheckTaskID(item.TaskID) != nil {
		return item, false
	}
	if state == nil {
		return item, true
	}
	budget := maxInlineParts
	part, err := renderPart("/state", item.TaskID, state, &budget)
	item.Part = part
	return item, err == nil
}

// acknowledgePlain calls the coordinator and answers, as the general way does.
func (s *server) acknowledgePlain(w http.ResponseWriter, r *http.Request, a *plainAck, ref coordinator.Ref, item coordinator.AckItem) {
	if route := chi.RouteContext(r.Context()); route != nil {
		route.RoutePatterns = append(route.RoutePatterns, ackPattern)
	}
	header := w.Header()
	header["X-Content-Type-Options"] = headerNoSniff
	header["Cache-Control"] = headerNoCache
	outcome, err := s.acknowledge(ref, item)
	if err != nil {
		s.refusePlain(w, r, err)
		return
	}
	a.answer = appendAckResult(a.answer[:0], ackResultOf(ref.ID, outcome))
	header["Content-Type"] = headerJSON
	header["Content-Length"] = []string{strconv.Itoa(len(a.answer))}
	_, _ = w.Write(a.answer) // whoever does not hear it asks again
}

// acknowledge calls the coordinator. A panic is an error of ours.
func (s *server) acknowledge(ref coordinator.Ref, item coordinator.AckItem) (outcome coordinator.AckOutcome, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = panicked(cause)
		}
	}()
	return s.coordinator.Acknowledge(s.budgets.take(), ref.Job, ref.ID, item)
}

// refusePlain refuses what the coordinator refused.
func (s *server) refusePlain(w http.ResponseWriter, r *http.Request, err error) {
	e := &exchange{writer: w, body: &heldBody{ended: true}, operation: operations["Acknowledge"]}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	e.request = r
	s.refuse(w, r, err)
}

// appendAckResult appends an answer as encoding/json writes it.
func appendAckResult(dst []byte, a api.AckResult) []byte {
	dst = append(dst, `{"checkpointId":`...)
	dst = strconv.AppendInt(dst, a.CheckpointID, 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, a.Status...)
	dst = append(dst, `","acknowledgedTasks":`...)
	dst = strconv.AppendInt(dst, int64(a.AcknowledgedTasks), 10)
	dst = append(dst, `,"requiredTaskAcks":`...)
	dst = strconv.AppendInt(dst, int64(a.RequiredTaskAcks), 10)
	dst = append(dst, `,"duplicate":`...)
	dst = strconv.AppendBool(dst, a.Duplicate)
	return append(dst, '}', '\n')
}

// replayedBody is a body of which something was read, as if it had not been.
type replayedBody struct {
	io.Reader
	io.Closer
}

// failedReader has nothing more, for its reason.
type failedReader struct{ err error }

func (r failedReader) Read([]byte) (int, error) {
	if r.err == nil {
		return 0, io.EOF
	}
	return 0, r.err
}
