package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
)

// child is a process that the driver started.
type child struct {
	command *exec.Cmd
	orders  io.WriteCloser // its stdin

	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
	// killed tells that its end is the driver's doing.
	killed atomic.Bool
}

// startChild runs a program. What it says on stdout goes to hear, and what it logs to the end
// of a file. When it ends without having been killed, gone is told how.
func startChild(ctx context.Context, log string, hear func(io.Reader) error, gone func(*child), program string, arguments ...string) (*child, error) {
	c := &child{done: make(chan struct{})}
	c.command = exec.CommandContext(ctx, program, arguments...) //nolint:gosec // It is one of ours.
	file, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of a child: %w", err)
	}
	defer file.Close() //nolint:errcheck // The child has its own.
	c.command.Stderr = file
	if c.orders, err = c.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	output, err := c.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go func() {
		heard := hear(output)
		c.err = errors.Join(heard, c.command.Wait())
		close(c.done)
		if !c.killed.Load() {
			gone(c)
		}
	}()
	return c, nil
}

// kill ends the process as kill -9 does, and returns when it has gone and all that it said
// was heard.
func (c *child) kill() {
	if c == nil {
		return
	}
	c.killed.Store(true)
	_ = c.command.Process.Kill() // it may have ended by itself
	<-c.done
}

// order tells the child something; one that is ending does not hear it.
func (c *child) order(line string) { _, _ = fmt.Fprintln(c.orders, line) }
