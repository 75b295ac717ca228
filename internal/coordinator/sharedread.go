package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"
)

// readBudget is how long the store may take over one read of somebody who waits: the
// time of the request itself is for the waiting.
const readBudget = 2 * time.Second

// inTime gives one read of the store its own time.
func inTime[T any](ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, readBudget)
	defer cancel()
	value, err := read(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = ErrStoreUnavailable(err)
	}
	return value, err
}

// sharedRead is an answer that many waiters of one job want at the same turn of its feed,
// which would otherwise be thousands of equal reads.
type sharedRead[T any] struct {
	mu     sync.Mutex
	newest *oneRead[T]
}

type oneRead[T any] struct {
	turn uint64
	id   int64
	done chan struct{} // closed when value and err are there
	// value is to be read only.
	value T
	err   error
}

// get gives an answer about id that was read at turn or later. One caller reads it, the
// others wait; a failure is theirs too, or a store that is away would be asked by each
// in turn.
func (s *sharedRead[T]) get(ctx context.Context, turn uint64, id int64, read func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	one := s.newest
	mine := one == nil || one.id != id || one.turn < turn
	if mine {
		one = &oneRead[T]{turn: turn, id: id, done: make(chan struct{})}
		s.newest = one
	}
	s.mu.Unlock()
	if mine {
		one.read(ctx, read)
	}
	return one.wait(ctx)
}

// freshRead is an answer for many who come at the same time: whoever comes while one is
// being read shares the next, which begins after all of them came.
type freshRead[T any] struct {
	mu            sync.Mutex
	running, next *oneRead[T]
}

// get gives an answer that was read after the call.
func (f *freshRead[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	f.mu.Lock()
	before, one := f.running, f.next
	mine := one == nil
	if mine {
		one = &oneRead[T]{done: make(chan struct{})}
		f.next = one
	}
	f.mu.Unlock()
	if mine {
		if before != nil {
			<-before.done
		}
		f.mu.Lock()
		f.running, f.next = one, nil
		f.mu.Unlock()
		one.read(ctx, read)
	}
	return one.wait(ctx)
}

// read finds the answer, also for others, who need it when this client goes away.
func (one *oneRead[T]) read(ctx context.Context, read func(context.Context) (T, error)) {
	defer close(one.done)
	one.err = ErrInternal(errReadPanicked) // unless it comes to something else
	one.value, one.err = inTime(context.WithoutCancel(ctx), read)
}

var errReadPanicked = errors.New("the read that this answer was shared with panicked")

// wait gives the answer when it is there.
func (one *oneRead[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-one.done:
		return one.value, one.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// getShared is Get for one who waits; without a feed or a turn it reads for itself.
func (c *Coordinator) getShared(ctx context.Context, f *feed, turn uint64, ref Ref) (CheckpointDetail, error) {
	read := func(ctx context.Context) (CheckpointDetail, error) { return c.Get(ctx, ref) }
	switch {
	case f == nil || turn == 0:
		return inTime(ctx, read)
	case ref.ID == Latest:
		return f.latest.get(ctx, turn, ref.ID, read)
	default:
		return f.one.get(ctx, turn, ref.ID, read)
	}
}
