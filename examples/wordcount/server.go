package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"syscall"
	"time"
)

// server is a checkpointd that can be killed, and comes back on its address with its data.
type server struct {
	binary  string
	flags   []string
	address string // host and port
	log     string
	gone    func(*child)

	running *child
}

// buildServer makes the binary; the working folder must be inside of this module.
func buildServer(ctx context.Context, path string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/checkpointd/checkpointd/cmd/server") //nolint:gosec // Our path.
	output, err := build.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the server: %w\n%s", err, output)
	}
	return nil
}

// freeAddress is one of 127.0.0.1 that nobody uses now. Its port is below those that systems give
// to connections, or somebody could get it while the server is away.
func freeAddress(ctx context.Context) (string, error) {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000)) //nolint:gosec // Not a secret.
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", address)
		if err == nil {
			_ = listener.Close() // nobody has connected
			return address, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return "", fmt.Errorf("looking for a port: %w", err)
		}
	}
}

// startPatience is how long a server may take until it serves.
const startPatience = 30 * time.Second

// start returns when the server is ready.
func (s *server) start(ctx context.Context) (err error) {
	arguments := append([]string{"--listen", s.address, "--log-level", "warn"}, s.flags...)
	if s.running, err = startChild(ctx, s.log, drain, s.gone, s.binary, arguments...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, errors.New("the server is not ready yet"))
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("asking whether the server is ready: %w", err)
		}
		answer, err := client.Do(request)
		if err == nil {
			_ = answer.Body.Close() // its status says it all
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.running.done:
			return fmt.Errorf("the server has ended: %w", s.running.err)
		default:
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *server) kill() {
	s.running.kill()
	s.running = nil
}

func drain(from io.Reader) error {
	_, err := io.Copy(io.Discard, from)
	return err //nolint:wrapcheck // The caller knows whose.
}

// pause waits; it gives the cause when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
