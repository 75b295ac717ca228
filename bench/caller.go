package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// caller sends one request after the other over one connection, with as little between as
// there can be.
type caller struct {
	connection net.Conn
	answers    *bufio.Reader
	request    bytes.Buffer
}

func newCaller(ctx context.Context, address string) (*caller, error) {
	connection, err := open(ctx, address)
	if err != nil {
		return nil, err
	}
	return &caller{connection: connection, answers: bufio.NewReader(connection)}, nil
}

func (c *caller) close() { _ = c.connection.Close() }

// call gives the answer's body and how long it took to come; an answer that is no 2xx is an
// error.
func (c *caller) call(method, path, body string) ([]byte, time.Duration, error) {
	c.request.Reset()
	_, _ = fmt.Fprintf(&c.request, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, path)
	if body != "" {
		_, _ = fmt.Fprintf(&c.request, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	_, _ = fmt.Fprintf(&c.request, "\r\n%s", body)
	began := time.Now()
	// It may wait for long between two calls.
	if err := c.connection.SetDeadline(began.Add(requestTimeout)); err != nil {
		return nil, 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if _, err := c.connection.Write(c.request.Bytes()); err != nil {
		return nil, 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	response, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	took := time.Since(began)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %.300s", response.Status, answer)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer, took, nil
}
