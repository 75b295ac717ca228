package engine_test

import (
	"context"
	"testing"

	"github.com/checkpointd/checkpointd/engine"
)

// blocked is a stream whose source holds its emission lock, and is blocked by a queue that
// is full: the consumer works on a record until it gets a release, and notes it under the
// key "k".
type blocked struct {
	c                *engine.Coordinator
	out              *engine.Emitter[int]
	emitted          chan int // one for each record that Emit has taken
	working, release chan struct{}
	consumed         <-chan struct{}
}

const emits = 2*engine.HandOff + 1

func newBlocked(t *testing.T) *blocked {
	t.Helper()
	return newBlockedBy(t, func(ctx context.Context, out *engine.Emitter[int], emit func(ctx context.Context) error) error {
		return out.Lock().Do(ctx, emit)
	})
}

// newBlockedBy is a newBlocked whose source need not hold its lock.
func newBlockedBy(
	t *testing.T, hold func(ctx context.Context, out *engine.Emitter[int], emit func(ctx context.Context) error) error,
) *blocked {
	t.Helper()
	b := &blocked{
		c: engine.NewCoordinator(nil), emitted: make(chan int, emits),
		working: make(chan struct{}), release: make(chan struct{}),
	}
	counts := store[string, int](t, b.c, "counts")
	source := func(ctx context.Context, out *engine.Emitter[int]) error {
		b.out = out
		return hold(ctx, out, func(ctx context.Context) error {
			for n := range emits {
				if err := out.Emit(ctx, n); err != nil {
					return err
				}
				b.emitted <- n
			}
			return nil
		})
	}
	stream := engine.FromSource(b.c, source)
	b.consumed = begin(t, func(ctx context.Context) error {
		first := true
		return engine.KeyBy(stream, func(int) string { return "k" }).Each(ctx, func(ctx context.Context, n int) error {
			if first {
				first = false
				close(b.working)
			}
			<-b.release
			return counts.Update(ctx, func(int) int { return n })
		})
	})
	happens(t, "the first record", b.working)
	for range engine.HandOff + 1 {
		<-b.emitted
	}
	return b
}

func (b *blocked) finish(t *testing.T) {
	t.Helper()
	close(b.release)
	happens(t, "the end", b.consumed)
}

func TestItem17_EmitWaitsForAFullQueueHoldingTheEmissionLock(t *testing.T) {
	t.Parallel()
	b := newBlocked(t)
	another := begin(t, func(ctx context.Context) error {
		return b.out.Lock().Do(ctx, func(context.Context) error { return nil })
	})
	waits(t, "who wants the emission lock", another)
	equal(t, "records emitted beyond the hand-off", len(b.emitted), 0)
	b.finish(t)
	happens(t, "the turn of who wanted the emission lock", another)
}

func TestItem17_EmitTakesTheEmissionLockItself(t *testing.T) {
	t.Parallel()
	b := newBlockedBy(t, func(ctx context.Context, _ *engine.Emitter[int], emit func(ctx context.Context) error) error {
		return emit(ctx)
	})
	another := begin(t, func(ctx context.Context) error {
		return b.out.Lock().Do(ctx, func(context.Context) error { return nil })
	})
	// The producer may just have come back from the record before; then it is blocked anew.
	// Whoever comes while it is blocked waits.
	again := begin(t, func(ctx context.Context) error {
		<-another
		return b.out.Lock().Do(ctx, func(context.Context) error { return nil })
	})
	waits(t, "who wants the emission lock while Emit waits", again)
	b.finish(t)
	happens(t, "the turn of who wanted the emission lock", again)
}

func TestItem18_TheConsumerDrainsWhatAHolderOfTheEmissionLockEmits(t *testing.T) {
	t.Parallel()
	b := newBlocked(t)
	b.finish(t)
	equal(t, "records emitted in all", engine.HandOff+1+len(b.emitted), emits)
}

// The trigger waits for the record in work, as always, and then it is its turn: the
// producer stays blocked all the while.
func TestItem19_ATriggerDoesNotWaitForABlockedProducer(t *testing.T) {
	t.Parallel()
	b := newBlocked(t)
	triggered := begin(t, func(ctx context.Context) error { _, err := b.c.Trigger(ctx); return err })
	waits(t, "the trigger", triggered)
	b.release <- struct{}{}
	happens(t, "the trigger", triggered)
	equal(t, "what it has", read[map[string]int](t, b.c.Latest(), "counts"), map[string]int{"k": 0})
	if n := len(b.emitted); n > 1 {
		t.Errorf("the producer emitted %d more records", n)
	}
	b.finish(t)
}

func TestItem19_WhoHoldsTheFenceTriggersWhileProducerAndConsumerAreBlocked(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	emitted := make(chan int, emits)
	stream := engine.FromSource(c, func(ctx context.Context, out *engine.Emitter[int]) error {
		return out.Lock().Do(ctx, func(ctx context.Context) error {
			for n := range emits {
				if err := out.Emit(ctx, n); err != nil {
					return err
				}
				emitted <- n
			}
			return nil
		})
	})
	var consumed <-chan struct{}
	must(t, c.Fence().Do(t.Context(), func(ctx context.Context) error {
		consumed = begin(t, func(ctx context.Context) error { _, err := stream.Collect(ctx); return err })
		for range engine.HandOff + 1 {
			<-emitted
		}
		_, err := c.Trigger(ctx)
		return err
	}))
	happens(t, "the end", consumed)
}
