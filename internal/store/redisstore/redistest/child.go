package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// child is a redis-server process under a shell that watches its standard input: when
// the test process is gone, however it ended, the pipe closes and the server with it.
type child struct {
	options *redis.Options // how to reach it
	args    []string
	shell   *exec.Cmd
	leash   io.Closer
	process int
	paused  bool
}

const watch = `redis-server "$@" >/dev/null 2>&1 & echo $!; cat >/dev/null; kill -9 $! 2>/dev/null; wait`

// plan is a child to be.
type plan struct {
	// port names a free port.
	port func() (int, error)
	// listen are the arguments with which it listens at a port.
	listen func(port int) []string
	// args are the others.
	args []string
	// reach completes how to reach it, where its address is not enough.
	reach redis.Options
}

// onPort listens at the port, and keeps nothing unless later arguments say so; dir is
// where it would.
func onPort(dir string) func(port int) []string {
	return func(port int) []string {
		return []string{
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
			// Replicas are sent everything at once, not after waiting five seconds for others.
			"--repl-diskless-sync-delay", "0",
		}
	}
}

func (p plan) start() (*child, error) {
	if os.Getenv(envURL) == leftOut {
		return nil, errLeftOut
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("find redis-server: %w", err)
	}
	// Another process may take the port between the look and the bind.
	var failures []error
	for range 3 {
		port, err := p.port()
		if err != nil {
			return nil, err
		}
		reach := p.reach
		reach.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		c := &child{options: plain(&reach), args: append(p.listen(port), p.args...)}
		err = c.start()
		if err == nil {
			return c, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// url is what a client connects to, but for the authority of a certificate.
func (c *child) url() string {
	scheme := "redis"
	if c.options.TLSConfig != nil {
		scheme = "rediss"
	}
	address := url.URL{Scheme: scheme, Host: c.options.Addr}
	if c.options.Username != "" {
		address.User = url.UserPassword(c.options.Username, c.options.Password)
	}
	return address.String()
}

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
	if _, err := awaitVersion(ctx, c.options); err != nil {
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
	c.shell, c.paused = nil, false
}

// serves tells that the process was neither ended nor paused.
func (c *child) serves() bool { return c.shell != nil && !c.paused }

func startOwn(t testing.TB, options Options) *Server {
	t.Helper()
	dir := t.TempDir()
	p := plan{port: freePort, listen: onPort(dir), args: options.Config}
	if options.TLS {
		writeCertificate(t, dir)
		p.reach.TLSConfig = trust(t, filepath.Join(dir, certFile))
		p.listen = func(port int) []string {
			return append(onPort(dir)(0), "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "no",
				"--tls-cert-file", filepath.Join(dir, certFile), "--tls-key-file", filepath.Join(dir, keyFile))
		}
	}
	if options.User != "" {
		p.reach.Username, p.reach.Password = options.User, options.Password
		p.args = append(p.args, "--user", options.User, "on", ">"+options.Password, "~*", "&*", "+@all", "--user", "default", "off")
	}
	s := p.own(t)
	if options.TLS {
		s.CAFile = filepath.Join(dir, certFile)
	}
	return s
}

// own starts a server that ends with the test.
func (p plan) own(t testing.TB) *Server {
	t.Helper()
	c, err := p.start()
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(c.end)
	s := newServer(c.url(), c.options)
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
	s.child.paused = true
}

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
	s.child.paused = false
}

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.own(t).process, sig); err != nil {
		t.Fatalf("signal %v: %v", sig, err)
	}
}
