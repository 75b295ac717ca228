package server_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/checkpointd/checkpointd/internal/server"
)

// slowClient is one end of a connection to a server whose clock is that of the test's bubble.
type slowClient struct {
	net.Conn
	began time.Time
}

// pipes is a listener of connections within a process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(t *testing.T) slowClient {
	t.Helper()
	ours, theirs := net.Pipe()
	p.conns <- theirs
	t.Cleanup(func() { ours.Close() })
	return slowClient{ours, time.Now()}
}

// inBubble runs a server as it is, in a time that goes as fast as everybody sleeps.
func inBubble(t *testing.T, run func(t *testing.T, dial func() slowClient)) {
	t.Helper()
	config := embedded(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New(config, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- s.ServeOn(listener) }()
		run(t, func() slowClient { return listener.dial(t) })
		if err := s.StopServing(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func (c slowClient) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// trickle sends some bytes at each tick until the server has enough; wait for its end.
func (c slowClient) trickle(pause time.Duration, text string) (wait func()) {
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			time.Sleep(pause) //nolint:forbidigo // of the bubble
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	})
	return sending.Wait
}

// answer reads an answer, if there is one, and then the end of the connection; it tells how long
// after the connection began each came.
func (c slowClient) answer(t *testing.T) (status int, text string, answered, ended time.Duration) {
	t.Helper()
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil) //nolint:bodyclose // the whole connection is closed
	if err == nil {
		body, _ := io.ReadAll(response.Body)
		status, text, answered = response.StatusCode, string(body), time.Since(c.began)
	}
	_, _ = io.Copy(io.Discard, reader) // until the server hangs up
	return status, text, answered, time.Since(c.began)
}

func TestConnectionsThatDoNotGoOnAreEndedAtTheDocumentedTimes(t *testing.T) {
	t.Parallel()
	t.Run("headers that never come", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T, dial func() slowClient) {
			t.Helper()
			_, _, _, ended := dial().answer(t)
			within(t, ended, 10*time.Second)
		})
	})
	t.Run("headers that trickle", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T, dial func() slowClient) {
			t.Helper()
			c := dial()
			c.send(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
			defer c.trickle(time.Second, "x")()
			_, _, _, ended := c.answer(t)
			within(t, ended, 10*time.Second)
		})
	})
	t.Run("an idle connection", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T, dial func() slowClient) {
			t.Helper()
			c := dial()
			c.send(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
			status, _, answered, ended := c.answer(t)
			if status != http.StatusOK {
				t.Errorf("it was answered %d", status)
			}
			within(t, ended-answered, 2*time.Minute)
		})
	})
	for name, c := range map[string]struct {
		head string
		// pause is between two bytes, and until when the server is patient.
		pause, until time.Duration
	}{
		"a plain acknowledgement":            {"POST /checkpoints/0/acks HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000", time.Second, 30 * time.Second},
		"a large acknowledgement":            {"POST /checkpoints/0/acks HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 131072", time.Second, 32 * time.Second},
		"a trigger":                          {"POST /checkpoints HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000", time.Second, 30 * time.Second},
		"a body that never begins":           {"POST /checkpoints HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000", time.Hour, 30 * time.Second},
		"shared state":                       {"PUT /checkpoints/0/state/k HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 6553600", time.Second, 130 * time.Second},
		"an upload that stands still":        {"PUT /checkpoints/0/tasks/a/state HTTP/1.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000000", time.Hour, time.Minute},
		"an upload that trickles":            {"PUT /checkpoints/0/tasks/a/state HTTP/1.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000000", time.Second, time.Minute},
		"an import that trickles":            {"POST /jobs/x/import HTTP/1.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000000", time.Second, time.Minute},
		"an upload as a document, trickling": {"PUT /checkpoints/0/tasks/a/state HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000000", time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, dial func() slowClient) {
				t.Helper()
				call := func(request string) (int, string) {
					other := dial()
					other.send(t, request+"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
					status, text, _, _ := other.answer(t)
					return status, text
				}
				if status, text := call("POST /checkpoints HTTP/1.1"); status != http.StatusCreated {
					t.Fatal(status, text)
				}
				slow := dial()
				slow.send(t, c.head+"\r\nHost: localhost\r\n\r\n")
				defer slow.trickle(c.pause, " ")()
				status, text, answered, ended := slow.answer(t)
				if status != http.StatusBadRequest || !strings.Contains(text, "did not arrive in time; nothing was changed") {
					t.Errorf("it is answered %d %s", status, text)
				}
				within(t, answered, c.until)
				within(t, ended-answered, 0)
				_, checkpoint := call("GET /checkpoints/0 HTTP/1.1")
				_, list := call("GET /checkpoints HTTP/1.1")
				_, jobs := call("GET /jobs HTTP/1.1")
				if !strings.Contains(checkpoint, `"acknowledgedTasks":0`) || strings.Contains(list, `"checkpointId":1`) || strings.Contains(jobs, `"x"`) {
					t.Errorf("something was stored: %s\n%s\n%s", checkpoint, list, jobs)
				}
			})
		})
	}
}

// within allows for what is read behind the deadline, such as the rest of a pace.
func within(t *testing.T, took, want time.Duration) {
	t.Helper()
	if took < want || took > want+3*time.Second {
		t.Errorf("it took %s, want %s", took, want)
	} else {
		t.Logf("it took %s", took)
	}
}
