package processtest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// patience is how long anything that must happen may take on a busy machine. What has a
// promised time is measured where it is promised.
const patience = 20 * time.Second

// place is where the servers of a test keep everything.
type place struct {
	flags []string
	redis *redistest.Server // nil for the embedded store
}

func embedded(t testing.TB) place {
	t.Helper()
	return place{flags: []string{"--data", t.TempDir()}}
}

// onRedis starts a Redis of the test's own, with further arguments of redis-server.
func onRedis(t testing.TB, config ...string) place {
	t.Helper()
	redis := redistest.Start(t, redistest.Options{Own: true, Config: config})
	return place{flags: []string{"--redis", redis.URL, "--key-prefix", redis.Prefix}, redis: redis}
}

// stores are what every server must do the same on.
var stores = map[string]func(t testing.TB) place{
	"embedded": embedded,
	"redis":    func(t testing.TB) place { t.Helper(); return onRedis(t) },
}

// process is a running server.
type process struct {
	url     string
	command *exec.Cmd
	log     *logbook
	ended   chan struct{}
}

// launch starts the binary and does not wait for it to serve. It is killed when the test ends.
func launch(t testing.TB, flags ...string) *process {
	t.Helper()
	return launchAs(t, binary, flags...)
}

// launchAs is launch by another program, which becomes the server.
func launchAs(t testing.TB, program string, flags ...string) *process {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), program, flags...)
	command.Dir = t.TempDir() // nothing may end up beside the tests
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "CHECKPOINTD_") {
			command.Env = append(command.Env, variable)
		}
	}
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{command: command, log: newLogbook(), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.log.read(stderr)
		_ = command.Wait() // its exit code is looked at by who cares
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the last lines of the process %d (%s):\n%s", command.Process.Pid, strings.Join(flags, " "), p.log.tail(12))
		}
	})
	return p
}

// serve starts the binary on a free port and waits until it serves.
func serve(t testing.TB, where place, flags ...string) *process {
	t.Helper()
	all := append([]string{"--listen", "127.0.0.1:0"}, where.flags...)
	p := launch(t, append(all, flags...)...)
	p.url = "http://" + p.await(t, "checkpointd serves").Address
	return p
}

// await waits for a message in the log.
func (p *process) await(t testing.TB, message string) entry {
	t.Helper()
	return p.awaitEntry(t, message, func(e entry) bool { return e.Message == message })
}

func (p *process) awaitEntry(t testing.TB, what string, match func(entry) bool) entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found, ok := p.log.find(ctx, match)
	if !ok {
		t.Fatalf("the process never logged %q:\n%s", what, p.log.tail(30))
	}
	return found
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended by itself
	<-p.ended
}

func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatalf("signal %v: %v", signal, err)
	}
}

// exitCode waits for the end of the process.
func (p *process) exitCode(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("the process goes on; it logged\n%s", p.log.tail(30))
	}
	return p.command.ProcessState.ExitCode()
}

// entry is a line of the log, with the members that tests look at. What is no JSON is
// all Message.
type entry struct {
	Message      string    `json:"message"`
	Level        string    `json:"level"`
	Error        string    `json:"error"`
	Time         time.Time `json:"time"`
	Address      string    `json:"address"`
	CheckpointID int64     `json:"checkpointId"`
	Status       any       `json:"status"` // a word, or the number of an answer
}

// logbook keeps what a process wrote to its standard error.
type logbook struct {
	mu      sync.Mutex
	lines   []string
	changed chan struct{} // closed and replaced at each line; closed for good at the end
	ended   bool
}

func newLogbook() *logbook { return &logbook{changed: make(chan struct{})} }

// read takes lines until the process has closed its end.
func (l *logbook) read(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		l.mu.Lock()
		if line != "" {
			l.lines = append(l.lines, strings.TrimSuffix(line, "\n"))
		}
		close(l.changed)
		if err != nil {
			l.ended = true
			l.mu.Unlock()
			return
		}
		l.changed = make(chan struct{})
		l.mu.Unlock()
	}
}

// find gives the first matching line, which may be yet to come.
func (l *logbook) find(ctx context.Context, match func(entry) bool) (entry, bool) {
	for seen := 0; ; {
		l.mu.Lock()
		lines, changed, ended := l.lines[seen:], l.changed, l.ended
		seen = len(l.lines)
		l.mu.Unlock()
		for _, line := range lines {
			var e entry
			if json.Unmarshal([]byte(line), &e) != nil {
				e = entry{Message: line}
			}
			if match(e) {
				return e, true
			}
		}
		if ended {
			return entry{}, false
		}
		select {
		case <-ctx.Done():
			return entry{}, false
		case <-changed:
		}
	}
}

// tail is the end of the log.
func (l *logbook) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "\n")
}
