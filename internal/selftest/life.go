package selftest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Life says what a worker needs to know when it starts.
type Life struct {
	URL, Task, Job string
	// Number counts the lives, from 1.
	Number int
	// Asked is closed when the worker asked for what workers ask for at the start of a life.
	Asked <-chan struct{}
}

// RecoveryKey is a new Idempotency-Key for each life but none for the first.
func (l Life) RecoveryKey() string { return fmt.Sprintf("selftest-%d", l.Number) }

// Driver starts and kills the worker.
type Driver interface {
	// Start begins a life, after the one before was killed or has ended.
	Start(ctx context.Context, life Life) error
	// Kill ends the present life as kill -9 does, and returns when it is gone.
	Kill()
	// Exited is closed when the present life has ended; nil when that cannot be known.
	Exited() <-chan struct{}
}

// command is a worker that the kit runs itself.
type command struct {
	args []string
	out  *marked

	process *exec.Cmd
	exited  chan struct{}
}

// Command runs a worker as a process. {url}, {task}, {job} and {attempt} in its arguments are
// replaced; the environment has the same as CHECKPOINTD_URL and so on. What the worker
// writes goes to out, line by line with a mark.
func Command(args []string, out io.Writer) Driver { return &command{args: args, out: &marked{to: out}} }

func (c *command) Start(_ context.Context, life Life) error {
	attempt := strconv.Itoa(life.Number)
	fill := strings.NewReplacer("{url}", life.URL, "{task}", life.Task, "{job}", life.Job, "{attempt}", attempt, "{key}", life.RecoveryKey())
	args := make([]string, len(c.args))
	for i, arg := range c.args {
		args[i] = fill.Replace(arg)
	}
	process := exec.Command(args[0], args[1:]...) // the author's own; Kill ends it
	process.Env = append(os.Environ(), "CHECKPOINTD_URL="+life.URL, "CHECKPOINTD_TASK="+life.Task, "CHECKPOINTD_JOB="+life.Job,
		"CHECKPOINTD_ATTEMPT="+attempt, "CHECKPOINTD_RECOVERY_KEY="+life.RecoveryKey())
	process.Stdout, process.Stderr = c.out, c.out
	process.WaitDelay = time.Second // a grandchild may hold the output open
	ownGroup(process)
	if err := process.Start(); err != nil {
		return fmt.Errorf("starting your worker: %w", err)
	}
	exited := make(chan struct{})
	c.process, c.exited = process, exited
	go func() {
		defer close(exited)
		_ = process.Wait()        // how it ended is in its output
		killGroup(process, false) // what it left behind
		c.out.end()
	}()
	return nil
}

func (c *command) Kill() {
	if c.exited == nil {
		return
	}
	select {
	case <-c.exited:
	default:
		killGroup(c.process, true)
		<-c.exited
	}
}

func (c *command) Exited() <-chan struct{} { return c.exited }

// marked writes whole lines with a mark.
type marked struct {
	to   io.Writer
	lock sync.Mutex
	rest []byte
}

func (m *marked) Write(p []byte) (int, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.rest = append(m.rest, p...)
	for {
		line, rest, found := bytes.Cut(m.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		m.rest = rest
		if _, err := fmt.Fprintf(m.to, "  worker | %s\n", line); err != nil {
			return len(p), err
		}
	}
}

// end writes a last line that was not ended.
func (m *marked) end() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if len(m.rest) > 0 {
		sayf(m.to, "  worker | %s\n", m.rest)
		m.rest = nil
	}
}

// prompt is a worker that a person runs.
type prompt struct {
	out   io.Writer
	lines <-chan struct{} // a line was entered; closed at the end of input
}

// Prompt asks a person to start the worker, and to kill it. A restart has happened when Enter is
// pressed; where the input has ended, when the worker asks for what workers ask for at their start.
func Prompt(in io.Reader, out io.Writer) Driver {
	lines := make(chan struct{})
	go func() { // it ends with the process when nothing is entered
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			lines <- struct{}{}
		}
	}()
	return &prompt{out: out, lines: lines}
}

func (p *prompt) Start(ctx context.Context, life Life) error {
	if life.Number == 1 {
		sayf(p.out, "→ Start your worker now: URL %s, task %q, job %q.\n", life.URL, life.Task, life.Job)
		return nil
	}
	for drained := false; !drained; { // an Enter from before is about nothing
		select {
		case _, open := <-p.lines:
			drained = !open
		default:
			drained = true
		}
	}
	sayf(p.out, "→ Kill your worker (kill -9) if it still runs, start it again, then press Enter.\n")
	select {
	case _, open := <-p.lines:
		if open {
			return nil
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select { // there is nobody to press it
	case <-life.Asked:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *prompt) Kill() {}

func (p *prompt) Exited() <-chan struct{} { return nil }
