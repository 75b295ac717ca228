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
		if err != reason { //nolint:errorlint // as it is
			t.Fatalf("got %v", err)
		}
	}
}
