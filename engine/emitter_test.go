package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/checkpointd/checkpointd/engine"
)

func TestItem16_TheEmissionLockIsTheSourcesOwn(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	var locks []*engine.Fence
	for range 2 {
		_, err := engine.FromSource(c, func(_ context.Context, out *engine.Emitter[int]) error {
			locks = append(locks, out.Lock(), out.Lock())
			return nil
		}).Collect(t.Context())
		must(t, err)
	}
	if locks[0] != locks[1] || locks[0] == locks[2] || locks[0] == c.Fence() || locks[2] == c.Fence() {
		t.Errorf("locks: %p, fence: %p", locks, c.Fence())
	}
}

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

func TestItem36_ATriggerDoesNotWaitForASourceThatIsBlocked(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	ctx, cancel := context.WithCancel(t.Context())
	counts := store[string, int](t, c, "counts")
	began := make(chan struct{})
	stream := engine.FromSource(c, func(ctx context.Context, out *engine.Emitter[int]) error {
		if err := out.Emit(ctx, 1); err != nil {
			return err
		}
		<-ctx.Done() // for ever, as far as the stream knows
		return ctx.Err()
	})
	consumed := begin(t, func(context.Context) error {
		err := engine.KeyBy(stream, func(int) string { return "k" }).Each(ctx, func(ctx context.Context, n int) error {
			defer close(began)
			return counts.Set(ctx, n)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		return nil
	})
	happens(t, "the first record", began)
	equal(t, "counts", read[map[string]int](t, trigger(t, c), "counts"), map[string]int{"k": 1})
	cancel()
	happens(t, "the end", consumed)
}

// What a source emitted before it failed is processed, or it would be chance how much of
// it is: the seed drops what is queued.
func TestItem55_AFailingSourceSurfacesAfterWhatItEmitted(t *testing.T) {
	t.Parallel()
	failure := errors.New("disk on fire")
	for _, n := range []int{0, 1, engine.HandOff, 3 * engine.HandOff} {
		got, err := engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[int]) error {
			for i := range n {
				if err := out.Emit(ctx, i); err != nil {
					return err
				}
			}
			return failure
		}).Collect(t.Context())
		equal(t, "records", len(got), n)
		var source *engine.SourceError
		if !errors.As(err, &source) || !errors.Is(err, failure) {
			t.Fatalf("got %v", err)
		}
		equal(t, "error", err.Error(), "engine: source execution failed: disk on fire")
	}
}

func TestItem55_ManyRecordsComeInOrderAndAreNeverFarAhead(t *testing.T) {
	t.Parallel()
	const many = 100_000
	var emitted atomic.Int64
	next := 0
	must(t, engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[int]) error {
		for n := range many {
			if err := out.Emit(ctx, n); err != nil {
				return err
			}
			emitted.Add(1)
		}
		return nil
	}).Each(t.Context(), func(_ context.Context, n int) error {
		if n != next {
			t.Fatalf("record %d came as %d", n, next)
		}
		next++
		if ahead := int(emitted.Load()) - next; ahead > engine.HandOff {
			t.Fatalf("the source is %d records ahead", ahead)
		}
		return nil
	}))
	equal(t, "records", next, many)
}

func TestAGoroutineThatOutlivesItsSourceIsToldSo(t *testing.T) {
	t.Parallel()
	var out *engine.Emitter[int]
	_, err := engine.FromSource(nil, func(_ context.Context, e *engine.Emitter[int]) error {
		out = e
		return nil
	}).Collect(t.Context())
	must(t, err)
	for range 50 {
		if err := out.Emit(t.Context(), 1); !errors.Is(err, engine.ErrStopped) {
			t.Fatalf("got %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := out.Emit(ctx, 1); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("with a context that is done too: %v", err)
	}
}

func TestWhoEmitsGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBlockedBy(t, func(ctx context.Context, out *engine.Emitter[int], emit func(ctx context.Context) error) error {
		if err := emit(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithCancelCause(ctx)
		reason := errors.New("enough")
		cancel(reason)
		if err := out.Emit(ctx, emits); !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
		return nil
	})
	b.finish(t)
}

func TestHoldersOfTheEmissionLockAreNotInterrupted(t *testing.T) {
	t.Parallel()
	got, err := engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[int]) error {
		var all sync.WaitGroup
		for id := range 4 {
			all.Go(func() {
				for range rounds() {
					must(t, out.Lock().Do(ctx, func(ctx context.Context) error {
						return errors.Join(out.Emit(ctx, id), out.Emit(ctx, id), out.Emit(ctx, id))
					}))
				}
			})
		}
		all.Wait()
		return nil
	}).Collect(t.Context())
	must(t, err)
	equal(t, "records", len(got), 12*rounds())
	for i := 0; i < len(got); i += 3 {
		if got[i] != got[i+1] || got[i] != got[i+2] {
			t.Fatalf("another's record came between: %v", got[i:i+3])
		}
	}
}

// The source ends because of the cancellation, and the cancellation is what is told.
func TestACancellationIsNotTheFailureOfASource(t *testing.T) {
	t.Parallel()
	reason := errors.New("enough")
	for range 50 { // both are noticed at once: which first is chance
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan struct{})
		err := engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[int]) error {
			defer close(ended)
			if err := out.Emit(ctx, 1); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}).Each(ctx, func(context.Context, int) error {
			cancel(reason)
			<-ended
			return nil
		})
		var source *engine.SourceError
		if !errors.Is(err, reason) || errors.As(err, &source) {
			t.Fatalf("got %v", err)
		}
	}
}
