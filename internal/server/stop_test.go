package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/server"
)

func TestStopMayBeCalledAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t)) // which stops it once more at the end
	var stops sync.WaitGroup
	for range 4 {
		stops.Go(func() {
			if err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	stops.Wait()
	if err := s.Start(t.Context()); err == nil {
		t.Error("a server that was stopped started")
	}
}

// Nobody listens at the Redis of this server, so that it waits before it serves.
func TestAStartThatWaitsForRedisEndsWhenItIsStopped(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel context.CancelFunc, s *server.Server) error{
		"by its context": func(cancel context.CancelFunc, _ *server.Server) error { cancel(); return nil },
		"by Stop":        func(_ context.CancelFunc, s *server.Server) error { return s.Stop(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, log := embedded(t), new(lines)
			config.Redis, config.Adopt = "redis://127.0.0.1:1", true
			s, err := server.New(config, log)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			started := make(chan error, 1)
			go func() { started <- s.Start(ctx) }()
			awaitLogged(t, log, "waiting for Redis, to adopt before serving")
			if err := end(cancel, s); err != nil {
				t.Error(err)
			}
			// One that waited to its end would say that Redis does not answer.
			err = <-started
			if err == nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "stopped before it served") {
				t.Errorf("Start gave %v", err)
			}
			awaitLogged(t, log, "checkpointd stopped")
			if err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFailedStartLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	config, log := embedded(t), new(lines)
	config.Listen, config.Pprof = start(t, embedded(t)).Addr(), "127.0.0.1:0"
	s, err := server.New(config, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "listening on") {
		t.Fatalf("Start gave %v", err)
	}
	profiles := awaitLogged(t, log, "profiles are served").Address
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", profiles); err == nil {
		_ = conn.Close()
		t.Error("the profiles are still served")
	}
	config.Listen = "127.0.0.1:0"
	start(t, config) // which has the folder, and would be refused if the first one still used it
}

// logLine is what this file reads of a line of the log.
type logLine struct{ Message, Address string }

// awaitLogged waits for a message in a log.
func awaitLogged(t *testing.T, log *lines, message string) logLine {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		for text := range strings.Lines(log.String()) {
			var line logLine
			if json.Unmarshal([]byte(text), &line) == nil && line.Message == message {
				return line
			}
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("%q is not logged, but\n%s", message, log)
	return logLine{}
}
