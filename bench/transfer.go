package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// readSize is how much is read at a time, and thrown away.
const readSize = 256 << 10

// open connects to a server and sends what comes first.
func open(ctx context.Context, address string, parts ...[]byte) (net.Conn, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	if err := connection.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	for _, part := range parts {
		if _, err := connection.Write(part); err != nil {
			_ = connection.Close()
			return nil, fmt.Errorf("sending to %s: %w", address, err)
		}
	}
	return connection, nil
}

// drain reads from a connection until its end, or until so many bytes have come if
// atLeast is above 0. It gives the number of bytes and the first of them.
func drain(connection net.Conn, atLeast int) (n int, head []byte, err error) {
	buffer := make([]byte, readSize)
	for atLeast <= 0 || n < atLeast {
		some, err := connection.Read(buffer)
		if n == 0 {
			head = bytes.Clone(buffer[:min(some, 512)])
		}
		n += some
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, head, fmt.Errorf("reading: %w", err)
		}
	}
	return n, head, nil
}

// get reads the answer of a GET to its end and throws it away. The server closes the
// connection after it.
func get(ctx context.Context, address, path string, atLeast int) (time.Duration, error) {
	began := time.Now()
	connection, err := open(ctx, address, []byte("GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = connection.Close() }()
	n, head, err := drain(connection, 0)
	if err == nil && (n < atLeast || !bytes.HasPrefix(head, []byte("HTTP/1.1 200"))) {
		err = fmt.Errorf("%d bytes came of %d, which begin %q", n, atLeast, head)
	}
	if err != nil {
		return 0, fmt.Errorf("GET %s: %w", path, err)
	}
	return time.Since(began), nil
}

// getString reads a string from Redis and throws it away.
func getString(ctx context.Context, address, key string, size int) (time.Duration, error) {
	began := time.Now()
	connection, err := open(ctx, address, appendCommand(nil, "GET", key))
	if err != nil {
		return 0, err
	}
	defer func() { _ = connection.Close() }()
	length := "$" + strconv.Itoa(size) + "\r\n"
	_, head, err := drain(connection, len(length)+size+len("\r\n"))
	if err == nil && !bytes.HasPrefix(head, []byte(length)) {
		err = fmt.Errorf("the reply begins %q", head)
	}
	if err != nil {
		return 0, fmt.Errorf("GET of Redis: %w", err)
	}
	return time.Since(began), nil
}

// put sends a body and gives the answer, head included.
func put(ctx context.Context, address, path string, body []byte) (answer []byte, took time.Duration, err error) {
	head := fmt.Appendf(nil, "PUT %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n",
		path, len(body))
	began := time.Now()
	connection, err := open(ctx, address, head, body)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = connection.Close() }()
	answer, err = io.ReadAll(connection)
	took = time.Since(began)
	if err == nil && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
		err = fmt.Errorf("the answer begins %.300q", answer)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("PUT %s: %w", path, err)
	}
	return answer, took, nil
}

// entries is NDJSON of so many entries with values of 100 bytes.
func entries(n int) []byte {
	const value = `{"count":%d,"window":{"start":1790000000000,"end":1790000060000},"tags":["a","b"],"sum":12.5}`
	var lines []byte
	for i := range n {
		lines = append(lines, `{"key":"`...)
		lines = append(lines, entryKey(i)...)
		lines = append(lines, `","value":`...)
		lines = fmt.Appendf(lines, value, 100_000_000+i)
		lines = append(lines, "}\n"...)
	}
	return lines
}

func entryKey(i int) string { return fmt.Sprintf("key-%08d", i) }
