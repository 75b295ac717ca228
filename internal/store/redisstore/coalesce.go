package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Acknowledgements are the one call that thousands make in the same moment. What arrives while
// others are on their way to Redis waits for them to come back and goes together: those of one
// checkpoint as the items of one script call, the calls of several checkpoints in one round
// trip. Nothing waits for a timer, and a call that finds nobody on the way goes by itself, at once.

// What goes by itself in any case: a bulk has been joined by its sender already, and nobody should
// wait for the bytes of somebody else's part.
const (
	soloItems = 64
	soloBytes = 4 << 10
)

// coalescer is the queue of the acknowledgements of a process.
type coalescer struct {
	mu sync.Mutex
	// busy is that somebody is on the way, who will see to the queue.
	busy   bool
	closed bool
	queue  []*queuedAck
	// carriers is the goroutine that carries the queue, while there is one.
	carriers sync.WaitGroup
	// trip is that goroutine's.
	trip ackTrip
	// idle are queuedAck, buffers are ackArgs to be used again.
	idle, buffers sync.Pool
}

// Where a queued call is.
const (
	isQueued int32 = iota
	isTaken        // it may reach Redis from now on
	isGivenUp
)

// queuedAck is a call whose caller waits.
type queuedAck struct {
	call  coordinator.AckCall
	place atomic.Int32
	since time.Time
	bytes int
	// done gets one value when result and err are there.
	done   chan struct{}
	result coordinator.AckResult
	err    error
}

// enter gives nil where the caller may go at once; it must leave then. Else its call is in the queue.
func (c *coalescer) enter(call coordinator.AckCall, size int) *queuedAck {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.busy || c.closed {
		c.busy = true
		return nil
	}
	q, _ := c.idle.Get().(*queuedAck)
	if q == nil {
		q = &queuedAck{done: make(chan struct{}, 1)}
	}
	q.keep(call, size)
	c.queue = append(c.queue, q)
	return q
}

// keep copies what its caller may change once it has given up.
func (q *queuedAck) keep(call coordinator.AckCall, size int) {
	items := slices.Grow(q.call.Items, len(call.Items))[:len(call.Items)]
	copy(items, call.Items)
	q.call = call
	q.call.Items = items
	if size > 0 {
		for i := range items {
			if part := items[i].Part; part != nil {
				items[i].Part = &coordinator.PartContent{Content: bytes.Clone(part.Content), Entries: part.Entries, Digest: part.Digest}
			}
		}
	}
	q.bytes, q.since = size, time.Now()
	q.place.Store(isQueued)
}

// release gives an answered call back for the next caller.
func (c *coalescer) release(q *queuedAck) {
	clear(q.call.Items)
	q.call = coordinator.AckCall{Items: q.call.Items[:0]}
	q.result, q.err = coordinator.AckResult{}, nil
	c.idle.Put(q)
}

// leave is for the caller that went at once. Whoever has come meanwhile goes now.
func (s *Store) leave() {
	c := &s.acks
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.busy = false
		return
	}
	c.carriers.Go(s.carryQueue)
}

// close waits until the queue is answered. Who comes later goes by itself.
func (c *coalescer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.carriers.Wait()
}

// wait gives a queued call's answer. A caller that gives up leaves the others alone. Its own call may
// be on the way by then, and counts.
func (s *Store) wait(ctx context.Context, q *queuedAck) (coordinator.AckResult, error) {
	select {
	case <-q.done:
		result, err := q.result, q.err
		s.acks.release(q)
		return result, err
	case <-ctx.Done():
	}
	err := fmt.Errorf("redis %s: %w", acknowledgeScript.verb, ctx.Err())
	unsent := q.place.CompareAndSwap(isQueued, isGivenUp)
	switch {
	case errors.Is(err, context.Canceled):
		return coordinator.AckResult{}, err
	case unsent:
		return coordinator.AckResult{}, coordinator.ErrStoreUnavailable(err)
	default:
		return coordinator.AckResult{}, coordinator.ErrOutcomeUnknown(err)
	}
}
