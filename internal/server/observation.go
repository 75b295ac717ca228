package server

import (
	"context"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/checkpointd/checkpointd/internal/doors"
)

// observation is what is noted of one request. It is the request's writer and context at
// once: each part for itself would be another allocation for every request.
type observation struct {
	http.ResponseWriter
	context.Context //nolint:containedctx // It stands in front of the request's own.

	id string
	// caller is who sent it, nil for a stranger.
	caller *doors.Caller
	// demanded is the role that the operation demands, "" where nothing was admitted.
	demanded doors.Role
	// route is filled in by chi, which uses the one that it finds, so that the pattern can
	// be read outside of it.
	route  chi.Context
	status int
	bytes  int64
	broken bool
}

// Value gives the id and the route, and what the request's context has.
func (o *observation) Value(key any) any {
	switch key {
	case observationKey{}:
		return o
	case requestIDKey{}:
		return o.id
	case callerKey{}:
		return o.caller
	case chi.RouteCtxKey:
		return &o.route
	}
	return o.Context.Value(key)
}

type observationKey struct{}

// noteDemanded keeps what an operation demanded of the caller that it admitted.
func noteDemanded(r *http.Request, role doors.Role) {
	if o, ok := r.Context().Value(observationKey{}).(*observation); ok {
		o.demanded = role
	}
}

// changes tells of requests that are logged where a caller has a name, so that who changed what
// is found later. What the role ack is for is sent by workers all the time.
func (o *observation) changes() bool {
	return o.demanded == doors.Trigger || o.demanded == doors.State || o.demanded == doors.Admin
}

// WriteHeader notes the status; an informational one is not that of the answer.
func (o *observation) WriteHeader(status int) {
	if o.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (o *observation) Write(p []byte) (int, error) {
	o.implyOK()
	n, err := o.ResponseWriter.Write(p)
	o.bytes += int64(n)
	return n, err //nolint:wrapcheck // It only stands in front.
}

// ReadFrom lets net/http send a file without copying it through this process.
func (o *observation) ReadFrom(r io.Reader) (int64, error) {
	o.implyOK()
	n, err := io.Copy(o.ResponseWriter, r)
	o.bytes += n
	return n, err //nolint:wrapcheck // It only stands in front.
}

// FlushError sends what was written, with the head before it.
func (o *observation) FlushError() error {
	o.implyOK()
	return http.NewResponseController(o.ResponseWriter).Flush() //nolint:wrapcheck // It only stands in front.
}

func (o *observation) implyOK() {
	if o.status == 0 {
		o.status = http.StatusOK
	}
}

// Status is the status that was sent, 0 while none was.
func (o *observation) Status() int { return o.status }

// Unwrap lets an http.ResponseController reach the connection.
func (o *observation) Unwrap() http.ResponseWriter { return o.ResponseWriter }
