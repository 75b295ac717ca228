// Package process starts the programs that are measured, reads what they cost from /proc,
// and ends them again.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that was started here, and is ended by its id.
type Process struct {
	Name    string
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

// Group is the processes that run now. Its zero value is ready.
type Group struct {
	// Folder is where each process gets its log, and may keep what it keeps.
	Folder string

	mu      sync.Mutex
	running map[*Process]bool
	started int
}

// Start starts a program whose standard output and error go to a file in the group's folder.
// The kernel kills it when this process dies, whatever it dies of.
func (g *Group) Start(name, program string, arguments ...string) (*Process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.started++
	log, err := os.Create(filepath.Join(g.Folder, fmt.Sprintf("%s-%d.log", name, g.started)))
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	p := &Process{Name: name, log: log.Name(), ended: make(chan struct{})}
	// Not exec.CommandContext: who is interrupted ends its processes in order, by StopAll.
	p.command = exec.Command(program, arguments...) //nolint:noctx,gosec // see above; and what is started is chosen here
	p.command.Dir = g.Folder
	p.command.Env = environment()
	p.command.Stdout, p.command.Stderr = log, log
	// Ctrl-C goes to the whole foreground group; these are to hear of it from here.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait() // how it ended is for its log to tell
	}()
	if g.running == nil {
		g.running = map[*Process]bool{}
	}
	g.running[p] = true
	return p, nil
}

// environment is this process's own without what would configure the server.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "CHECKPOINTD_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// gracePeriod is how long a process may take to end by itself.
const gracePeriod = 3 * time.Second

// Stop ends processes, the last one first, and waits until they are gone.
func (g *Group) Stop(processes ...*Process) {
	for i := range processes {
		p := processes[len(processes)-1-i]
		_ = p.command.Process.Signal(syscall.SIGTERM) // it may be gone already
		select {
		case <-p.ended:
		case <-time.After(gracePeriod):
			_ = p.command.Process.Kill()
			<-p.ended
		}
		_ = os.Remove(p.log)
		g.mu.Lock()
		delete(g.running, p)
		g.mu.Unlock()
	}
}

// StopAll ends whatever still runs.
func (g *Group) StopAll() {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.running))
	g.mu.Unlock()
	g.Stop(all...)
}

// readyWithin is how long a process may take until it serves, on a machine that is busy.
const readyWithin = 20 * time.Second

// Await repeats try until it succeeds. It fails when the process ends before, or takes too long.
func (p *Process) Await(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended at once: %w\n%s", p.Name, err, p.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w\n%s", p.Name, errors.Join(err, ctx.Err()), p.Log())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Log is the end of what the process has written so far.
func (p *Process) Log() string {
	file, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	const tail = 2 << 10
	if size, err := file.Seek(0, io.SeekEnd); err == nil && size > tail {
		_, _ = file.Seek(-tail, io.SeekEnd)
	} else {
		_, _ = file.Seek(0, io.SeekStart)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Head is the first bytes that the process has written.
func (p *Process) Head() ([]byte, error) {
	file, err := os.Open(p.log)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", p.Name, err)
	}
	defer func() { _ = file.Close() }()
	head, err := io.ReadAll(io.LimitReader(file, 16<<10))
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", p.Name, err)
	}
	return head, nil
}
