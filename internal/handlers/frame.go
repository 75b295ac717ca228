package handlers

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
	"github.com/checkpointd/checkpointd/internal/operations"
)

// exchange is one request and its answer. The strict server hands its handlers neither,
// but a streamed body has deadlines that only the connection can keep.
type exchange struct {
	writer    http.ResponseWriter
	request   *http.Request
	body      *heldBody
	operation *operations.Operation
	// transfer is the body where it is streamed, nil before that and elsewhere.
	transfer *uploadBody
	// caller is who sent the request, nil for a stranger; cancel ends its context early.
	caller *doors.Caller
	cancel context.CancelCauseFunc
	holds  holding
	// bodySize is how many bytes a JSON body had.
	bodySize int
	// wait is how long the request may wait for something to answer.
	wait time.Duration
	// budget is how long the store may take over the request, without what it waits.
	budget time.Duration
}

// callerName is what the caller is called, "" where nobody demands a name.
func (e *exchange) callerName() string {
	if e.caller == nil {
		return ""
	}
	return e.caller.Name
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// frame is around every request, also those that no route takes.
func (s *server) frame(next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, r *http.Request) {
		w, knows := writer.(statusWriter)
		if !knows {
			w = middleware.NewWrapResponseWriter(writer, r.ProtoMajor)
		}
		e := &exchange{writer: w, body: &heldBody{
			source: r.Body, control: http.NewResponseController(w), patience: s.options.BodyTimeout, announced: r.ContentLength > 0,
		}}
		e.caller = s.options.Caller(r)
		defer s.release(e)
		ctx := context.WithValue(r.Context(), exchangeKey{}, e)
		if !e.caller.Lasting() {
			ctx, e.cancel = context.WithCancelCause(ctx)
			defer e.cancel(nil)
		}
		r = r.WithContext(ctx)
		r.Body = e.body
		e.request = r
		defer s.recoverPanic(w, r)

		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", cacheControl)
		// The router works on the escaped path, and parameters are unescaped once, after
		// it. Without this it would do so only for some paths, and %2F would be a slash.
		r.URL.RawPath = r.URL.EscapedPath()
		if !s.options.Hosts(r.Host) {
			s.refuse(w, r, otherHost())
			return
		}
		if err := s.origins.Check(r); err != nil {
			s.refuse(w, r, crossOrigin())
			return
		}
		if e.caller == nil && !s.options.Public[r.URL.Path] {
			s.refuse(w, r, stranger(r)) // before a word is said about what there is
			return
		}
		if err := s.route(e); err != nil {
			s.refuse(w, r, err)
		} else {
			next.ServeHTTP(w, r)
		}
		e.leaveBody()
	})
}

// cacheControl is that answers may be kept, but are asked for again with their tags, and that nothing on the way
// changes their bytes: a tag is of these very bytes, and so are lengths, digests and ranges of restores.
const cacheControl = "no-cache, no-transform"

// unread tells that some of the body may still be on its way.
func (e *exchange) unread() bool { return e.request.ContentLength != 0 && !e.body.ended }

// leaveBody bounds how long net/http waits, after a success, for the rest of a body that nobody wanted.
func (e *exchange) leaveBody() {
	if e.unread() {
		_ = http.NewResponseController(e.writer).SetReadDeadline(time.Now().Add(2 * time.Second))
	}
}

// otherHost keeps pages out whose name was made to lead to this machine: to the browser they
// are of the server's own origin, so nothing else would.
func otherHost() *coordinator.Error {
	return &coordinator.Error{
		Code: coordinator.CodeForbidden,
		Detail: "This server is for its own machine and asks for no token, so it is called 127.0.0.1, [::1] or localhost, and not as the Host header of this request has it. " +
			"Call it so, or start it with --tokens, or with --insecure if something else keeps strangers out.",
	}
}

// crossOrigin keeps pages of other origins from changing anything: some of our calls have
// no body, so that the media type alone would not stop a form.
func crossOrigin() *coordinator.Error {
	return &coordinator.Error{
		Code:   coordinator.CodeForbidden,
		Detail: "A page of another origin may not change anything here. Call the server from a program, or from a page of its own origin.",
	}
}

// route finds the operation of a request in the contract's table, before the generated router
// does: that one takes /checkpoints/latest for a checkpoint's id where the method is not one of
// the former. HEAD is a GET where the contract has no HEAD of its own.
func (s *server) route(e *exchange) error {
	r := e.request
	route := operations.Find(r.URL.RawPath)
	if route == nil {
		return notFound()
	}
	e.operation = route.Operation(r.Method)
	if e.operation == nil {
		return methodNotAllowed(e.writer, route)
	}
	chi.RouteContext(r.Context()).RouteMethod = e.operation.Method
	return nil
}

// recoverPanic answers what is still possible after a panic. ErrAbortHandler is no panic
// of ours but the way to break a transfer off.
func (s *server) recoverPanic(w http.ResponseWriter, r *http.Request) {
	value := recover()
	if value == nil {
		return
	}
	if value == http.ErrAbortHandler { //nolint:errorlint // net/http compares it this way too
		panic(value)
	}
	s.refuse(w, r, panicked(value))
}

// panicked is a panic as an error of ours.
func panicked(value any) error {
	return coordinator.ErrInternal(fmt.Errorf("panic: %v\n%s", value, debug.Stack()))
}

// statusWriter is a writer that knows which status was sent, 0 while none was.
type statusWriter interface {
	http.ResponseWriter
	Status() int
}

// started tells whether the head of an answer went out.
func started(w http.ResponseWriter) bool {
	knowing, ok := w.(statusWriter)
	return ok && knowing.Status() != 0
}
