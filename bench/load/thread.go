package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// thread drives its share of the connections.
type thread struct {
	*run
	epoll       int
	connections []*connection
	waiting     int // connections with a request under way
	latencies   []time.Duration
}

// look is how long a thread sleeps at most before it looks whether the run is over.
const look = 100 * time.Millisecond

// work sends a first request on each connection, and the next with each answer.
func (t *thread) work(ctx context.Context) error {
	for _, c := range t.connections {
		if err := t.send(c); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, len(t.connections))
	heard := time.Now()
	for t.waiting > 0 {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		ready, err := unix.EpollWait(t.epoll, events, int(look.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for answers: %w", err)
		}
		now := time.Now()
		if ready > 0 {
			heard = now
		} else if now.Sub(heard) > stuckAfter {
			return fmt.Errorf("%d requests have had no answer for %s", t.waiting, stuckAfter)
		}
		for _, event := range events[:max(0, ready)] {
			if err := t.receive(t.connections[event.Fd]); err != nil {
				return err
			}
		}
	}
	return nil
}

// send begins the next request, if there is one.
func (t *thread) send(c *connection) error {
	n, ok := t.take()
	if !ok {
		return nil
	}
	t.waiting++
	c.request = t.Next(c.request[:0], n)
	c.sent = time.Now()
	return c.write()
}

// receive reads what has come, and goes on with the next request if the answer is whole.
func (t *thread) receive(c *connection) error {
	whole, err := c.read()
	if err != nil || !whole {
		return err
	}
	t.waiting--
	if t.phase.Load() == measuring {
		t.latencies = append(t.latencies, time.Since(c.sent))
	}
	if err := t.check(c.status, c.body()); err != nil {
		return err
	}
	c.forget()
	return t.send(c)
}

func (t *thread) check(status int, body []byte) error {
	if t.Check != nil {
		return t.Check(status, body)
	}
	if status != 200 {
		return fmt.Errorf("the server answered %d: %.300s", status, body)
	}
	return nil
}
