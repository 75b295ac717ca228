package load

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// connection is a kept-alive HTTP/1.1 connection with at most one request under way.
type connection struct {
	socket  int
	request []byte
	sent    time.Time

	buffer []byte // what has come of the answer is buffer[:filled]
	filled int
	status int

	start   int // of the body; 0 while the head is not whole
	end     int // of the body; 0 while that is not known
	chunked bool
}

// dial opens a connection that does not block.
func dial(address string) (*connection, error) {
	server, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the server: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	err = errors.Join(
		unix.Connect(socket, &unix.SockaddrInet4{Addr: server.Addr().As4(), Port: int(server.Port())}),
		unix.SetsockoptInt(socket, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetNonblock(socket, true),
	)
	if err != nil {
		_ = unix.Close(socket)
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	return &connection{socket: socket, buffer: make([]byte, 4<<10)}, nil
}

// write sends the whole request. A socket whose buffer is full is waited for: requests
// are small, so that it does not happen while a server reads.
func (c *connection) write() error {
	for rest := c.request; len(rest) > 0; {
		n, err := unix.Write(c.socket, rest)
		switch {
		case err == nil:
			rest = rest[n:]
		case errors.Is(err, unix.EAGAIN):
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(c.socket), Events: unix.POLLOUT}}, 1000); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("waiting to send: %w", err)
			}
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("sending a request: %w", err)
		}
	}
	return nil
}

// read takes what has come, and tells whether the answer is whole now.
func (c *connection) read() (whole bool, err error) {
	if c.filled == len(c.buffer) {
		c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
	}
	n, err := unix.Read(c.socket, c.buffer[c.filled:])
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading an answer: %w", err)
	case n == 0:
		return false, fmt.Errorf("the server closed the connection after %.200q", c.buffer[:c.filled])
	}
	c.filled += n
	if c.start == 0 {
		if err := c.head(); err != nil {
			return false, err
		}
	}
	if c.chunked && c.end == 0 {
		if err := c.joinChunks(); err != nil {
			return false, err
		}
	}
	if c.end > 0 && c.filled > c.end {
		return false, fmt.Errorf("more came than one answer: %.200q", c.buffer[c.end:c.filled])
	}
	return c.end > 0 && c.filled == c.end, nil
}

var (
	lineEnd      = []byte("\r\n")
	headEnd      = []byte("\r\n\r\n")
	lengthHeader = []byte("content-length:")
	chunksHeader = []byte("transfer-encoding: chunked")
)

// head reads status and length once the head is whole.
func (c *connection) head() error {
	head, _, found := bytes.Cut(c.buffer[:c.filled], headEnd)
	if !found {
		return nil
	}
	line, headers, _ := bytes.Cut(head, lineEnd)
	if len(line) < len("HTTP/1.1 200") {
		return fmt.Errorf("no answer of HTTP: %.100q", line)
	}
	if c.status = number(line[9:12]); c.status < 100 {
		return fmt.Errorf("no answer of HTTP: %.100q", line)
	}
	c.start = len(head) + len(headEnd)
	for len(headers) > 0 {
		line, headers, _ = bytes.Cut(headers, lineEnd)
		if len(line) > len(lengthHeader) && bytes.EqualFold(line[:len(lengthHeader)], lengthHeader) {
			length := number(bytes.TrimSpace(line[len(lengthHeader):]))
			if length < 0 {
				return fmt.Errorf("no length: %.100q", line)
			}
			c.end = c.start + length
			return nil
		}
		if bytes.EqualFold(line, chunksHeader) {
			c.chunked = true
			return nil
		}
	}
	return fmt.Errorf("the answer does not tell its length: %.300q", head)
}

// joinChunks leaves the bare body in the buffer once the last chunk has come.
func (c *connection) joinChunks() error {
	var body []byte
	for rest := c.buffer[c.start:c.filled]; ; {
		line, after, found := bytes.Cut(rest, lineEnd)
		if !found {
			return nil
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return fmt.Errorf("no chunk: %.100q", line)
		}
		if len(after) < int(size)+len(lineEnd) {
			return nil
		}
		if size == 0 {
			copy(c.buffer[c.start:], body)
			c.filled = c.start + len(body)
			c.end = c.filled
			return nil
		}
		body = append(body, after[:size]...)
		rest = after[int(size)+len(lineEnd):]
	}
}

// number reads decimal digits; −1 when there is anything else.
func number(digits []byte) int {
	n := 0
	for _, d := range digits {
		if d < '0' || d > '9' || n > 1<<30 {
			return -1
		}
		n = 10*n + int(d-'0')
	}
	return n
}

func (c *connection) body() []byte { return c.buffer[c.start:c.end] }

// forget makes room for the next answer.
func (c *connection) forget() {
	c.filled, c.status, c.start, c.end, c.chunked = 0, 0, 0, 0, false
}
