package checkpointtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/internal/server"
)

// Server is a running checkpointd. Its methods end the test when they fail, so they are for
// the goroutine of the test; where there is no test, they panic.
type Server struct {
	// URL is where it answers, such as "http://127.0.0.1:40123"; the same after a Restart.
	URL string

	t        reporter
	log      io.Writer
	settings settings
	running  *server.Server

	mu     sync.Mutex // guards fronts: tests that run in parallel open some on one server
	fronts []*fault.Front
}

// reporter is what is needed of a test.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// drainTimeout is how long a running upload or restore may hold up the end of a test.
const drainTimeout = 2 * time.Second

// Start runs a server until the test ends. What it logs from warnings on is in the test's
// output.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := newServer(t, t.Output(), t.TempDir(), options)
	t.Cleanup(func() {
		s.closeFronts()
		s.Stop()
	})
	return s
}

// NewServer runs a server where there is no test: in an Example, or in a TestMain. Close ends it.
func NewServer(options ...Option) *Server {
	folder, err := os.MkdirTemp("", "checkpointtest")
	if err != nil {
		noTest{}.Fatalf("checkpointtest: %v", err)
	}
	return newServer(noTest{}, io.Discard, folder, options)
}

// Close stops the server for good and removes its data. A server of Start is closed by its test.
func (s *Server) Close() {
	s.t.Helper()
	s.closeFronts()
	s.Stop()
	for _, path := range []string{s.settings.Data, s.settings.Tokens} {
		if err := os.RemoveAll(path); err != nil {
			s.t.Fatalf("checkpointtest: %v", err)
		}
	}
}

// Front opens another way to the server, one that misbehaves as it is told and notes what
// arrives: see package fault. A worker that gets its URL is tested, and the test itself goes
// straight to the server. It is closed with the server, and outlives a Restart.
func (s *Server) Front() *fault.Front {
	s.t.Helper()
	front, err := fault.Listen("127.0.0.1:0", s.URL)
	if err != nil {
		s.t.Fatalf("checkpointtest: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fronts = append(s.fronts, front)
	return front
}

func (s *Server) closeFronts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, front := range s.fronts {
		front.Close()
	}
	s.fronts = nil
}

// noTest fails where there is no test that could.
type noTest struct{}

func (noTest) Helper()                           {}
func (noTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func newServer(t reporter, log io.Writer, folder string, options []Option) *Server {
	t.Helper()
	s := &Server{t: t, log: log, settings: settings{Config: server.Config{
		Listen: "127.0.0.1:0", Data: folder, KeyPrefix: "checkpoint:",
		RequiredTaskAcks: 1, CheckpointTimeout: time.Minute, CheckpointsToKeep: 5, MaxConcurrentCheckpoints: 16,
		EventsToKeep: 10_000, MaxPart: 4 << 30, DrainTimeout: drainTimeout, LogLevel: "warn", LogFormat: "json",
		Bounds: server.DefaultBounds(),
	}}}
	for _, option := range options {
		option(&s.settings)
	}
	s.askForToken()
	s.Restart()
	return s
}

// askForToken writes the tokens file beside the data, in which the store allows nothing else.
func (s *Server) askForToken() {
	s.t.Helper()
	if s.settings.token == "" {
		return
	}
	text, err := json.Marshal(map[string]any{"tokens": []any{map[string]any{
		"name": "test", "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(s.settings.token))),
		"roles": []string{"trigger", "ack", "state", "read", "admin", "events"},
	}}})
	if err == nil {
		s.settings.Tokens = s.settings.Data + ".tokens.json"
		err = os.WriteFile(s.settings.Tokens, text, 0o600)
	}
	if err != nil {
		s.t.Fatalf("checkpointtest: %v", err)
	}
}

// Stop takes the server away as a stop of its process does: who waits for events is sent
// away, running transfers get two seconds. Its data stays. A server that was stopped stays so.
func (s *Server) Stop() {
	s.t.Helper()
	if s.running == nil {
		return
	}
	// Not the test's context: it has ended when its cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), 2*drainTimeout)
	defer cancel()
	running := s.running
	s.running = nil
	if err := running.Stop(ctx); err != nil {
		s.t.Fatalf("checkpointtest: stopping the server: %v", err)
	}
}

// Restart brings the server back on its address with its data; one that runs is stopped first.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	running, err := server.New(s.settings.Config, s.log)
	if err != nil {
		s.t.Fatalf("checkpointtest: %v", err)
	}
	if err := running.Start(context.Background()); err != nil {
		s.t.Fatalf("checkpointtest: %v", err)
	}
	s.running, s.URL = running, running.URL()
	s.settings.Listen = running.Addr() // the port that ":0" became, so that clients find it again
}
