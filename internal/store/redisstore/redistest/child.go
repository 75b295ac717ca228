package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// child is a redis-server process under a shell that watches its standard input: when
// the test process is gone, however it ended, the pipe closes and the server with it.
type child struct {
	port    int
	args    []string
	shell   *exec.Cmd
	leash   io.Closer
	process int
}

const watch = `redis-server "$@" >/dev/null 2>&1 & echo $!; cat >/dev/null; kill -9 $! 2>/dev/null; wait`

// startChild starts a server that keeps nothing unless config says so; dir is where it
// would, "" is nowhere.
func startChild(config []string, dir string) (*child, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("find redis-server: %w", err)
	}
	if dir == "" {
		dir = "/"
	}
	// Another process may take the port between the look and the bind.
	var failures []error
	for range 3 {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		c := &child{port: port, args: append([]string{
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir,
		}, config...)}
		err = c.start()
		if err == nil {
			return c, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func (c *child) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", c.port) }

// start starts the process and waits until it answers.
func (c *child) start() error {
	c.shell = exec.Command("sh", append([]string{"-c", watch, "redis-server"}, c.args...)...)
	leash, err := c.shell.StdinPipe()
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	stdout, err := c.shell.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	if err := c.shell.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	c.leash = leash
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err == nil {
		c.process, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		c.end()
		return fmt.Errorf("start redis-server: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	if _, err := awaitVersion(ctx, c.url()); err != nil {
		c.end()
		return fmt.Errorf("start redis-server %s: %w", strings.Join(c.args, " "), err)
	}
	return nil
}

// end kills the process and waits for its shell.
func (c *child) end() {
	if c.shell == nil {
		return
	}
	_ = c.leash.Close()
	_ = c.shell.Wait()
	c.shell = nil
}

func startOwn(t testing.TB, options Options) *Server {
	t.Helper()
	c, err := startChild(options.Config, t.TempDir())
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(c.end)
	s := newServer(t, c.url())
	s.child = c
	return s
}

// own ends a test that would disturb others.
func (s *Server) own(t testing.TB) *child {
	t.Helper()
	if s.child == nil {
		t.Fatal("this Redis is shared; ask for Options.Own to control it")
	}
	return s.child
}

// Kill ends the server as kill -9 does: what it had not persisted is lost.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.own(t).end()
}

// Stop ends the server in good order: it persists what its configuration says.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	client := s.Client(t)
	// The reply of SHUTDOWN is a closed connection.
	_ = client.Shutdown(t.Context()).Err()
	s.own(t).end()
}

// Start starts a stopped or killed server again, at the same address.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.own(t).start(); err != nil {
		t.Fatal(err)
	}
}

// Restart is Stop and Start.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	s.Start(t)
}

// Pause stops the server from answering while its connections stay open, until Resume.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
}

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.own(t).process, sig); err != nil {
		t.Fatalf("signal %v: %v", sig, err)
	}
}
