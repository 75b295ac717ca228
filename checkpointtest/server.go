package checkpointtest

import (
	"context"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/server"
)

// Server is a running checkpointd. Its methods are for the goroutine of the test: they end
// the test when they fail.
type Server struct {
	// URL is where it answers, such as "http://127.0.0.1:40123"; the same after a Restart.
	URL string

	t       testing.TB
	config  settings
	running *server.Server
}

// drainTimeout is how long a running upload or restore may hold up the end of a test.
const drainTimeout = 2 * time.Second

// Start runs a server until the test ends. What it logs from warnings on is in the test's
// output.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := &Server{t: t, config: settings{server.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(), KeyPrefix: "checkpoint:",
		RequiredTaskAcks: 1, CheckpointTimeout: time.Minute, CheckpointsToKeep: 5, MaxConcurrentCheckpoints: 16,
		EventsToKeep: 10_000, MaxPart: 4 << 30, DrainTimeout: drainTimeout, LogLevel: "warn", LogFormat: "json",
	}}}
	for _, option := range options {
		option(&s.config)
	}
	s.Restart()
	t.Cleanup(s.Stop)
	return s
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
	err := s.running.Stop(ctx)
	s.running = nil
	if err != nil {
		s.t.Errorf("checkpointtest: stopping the server: %v", err)
	}
}

// Restart brings the server back on its address with its data; one that runs is stopped first.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	running, err := server.New(s.config.Config, s.t.Output())
	if err != nil {
		s.t.Fatalf("checkpointtest: %v", err)
	}
	if err := running.Start(); err != nil {
		_ = running.Stop(context.Background()) // it has a store to close, and failed already
		s.t.Fatalf("checkpointtest: %v", err)
	}
	s.running, s.URL = running, running.URL()
	s.config.Listen = running.Addr() // the port that ":0" became, so that clients find it again
}
