package server

import (
	"container/list"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/checkpointd/checkpointd/internal/handlers"
)

const (
	// mostHeads is how many connections may have a request whose head has not come whole, a TLS
	// handshake among them. Nobody has said yet who they are, so what they hold is bounded for all
	// together: each has its head and some buffers.
	mostHeads = 4096
	// headPatience is how long such a connection is left alone when there are too many. A client that
	// means it sends its head at once.
	headPatience = time.Second
)

// connections bounds how many connections there are, and how many of them have begun a request and
// not sent its head. Beyond the first bound the connection goes that has rested longest between two
// requests, beyond the second the one that has been sending its head for longest: so a new client,
// one that asks /healthz say, is served however many there are that do nothing.
type connections struct {
	most    int
	metrics *metrics

	mu sync.Mutex
	// all are those that were accepted and are not closed.
	all map[*boundedConn]struct{}
	// heads and idle are in the order in which they came to it.
	heads, idle list.List
}

func newConnections(most int, metrics *metrics) *connections {
	return &connections{most: most, metrics: metrics, all: map[*boundedConn]struct{}{}}
}

// listen gives a listener whose connections are bounded. The server's ConnState must be [connections.state].
// Over TLS no connection is told in words that there is no room for it.
func (c *connections) listen(listener net.Listener, overTLS bool) net.Listener {
	return &boundedListener{listener, c, overTLS}
}

type boundedListener struct {
	net.Listener

	bound   *connections
	overTLS bool
}

// Accept waits for a connection for which there is room, and makes room if it can.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		tcp, is := conn.(*net.TCPConn)
		if !is {
			return conn, err //nolint:wrapcheck // net/http looks at it
		}
		bounded := &boundedConn{TCPConn: tcp, bound: l.bound}
		if l.bound.admit(bounded) {
			return bounded, nil
		}
		l.bound.metrics.connectionsClosed.WithLabelValues("full").Inc()
		if !l.overTLS {
			answer, _ := handlers.Unreadable(http.StatusServiceUnavailable, rand.Text())
			_ = tcp.SetWriteDeadline(time.Now().Add(time.Second)) // it fits into the buffers of the system
			_, _ = tcp.Write(answer)                              // whoever does not hear it finds the connection closed
		}
		_ = tcp.Close()
	}
}

// admit takes a connection in, unless all that there may be are busy.
func (c *connections) admit(conn *boundedConn) bool {
	c.mu.Lock()
	var gone *boundedConn
	if len(c.all) >= c.most {
		// What rests goes before what may be about to ask.
		if gone = c.oldest(&c.idle, 0); gone == nil {
			gone = c.oldest(&c.heads, headPatience)
		}
		if gone == nil {
			c.mu.Unlock()
			return false
		}
		c.forget(gone)
	}
	c.all[conn] = struct{}{}
	c.enter(conn, &c.heads)
	var late *boundedConn
	if c.heads.Len() > mostHeads {
		if late = c.oldest(&c.heads, headPatience); late != nil {
			c.forget(late)
		}
	}
	wait := time.Duration(0)
	if c.heads.Len() > mostHeads { // all of them are young: no new one before some of them have sent theirs
		wait = headPatience / 20
	}
	c.mu.Unlock()
	for _, old := range []*boundedConn{gone, late} {
		if old != nil {
			c.metrics.connectionsClosed.WithLabelValues("waiting").Inc()
			_ = old.TCPConn.Close() // whoever reads or writes it finds out
		}
	}
	if wait > 0 {
		<-time.After(wait)
	}
	return true
}

// oldest gives the first of a list if it has been there for long enough.
func (c *connections) oldest(of *list.List, atLeast time.Duration) *boundedConn {
	front := of.Front()
	if front == nil {
		return nil
	}
	conn := front.Value.(*boundedConn) //nolint:forcetypeassert // The lists hold nothing else.
	if time.Since(conn.since) < atLeast {
		return nil
	}
	return conn
}

// enter puts a connection at the end of a list, nil for none. It is locked.
func (c *connections) enter(conn *boundedConn, where *list.List) {
	if conn.in != nil {
		conn.in.Remove(conn.place)
	}
	conn.in, conn.place = where, nil
	conn.waits.Store(where == &c.idle)
	if where != nil {
		conn.place, conn.since = where.PushBack(conn), time.Now()
	}
}

// forget takes a connection out that is closed, or about to be. It is locked.
func (c *connections) forget(conn *boundedConn) {
	c.enter(conn, nil)
	delete(c.all, conn)
}

// state is told by the server what becomes of its connections.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	bounded := boundedOf(conn)
	if bounded == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.all[bounded]; !there {
		return
	}
	switch state {
	case http.StateActive:
		c.enter(bounded, nil)
	case http.StateIdle:
		c.enter(bounded, &c.idle)
	case http.StateClosed, http.StateHijacked:
		c.forget(bounded)
	case http.StateNew:
	}
}

// begins notes that the first bytes of another request have come.
func (c *connections) begins(conn *boundedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.in == &c.idle {
		c.enter(conn, &c.heads)
	}
}

// boundedOf finds the connection that the server was given under what it has made of it.
func boundedOf(conn net.Conn) *boundedConn {
	for {
		switch t := conn.(type) {
		case *boundedConn:
			return t
		case *plainConn:
			return t.boundedConn
		case *tls.Conn:
			conn = t.NetConn()
		default:
			return nil
		}
	}
}

// boundedConn is the connection itself, but for what its bound wants to know.
type boundedConn struct {
	*net.TCPConn

	bound *connections
	// in is the list that it is in, nil for none, with its place and since when.
	in    *list.List
	place *list.Element
	since time.Time
	// waits tells that it is between two requests.
	waits atomic.Bool
}

// Read reads.
func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 && c.waits.Load() {
		c.bound.begins(c)
	}
	return n, err //nolint:wrapcheck // It only stands in front.
}
