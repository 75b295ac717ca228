package server

import (
	"bytes"
	"crypto/rand"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/handlers"
)

// What net/http cannot read as a request it answers by itself, past every handler, with a
// line of text: a percent sign that encodes nothing, say, which is what a client sends that
// forgot to encode the name of a task. Our clients are promised a problem with every
// refusal, so the connections of this listener put one in its place. There is no other way
// to it: the server writes such an answer to the connection, in one piece, whose head no
// handler's answer has.
type plainListener struct {
	net.Listener

	log     zerolog.Logger
	metrics *metrics
}

func (l *plainListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if bounded, ok := conn.(*boundedConn); ok {
		return &plainConn{boundedConn: bounded, listener: l}, err //nolint:wrapcheck // net/http looks at it
	}
	return conn, err //nolint:wrapcheck // as above
}

// plainConn is the connection itself in everything but the answers of net/http, so that
// files are still sent without a copy.
type plainConn struct {
	*boundedConn

	listener *plainListener
	// refused tells that net/http has answered by itself and read nothing of what may follow.
	refused atomic.Bool
}

// The head of net/http's own answers behind their first line, and the whole head of the one
// to an Expect that is not met.
var (
	ownHead         = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	ownExpectFailed = []byte("HTTP/1.1 417 Expectation Failed\r\n")
)

func (c *plainConn) Write(p []byte) (int, error) {
	status, own := ownAnswer(p)
	if !own {
		return c.TCPConn.Write(p) //nolint:wrapcheck // It only stands in front.
	}
	c.refused.Store(true)
	id := rand.Text()
	answer, status := handlers.Unreadable(status, id)
	c.listener.metrics.request("", "unmatched", status, 0)
	c.listener.log.Info().Str("requestId", id).Int("status", status).Stringer("remote", c.RemoteAddr()).Msg("no request that can be read")
	if _, err := c.TCPConn.Write(answer); err != nil {
		return 0, err //nolint:wrapcheck // as above
	}
	return len(p), nil
}

// Close closes the connection, after a refusal in such a way that its client can read it.
func (c *plainConn) Close() error {
	if c.refused.Swap(false) {
		go handlers.Linger(c.TCPConn)
		return nil
	}
	return c.TCPConn.Close() //nolint:wrapcheck // It only stands in front.
}

// ownAnswer tells whether p is an answer that net/http made by itself, and its status.
func ownAnswer(p []byte) (status int, own bool) {
	const line = "HTTP/1.1 400"
	if len(p) < len(line) || p[9] < '4' || p[9] > '5' { // which spares nearly all the search
		return 0, false
	}
	if end := bytes.IndexByte(p, '\r'); end < 0 || !bytes.HasPrefix(p[end:], ownHead) && !bytes.HasPrefix(p, ownExpectFailed) {
		return 0, false
	}
	status, err := strconv.Atoi(string(p[9:12]))
	return status, err == nil
}
