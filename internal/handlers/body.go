package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/operations"
)

// heldBody keeps a request's body from the generated code, which would decode it laxly
// and whole. To that code it looks like an empty object, or like nothing when there is
// nothing; the gate decodes what is behind it, or the handler of a stream reads it.
type heldBody struct {
	source io.ReadCloser
	// control and patience bound the wait for the first byte; see readBody for the rest.
	control  *http.ResponseController
	patience time.Duration
	// announced tells that the request's head names a length above 0.
	announced bool
	// peeked is the first byte, once it was needed to tell whether there is any.
	peeked []byte
	// shown is how much of the stand-in was read.
	shown int
	// read is how many bytes behind were read; ended tells that it was all of them.
	read  int64
	ended bool
}

const standIn = "{}"

// Read gives the stand-in.
func (b *heldBody) Read(p []byte) (int, error) {
	if b.shown == 0 {
		if err := b.peek(); err != nil {
			return 0, err
		}
	}
	n := copy(p, standIn[b.shown:])
	b.shown += n
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// peek reads the first byte; io.EOF means that there is no body.
func (b *heldBody) peek() error {
	if b.announced { // so a sender that waits for 100 Continue hears of a refusal before it sends anything
		return nil
	}
	// A server without deadlines, as in some tests, waits without them.
	_ = b.control.SetReadDeadline(time.Now().Add(b.patience))
	defer func() { _ = b.control.SetReadDeadline(time.Time{}) }()
	var first [1]byte
	if _, err := io.ReadFull(b.source, first[:]); err != nil {
		if errors.Is(err, io.EOF) {
			b.ended = true
			return io.EOF
		}
		return &bodyError{err}
	}
	b.peeked, b.read = first[:], 1
	return nil
}

// Close closes what is behind.
func (b *heldBody) Close() error { return b.source.Close() } //nolint:wrapcheck // It only stands in front.

// real is the body as it was sent.
func (b *heldBody) real() io.Reader {
	return io.MultiReader(bytes.NewReader(b.peeked), endReader{b})
}

// endReader notes when the body has come to its end.
type endReader struct{ body *heldBody }

func (r endReader) Read(p []byte) (int, error) {
	n, err := r.body.source.Read(p)
	r.body.read += int64(n)
	r.body.ended = r.body.ended || err == io.EOF
	return n, err //nolint:wrapcheck // Readers pass errors on.
}

// bodyError is a body that could not be read to its end, which is the sender's doing.
type bodyError struct{ cause error }

func (e *bodyError) Error() string { return "reading the body: " + e.cause.Error() }
func (e *bodyError) Unwrap() error { return e.cause }

func isBodyError(err error) bool {
	_, is := errors.AsType[*bodyError](err)
	return is
}

// takeBody decodes the body of a request into where the generated code has put its
// stand-in, and gives its length.
func (s *server) takeBody(e *exchange, request any) (int, error) {
	field := reflect.ValueOf(request).FieldByName("Body")
	if !field.IsValid() || field.IsNil() {
		return 0, nil // the operation has no body, or an optional one was left out
	}
	if err := checkMediaType(e.request, mediaJSON); err != nil {
		return 0, err
	}
	raw, err := s.readBody(e)
	if err != nil {
		return 0, err
	}
	e.bodySize = len(raw)
	if err := s.takeStructure(e, raw); err != nil {
		return 0, err
	}
	return len(raw), decodeStrict(raw, field.Interface())
}

// takeStructure asks for the memory that decoding a large body takes beside its bytes.
func (s *server) takeStructure(e *exchange, raw []byte) error {
	if needs := structure(raw, s.options.Load.Limits().BufferedBytes/4); needs > bodyCopies*largeBytes {
		return s.takeBuffered(e, needs)
	}
	return nil
}

// readBody reads a JSON body of limited size in limited time.
func (s *server) readBody(e *exchange) ([]byte, error) {
	limit, length := mostBody(e.operation), e.request.ContentLength
	if replayed, is := e.body.source.(*replayedBody); is && replayed.counted != nil {
		e.body.ended = true
		return replayed.counted, nil // or its memory would be counted, and taken, twice
	}
	if length < 0 || length > limit {
		length = limit
	}
	// A server without deadlines reads without them; net/http lifts them at the body's end.
	_ = http.NewResponseController(e.writer).SetReadDeadline(time.Now().Add(s.patience(length)))

	return s.readWhole(e, e.body.real())
}

// bodyCopies is how many times the bytes of a large body are in memory: as they came, and
// as what is decoded or written of them.
const bodyCopies = 2

// readWhole reads a body of limited size into memory, for which it asks first where the body
// is large: all at once if its length is announced, else as it comes.
func (s *server) readWhole(e *exchange, from io.Reader) ([]byte, error) {
	limit, length := mostBody(e.operation), e.request.ContentLength
	if length > limit {
		return nil, bodyTooLarge(e.operation, length) // before there is room for it
	}
	var raw bytes.Buffer
	room := int64(largeBytes)
	if length > room {
		if err := s.takeBuffered(e, bodyCopies*length); err != nil {
			return nil, err
		}
		room = limit + 1
	}
	if length > 0 {
		raw.Grow(int(length) + bytes.MinRead)
	}
	for {
		if _, err := raw.ReadFrom(io.LimitReader(from, room-int64(raw.Len()))); err != nil {
			return nil, &bodyError{err}
		}
		if int64(raw.Len()) < room {
			return raw.Bytes(), nil
		}
		if room > limit {
			return nil, bodyTooLarge(e.operation, 0)
		}
		more := min(3*room, limit+1-room)
		if err := s.takeBuffered(e, bodyCopies*more); err != nil {
			return nil, err
		}
		room += more
	}
}

// patience is how long a JSON body of that length may take to arrive.
func (s *server) patience(length int64) time.Duration {
	const pace = 64 << 10 // bytes a second
	return s.options.BodyTimeout + time.Duration(length/pace)*time.Second
}

// bodyTooLarge names the limit; length 0 is one that was not announced.
func bodyTooLarge(o *operations.Operation, length int64) *coordinator.Error {
	what := "The body is too large"
	if length > 0 {
		what = fmt.Sprintf("The body has %d bytes", length)
	}
	return coordinator.ErrTooLarge(o.BodyLimitName, o.BodyLimit, what)
}

// checkMediaType refuses a body in another form than those wanted. Forms and plain text,
// which pages of other origins can send without asking, are among the refused.
func checkMediaType(r *http.Request, wanted ...string) error {
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return &coordinator.Error{
				Code:   coordinator.CodeUnsupportedMediaType,
				Detail: "Compressed bodies are not read here. Send the body without Content-Encoding.",
			}
		}
	}
	if _, ok := mediaTypeOf(r, wanted...); ok {
		return nil
	}
	return &coordinator.Error{
		Code:   coordinator.CodeUnsupportedMediaType,
		Detail: fmt.Sprintf("This takes %s. Set the Content-Type header so; with curl: -H 'Content-Type: %s'.", strings.Join(wanted, " or "), wanted[0]),
	}
}

// mediaTypeOf gives the one of the wanted media types that the body has. UTF-8 is the
// only charset.
func mediaTypeOf(r *http.Request, wanted ...string) (string, bool) {
	header := r.Header.Values("Content-Type")
	if len(header) != 1 {
		return "", false
	}
	mediaType, parameters, err := mime.ParseMediaType(header[0])
	if err != nil {
		return "", false
	}
	if charset, has := parameters["charset"]; has && !strings.EqualFold(charset, "utf-8") {
		return "", false
	}
	for _, want := range wanted {
		if mediaType == want {
			return want, true
		}
	}
	return "", false
}
