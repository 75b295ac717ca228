package engine

import (
	"context"
	"fmt"
)

// Emitter takes the records of one source. It may be used by several goroutines, until
// the source function returns.
type Emitter[T any] struct {
	lock    *Fence
	records chan T
	stop    <-chan struct{}
	// over is guarded by lock.
	over bool
}

// Lock is the emission lock of the source: Emit takes it, and whoever holds it emits
// several records with none of another goroutine between them. It has nothing to do with
// the fence of the coordinator, and the consumer never takes it: it may be held while
// Emit waits.
func (e *Emitter[T]) Lock() *Fence { return e.lock }

// Emit hands a record to the consumer. It waits, holding the emission lock, while the
// queue of [HandOff] records is full. It fails with [ErrStopped] when the
// consumer or the source has ended, else with the cause of ctx when that is done; the
// record is lost then.
func (e *Emitter[T]) Emit(ctx context.Context, record T) error {
	h, err := e.lock.enter(ctx)
	if err != nil {
		return e.refuse(err)
	}
	defer h.leave()
	if e.over {
		return ErrStopped
	}
	select {
	case e.records <- record:
		return nil
	case <-ctx.Done():
		return e.refuse(context.Cause(ctx))
	case <-e.stop:
		return ErrStopped
	}
}

// refuse says why a record was not taken. The source's own context is done because the
// stream has stopped, and that is the better answer.
func (e *Emitter[T]) refuse(err error) error {
	select {
	case <-e.stop:
		return ErrStopped
	default:
		return fmt.Errorf("emit: %w", err)
	}
}

// end is called when the source function has returned. Goroutines that it left behind
// must not meet a closed channel.
func (e *Emitter[T]) end() {
	h, err := e.lock.enter(context.Background())
	if err != nil {
		return // cannot be: that context is never done
	}
	defer h.leave()
	e.over = true
	close(e.records)
}
