package handlers

import (
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/load"
)

// Many clients send a whole request before they read the first byte of its answer: Python's urllib does, and so
// do proxies that buffer. If the server closed the connection while such a client still sends, TCP would reset it
// and throw the refusal away, unread. So the answer to a body that was not read is sent at once, for clients that
// listen while they send, and the rest of the body is read and thrown away, within bounds.

// readOn bounds what is read of a body after its refusal.
type readOn struct {
	bytes int64
	time  time.Duration
	// grace is how long a sender may pause at first; after that it must keep up readOnPace.
	grace time.Duration
}

// readOnPace is in bytes a second. It cuts off who sends a byte now and then.
const readOnPace = 16 << 10

// readOnFor gives the bounds for the class of the refused operation. A body of any size that the class accepts
// is worth some patience; strangers get less.
func readOnFor(e *exchange, refusal *coordinator.Error) readOn {
	switch {
	case isBodyError(refusal.Err): // it came too slowly already, or its sender is gone
		return readOn{bytes: 64 << 20, time: 2 * time.Second, grace: 2 * time.Second}
	case e.caller != nil && (e.operation == nil || e.operation.Class == load.Upload): // nil: refused before it was routed
		return readOn{bytes: 256 << 20, time: time.Minute, grace: 5 * time.Second}
	}
	return readOn{bytes: 64 << 20, time: 15 * time.Second, grace: 5 * time.Second}
}

// keepsConnection tells whether the connection can serve another request once the rest of the body was read: its
// length is known and within the bounds, and it is on its way. One whose sender waits for 100 Continue is not.
func (b readOn) keepsConnection(e *exchange, refusal *coordinator.Error) bool {
	length := e.request.ContentLength
	return length >= 0 && length-e.body.read <= b.bytes && !e.awaitsContinue() && !isBodyError(refusal.Err)
}

// awaitsContinue tells that the sender holds the body back until it is told to go on, which reading would do.
func (e *exchange) awaitsContinue() bool {
	return strings.EqualFold(e.request.Header.Get("Expect"), "100-continue") && e.body.read == 0
}

// readRest reads what is left of a refused body, after the answer. The request gives its place and its memory
// back before, so that a slow sender holds neither.
func (s *server) readRest(e *exchange, bounds readOn, keep bool) {
	s.release(e)
	control := http.NewResponseController(e.writer)
	if control.Flush() != nil {
		return // a recorder in a test, or a client that has gone
	}
	if keep {
		rest := bounds.read(e.body.source, control)
		if rest == nil {
			e.body.ended = true
			return
		}
		bounds = readOn{bytes: bounds.bytes, time: time.Second, grace: time.Second} // it had its time
	}
	// What may follow on this connection is the rest of a body and no request, so nothing may read it as one.
	conn, _, err := control.Hijack()
	if err != nil {
		return
	}
	e.body.ended = true
	go bounds.linger(conn)
}

// read reads from to its end; an error is what kept it from that.
func (b readOn) read(from io.Reader, control deadlined) error {
	paced := &pacedReader{from: from, control: control, bounds: b, began: time.Now()}
	n, err := io.Copy(io.Discard, io.LimitReader(paced, b.bytes))
	if err == nil && n == b.bytes && !paced.ended {
		err = io.ErrShortBuffer
	}
	return err
}

// linger ends a connection without a reset: it says that nothing more will be sent, reads on within the bounds,
// and closes.
func (b readOn) linger(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // Nobody is left to tell.
	if half, can := conn.(interface{ CloseWrite() error }); can {
		_ = half.CloseWrite() // as above
	}
	_ = b.read(conn, conn) // as above
}

// Linger ends a connection whose last answer its client may not have read yet, for it may still be sending what
// was not read. It takes some seconds at most.
func Linger(conn net.Conn) {
	readOn{bytes: 64 << 20, time: 15 * time.Second, grace: 2 * time.Second}.linger(conn)
}

// deadlined is a connection, or the control of one.
type deadlined interface{ SetReadDeadline(t time.Time) error }

// pacedReader reads while the sender keeps up its pace.
type pacedReader struct {
	from    io.Reader
	control deadlined
	bounds  readOn
	began   time.Time
	read    int64
	ended   bool
}

// Read reads some within the bounds.
func (r *pacedReader) Read(p []byte) (int, error) {
	patience := min(r.bounds.time, r.bounds.grace+time.Duration(r.read/readOnPace)*time.Second)
	if err := r.control.SetReadDeadline(r.began.Add(patience)); err != nil {
		return 0, err // without a deadline it might wait for ever
	}
	n, err := r.from.Read(p)
	r.read += int64(n)
	r.ended = err == io.EOF
	return n, err //nolint:wrapcheck // Readers pass errors on.
}
