package apitest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// impatient is how long a server that may be waiting for more of a request is waited for
// before the sender closes its side.
const impatient = 2 * time.Second

// Send puts the request on a connection of its own and reads the answer. The Answer is nil
// when the server closed the connection without one. Of an endless answer only the head is
// read.
func (w *Wire) Send(address string) (*Answer, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("set a deadline: %w", err)
	}
	closeWrite := func() { _ = conn.(*net.TCPConn).CloseWrite() }
	go func() {
		// A server that has read enough closes the connection; what it said is read below.
		_, err := conn.Write(w.Bytes)
		if err == nil && w.Ends {
			closeWrite()
		}
	}()
	defer time.AfterFunc(impatient, closeWrite).Stop()
	reader := bufio.NewReader(conn)
	for {
		answer, err := readAnswer(reader, w.Method)
		if w.Ends && errors.Is(err, syscall.ECONNRESET) {
			return nil, nil //nolint:nilnil // what was on its way went with bytes that nobody wanted to read
		}
		if err != nil || answer == nil || answer.Status >= http.StatusOK {
			return answer, err
		}
	}
}

func readAnswer(reader *bufio.Reader, method string) (*Answer, error) {
	if _, err := reader.Peek(1); err != nil {
		if silent(err) {
			return nil, nil //nolint:nilnil // as the comment of Send says
		}
		return nil, fmt.Errorf("wait for an answer: %w", err)
	}
	response, err := http.ReadResponse(reader, &http.Request{Method: method}) //nolint:bodyclose // the whole connection is closed
	if err != nil {
		return nil, fmt.Errorf("read the head of an answer: %w", err)
	}
	answer := &Answer{Status: response.StatusCode, Header: response.Header}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return answer, nil
	}
	answer.Body, err = io.ReadAll(response.Body)
	if err != nil {
		return answer, fmt.Errorf("read the body of an answer: %w", err)
	}
	return answer, nil
}

// silent tells of a connection that was closed or reset before a word.
func silent(err error) bool {
	var timeout net.Error
	return !errors.As(err, &timeout) || !timeout.Timeout()
}
