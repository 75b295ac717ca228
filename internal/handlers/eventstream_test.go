package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"
)

// eventStream is a client that follows a job. A parser of others reads what arrives.
type eventStream struct {
	t        *testing.T
	response *http.Response
	// frames are the events in their order; closed when the stream has ended.
	frames chan sse.Event
	// raw is what arrived, for what is no event.
	raw *transcript
	// close ends the stream from the client's side.
	close context.CancelFunc
	// err is why the stream ended, nil for a clean end; set before frames is closed.
	err error
}

// follow opens a stream and waits until its head is there.
func (f *fixture) follow(query string, headers ...string) *eventStream {
	f.t.Helper()
	return f.followAt(f.server.URL, query, headers...)
}

func (f *fixture) followAt(base, query string, headers ...string) *eventStream {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/events"+query, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := f.client.Do(request) //nolint:bodyclose // The cleanup below closes it.
	if err != nil {
		f.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		f.t.Fatalf("GET /events%s answered %d\n%s", query, response.StatusCode, body)
	}
	s := &eventStream{t: f.t, response: response, frames: make(chan sse.Event, 4096), raw: newTranscript(), close: stop}
	go func() {
		defer close(s.frames)
		for event, err := range sse.Read(io.TeeReader(response.Body, s.raw), nil) {
			if err != nil {
				s.err = err
				return
			}
			if event.Data != "" { // an EventSource makes no event of a frame without data, this parser does
				s.frames <- event
			}
		}
	}()
	f.t.Cleanup(func() {
		stop()
		for range s.frames { // until it has ended
		}
		_ = response.Body.Close()
	})
	return s
}

// next waits for an event.
func (s *eventStream) next() sse.Event {
	s.t.Helper()
	select {
	case event, more := <-s.frames:
		if !more {
			s.t.Fatalf("the stream has ended: %v\n%s", s.err, s.raw.text())
		}
		return event
	case <-time.After(patience):
		s.t.Fatalf("no event came\n%s", s.raw.text())
	}
	return sse.Event{}
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// names are the types of the next events.
func (s *eventStream) names(n int) []string {
	s.t.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = s.next().Type
	}
	return names
}

// ended waits for the end of the stream and gives what came before it and its reason.
func (s *eventStream) ended() ([]sse.Event, error) {
	s.t.Helper()
	var rest []sse.Event
	deadline := time.After(patience)
	for {
		select {
		case event, more := <-s.frames:
			if !more {
				return rest, s.err
			}
			rest = append(rest, event)
		case <-deadline:
			s.t.Fatalf("the stream goes on\n%s", s.raw.text())
		}
	}
}

// says waits until the stream has said a text.
func (s *eventStream) says(text string) {
	s.t.Helper()
	if err := s.raw.waitFor(text, patience); err != nil {
		s.t.Fatalf("%q: %v\n%s", text, err, s.raw.text())
	}
}

// transcript keeps what is written to it.
type transcript struct {
	lock    chan struct{} // capacity 1
	all     bytes.Buffer
	changed chan struct{}
}

func newTranscript() *transcript {
	return &transcript{lock: make(chan struct{}, 1), changed: make(chan struct{})}
}

func (s *transcript) Write(p []byte) (int, error) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.all.Write(p)
}

func (s *transcript) look() (string, <-chan struct{}) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	return s.all.String(), s.changed
}

func (s *transcript) text() string {
	text, _ := s.look()
	return text
}

func (s *transcript) waitFor(text string, patience time.Duration) error {
	deadline := time.After(patience)
	for {
		all, changed := s.look()
		if strings.Contains(all, text) {
			return nil
		}
		select {
		case <-changed:
		case <-deadline:
			return errors.New("it did not come in time")
		}
	}
}
