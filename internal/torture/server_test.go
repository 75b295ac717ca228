package torture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// recovers is how long a process may take to serve again on a busy machine.
const recovers = 60 * time.Second

// server is a process that is killed and comes again at the same address.
type server struct {
	binary, address, log string
	flags                []string
	door                 *door // through which clients come

	command *exec.Cmd
	ended   chan struct{}
}

// newServer starts a server behind a wire; it is killed when the test ends.
func newServer(t *testing.T, n *network, flags ...string) *server {
	t.Helper()
	path, err := serverBinary()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s := &server{
		binary: path, address: address, log: filepath.Join(t.TempDir(), "log"), door: new(door),
		flags: append([]string{
			"--listen", address, "--checkpoints-to-keep", "0", "--checkpoint-timeout", "0s",
			"--max-concurrent-checkpoints", "1000", "--log-level", "warn",
		}, flags...),
	}
	s.door.url = "http://" + n.wire(t, "clients–server", address).proxy.Listen
	s.start(t)
	t.Cleanup(func() {
		s.kill()
		if text, err := os.ReadFile(s.log); err == nil && t.Failed() {
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			t.Logf("the last lines of the server at %s:\n%s", s.address, strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	})
	return s
}

// start starts the process and waits until it serves. What holds its port for a moment is
// waited for, too.
func (s *server) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), recovers)
	defer cancel()
	for {
		err := s.launch(ctx)
		if err == nil {
			s.door.set(false)
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the server at %s does not come: %v", s.address, err)
		}
		rest(ctx, 50*time.Millisecond)
	}
}

func (s *server) launch(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.CommandContext(context.WithoutCancel(ctx), s.binary, s.flags...)
	command.Dir, command.Stderr = filepath.Dir(s.log), log
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "CHECKPOINTD_") {
			command.Env = append(command.Env, variable)
		}
	}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // it is killed
	}()
	s.command, s.ended = command, ended
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/healthz", nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			return nil
		}
		select {
		case <-ended:
			return errors.New("it ended at once")
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.kill()
	return fmt.Errorf("it does not serve: %w", ctx.Err())
}

// kill ends the process as kill -9 does. Clients go elsewhere, as they would by a load
// balancer; those that wait for an answer are cut off.
func (s *server) kill() {
	s.door.set(true)
	_ = s.command.Process.Kill() // it may have ended
	<-s.ended
}

func (s *server) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(sig); err != nil {
		t.Errorf("signal %v: %v", sig, err)
	}
}
