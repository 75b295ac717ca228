package handlers

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
	"github.com/checkpointd/checkpointd/internal/load"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// A plain acknowledgement is what a fleet sends most: one task's word in a small body, or a
// list of them, without anything unusual around it. Bound and decoded as any other request
// it costs three times what the rest of its way does, so it has a door of its own. That door
// takes only what the general one would take, to the same effect; whatever it is not sure
// of, a refusal above all, it leaves to that one, as if it had not looked.

// How many bytes the body of a plain acknowledgement may have, so that the longest list with
// names of usual length fits, and how many of memory are kept for the next one.
const (
	maxPlainBody = 128 << 10
	keptPlain    = 16 << 10
)

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
	headerNoCache = []string{cacheControl}
)

// plainAck is the memory of one request with plain acknowledgements.
type plainAck struct {
	body   [keptPlain]byte
	fields []snapshot.Field
	// items are what the body says. It is a list where list is set, of one else.
	items  []coordinator.AckItem
	list   bool
	answer []byte
}

var plainAcks = sync.Pool{New: func() any { return new(plainAck) }}

// ServeHTTP takes every request of the API.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	job, id, plain := plainAckHead(r)
	var caller *doors.Caller
	if plain = plain && s.options.Hosts(r.Host); plain {
		caller = s.options.Caller(r)
		plain = mayAcknowledge(caller, job)
	}
	if !plain {
		s.general.ServeHTTP(w, r)
		return
	}
	counted := r.ContentLength > largeBytes
	if counted {
		who := load.Who{Client: clientOf(r, caller), Job: job}
		if err := s.options.Load.Buffered.Take(r.Context(), who, bodyCopies*r.ContentLength); err != nil {
			s.startPlain(w, r)
			s.refusePlain(w, r, s.shed(err, buffered), false)
			return
		}
		defer s.options.Load.Buffered.Give(who, bodyCopies*r.ContentLength)
	}
	a := plainAcks.Get().(*plainAck) //nolint:forcetypeassert // The pool holds nothing else.
	defer a.release()
	body := a.room(int(r.ContentLength))
	// A server without deadlines reads without them; net/http lifts them at the body's end.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.patience(r.ContentLength)))
	n, err := io.ReadFull(r.Body, body)
	if err == nil && a.read(body) && a.admitted(caller) {
		_ = r.Body.Close() // it is read; net/http would make sure of that before the answer
		s.acknowledgePlain(w, r, caller, a, coordinator.Ref{Job: job, ID: id})
		return
	}
	replayed := &replayedBody{Closer: r.Body, Reader: io.MultiReader(bytes.NewReader(body[:n]), failedReader{err})}
	if counted && err == nil {
		replayed.counted = body
	}
	r.Body = replayed
	s.general.ServeHTTP(w, r)
}

// plainAckHead tells whether the head of a request is that of a plain acknowledgement, and
// of which checkpoint.
func plainAckHead(r *http.Request) (job string, id int64, plain bool) {
	path, isAck := strings.CutSuffix(r.URL.Path, ackPathTail)
	if !isAck || r.Method != http.MethodPost || r.ContentLength <= 0 || r.ContentLength > maxPlainBody || r.URL.RawPath != "" {
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

// room is where a body of so many bytes goes.
func (a *plainAck) room(size int) []byte {
	if size > len(a.body) {
		return make([]byte, size)
	}
	return a.body[:size]
}

// release gives the memory back for the next request, without what only an unusual one needs.
func (a *plainAck) release() {
	clear(a.items)
	if cap(a.answer) > keptPlain {
		a.answer = nil
	}
	plainAcks.Put(a)
}

// plainDepth is for an acknowledgement: around each value of its state stand the two objects.
const plainDepth = maxNesting + 2

// read reads a body.
func (a *plainAck) read(body []byte) (plain bool) {
	a.items = a.items[:0]
	// What is made of a body may have what was asked for beside it; more is for the general door, which
	// asks for more.
	room := partRoom{left: max(largeBytes, (bodyCopies-1)*len(body))}
	rest, isList := cutTokens(body, "{", `"acks"`, ":", "[")
	if a.list = isList; isList {
		return a.readList(rest, &room)
	}
	rest, plain = a.add(body, &room)
	return plain && len(trimSpace(rest)) == 0
}

// readList reads what follows the bracket of a list.
func (a *plainAck) readList(rest []byte, room *partRoom) (plain bool) {
	for len(a.items) < coordinator.MaxBulkAcks {
		if rest, plain = a.add(rest, room); !plain {
			return false
		}
		after, goesOn := cutTokens(rest, ",")
		if !goesOn {
			rest, plain = cutTokens(rest, "]", "}")
			return plain && len(trimSpace(rest)) == 0
		}
		rest = after
	}
	return false
}

// cutTokens gives what follows the tokens, with white space between them; found is false
// where text does not begin so.
func cutTokens(text []byte, tokens ...string) (rest []byte, found bool) {
	for _, token := range tokens {
		if text, found = bytes.CutPrefix(trimSpace(text), []byte(token)); !found {
			return nil, false
		}
	}
	return text, true
}

// trimSpace cuts the white space of JSON off the front.
func trimSpace(text []byte) []byte {
	for i, c := range text {
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return text[i:]
		}
	}
	return nil
}

// add reads the acknowledgement that text begins with, and gives what follows it.
func (a *plainAck) add(text []byte, room *partRoom) (rest []byte, plain bool) {
	if a.fields, rest, plain = snapshot.CutFields(a.fields[:0], text, plainDepth); !plain {
		return nil, false
	}
	a.items = append(a.items, coordinator.AckItem{})
	item := &a.items[len(a.items)-1]
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
			return nil, false
		}
		if !plain {
			return nil, false
		}
	}
	if coordinator.CheckTaskID(item.TaskID) != nil {
		return nil, false
	}
	if state == nil {
		return rest, true
	}
	part, err := renderPart("/state", item.TaskID, state, room)
	item.Part = part
	return rest, err == nil
}

