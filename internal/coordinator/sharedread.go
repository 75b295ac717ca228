package coordinator

import (
	"context"
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
		// The others need it also when this client goes away.
		one.value, one.err = inTime(context.WithoutCancel(ctx), read)
		close(one.done)
	}
	select {
	case <-one.done:
		return one.value, one.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// getShared is Get for one who waits; f is nil for a read of its own.
func (c *Coordinator) getShared(ctx context.Context, f *feed, turn uint64, ref Ref) (CheckpointDetail, error) {
	read := func(ctx context.Context) (CheckpointDetail, error) { return c.Get(ctx, ref) }
	switch {
	case f == nil:
		return inTime(ctx, read)
	case ref.ID == Latest:
		return f.latest.get(ctx, turn, ref.ID, read)
	default:
		return f.one.get(ctx, turn, ref.ID, read)
	}
}