// admitted tells whether the caller may speak for all the tasks.
func (a *plainAck) admitted(caller *doors.Caller) bool {
	return !slices.ContainsFunc(a.items, func(item coordinator.AckItem) bool { return !caller.AsTask(item.TaskID) })
}

// acknowledgePlain calls the coordinator and answers, as the general way does.
func (s *server) acknowledgePlain(w http.ResponseWriter, r *http.Request, caller *doors.Caller, a *plainAck, ref coordinator.Ref) {
	s.startPlain(w, r)
	header := w.Header()
	slots := s.options.Load.Of(load.Small)
	var who load.Who
	if !slots.TryTake() {
		who = load.Who{Client: clientOf(r, caller), Job: ref.Job}
		if err := slots.Take(r.Context(), who, 1); err != nil {
			s.refusePlain(w, r, s.shed(err, load.Small), true)
			return
		}
	}
	err := s.acknowledge(a, ref)
	slots.Give(who, 1)
	if err != nil {
		s.refusePlain(w, r, err, true)
		return
	}
	header["Content-Type"] = headerJSON
	header["Content-Length"] = []string{strconv.Itoa(len(a.answer))}
	_, _ = w.Write(a.answer) // whoever does not hear it asks again
}

// startPlain begins an answer of this door as the general one does.
func (s *server) startPlain(w http.ResponseWriter, r *http.Request) {
	if route := chi.RouteContext(r.Context()); route != nil {
		route.RoutePatterns = append(route.RoutePatterns, ackPattern)
	}
	header := w.Header()
	header["X-Content-Type-Options"] = headerNoSniff
	header["Cache-Control"] = headerNoCache
}

// acknowledge calls the coordinator. A panic is an error of ours.
func (s *server) acknowledge(a *plainAck, ref coordinator.Ref) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = panicked(cause)
		}
	}()
	ctx := s.budgets.take()
	if a.list {
		// A copy, since a store may hold on to what it was given for longer than the call takes.
		result, err := s.coordinator.AcknowledgeAll(ctx, ref.Job, ref.ID, slices.Clone(a.items))
		if err == nil {
			a.answer = appendBulkAckResult(a.answer[:0], ref.ID, result)
		}
		return err
	}
	outcome, err := s.coordinator.Acknowledge(ctx, ref.Job, ref.ID, a.items[0])
	if err == nil {
		a.answer = appendAckResult(a.answer[:0], ackResultOf(ref.ID, outcome))
	}
	return err
}

// refusePlain refuses what the coordinator refused, or the bounds; read tells whether the body was.
func (s *server) refusePlain(w http.ResponseWriter, r *http.Request, err error, read bool) {
	e := &exchange{writer: w, body: &heldBody{source: r.Body, ended: read}, caller: s.options.Caller(r), operation: acknowledge}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	e.request = r
	s.refuse(w, r, err)
}

// replayedBody is a body of which something was read, as if it had not been.
type replayedBody struct {
	io.Reader
	io.Closer

	// counted is all of it where the memory for it was asked for already; nil elsewhere.
	counted []byte
}

// failedReader has nothing more, for its reason.
type failedReader struct{ err error }

func (r failedReader) Read([]byte) (int, error) {
	if r.err == nil {
		return 0, io.EOF
	}
	return 0, r.err
}
