package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/checkpointd/checkpointd/engine"
)

func TestItem13_WhileTheFenceIsHeldEveryWriteWaits(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	s := store[string, int](t, c, "s")
	set(t, s, "kept", 1)
	cp := trigger(t, c)
	key := engine.WithKey(t.Context(), "a")
	for name, do := range map[string]func(ctx context.Context) error{
		"Set":     func(context.Context) error { return s.Set(key, 1) },
		"Update":  func(context.Context) error { return s.Update(key, func(n int) int { return n + 1 }) },
		"Clear":   func(context.Context) error { return s.Clear(key) },
		"Trigger": func(ctx context.Context) error { _, err := c.Trigger(ctx); return err },
		"Restore": func(ctx context.Context) error { return c.Restore(ctx, cp.ID()) },
		// Not in the seed's list: a read would otherwise see half a record.
		"Value": func(context.Context) error { _, err := s.Value(key); return err },
		"All":   func(ctx context.Context) error { _, err := s.All(ctx); return err },
		"Len":   func(ctx context.Context) error { _, err := s.Len(ctx); return err },
	} {
		var done <-chan struct{}
		must(t, c.Fence().Do(t.Context(), func(context.Context) error {
			done = begin(t, do)
			waits(t, name, done)
			return nil
		}))
		happens(t, name, done)
	}
	// The current key belongs to a context, not to the store: setting it is no write, and
	// waits for nobody.
	must(t, c.Fence().Do(t.Context(), func(ctx context.Context) error {
		engine.WithKey(ctx, "a")
		return nil
	}))
}

func TestItem14_AWriteDuringATriggerWaitsForAllSnapshots(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	first := store[string, int](t, c, "first")
	reached, proceed := make(chan struct{}), make(chan struct{})
	must(t, engine.Register(t.Context(), c, "slow",
		func(context.Context) (int, error) {
			close(reached)
			<-proceed
			return 0, nil
		},
		func(context.Context, int) error { return nil }))
	last := store[string, int](t, c, "last")

	triggered := begin(t, func(ctx context.Context) error { _, err := c.Trigger(ctx); return err })
	happens(t, "the snapshot", reached)
	var writes []<-chan struct{}
	for _, s := range []*engine.KeyedStore[string, int]{first, last} {
		writes = append(writes, begin(t, func(ctx context.Context) error { return s.Set(engine.WithKey(ctx, "a"), 1) }))
	}
	for _, done := range writes {
		waits(t, "the write", done)
	}
	close(proceed)
	happens(t, "the trigger", triggered)
	for _, done := range writes {
		happens(t, "the write", done)
	}
	for _, name := range []string{"first", "last"} {
		equal(t, name, read[map[string]int](t, c.Latest(), name), map[string]int{})
	}
}

func TestItem20_WhoHoldsTheFenceEntersAgain(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	s := store[string, int](t, c, "s")
	must(t, c.Fence().Do(t.Context(), func(ctx context.Context) error {
		key := engine.WithKey(ctx, "a")
		must(t, s.Set(key, 1))
		cp, err := c.Trigger(ctx)
		must(t, err)
		return c.Fence().Do(key, func(ctx context.Context) error {
			must(t, s.Set(ctx, 2))
			_, err := engine.NewKeyedStore[string, int](ctx, c, "inside", nil)
			must(t, err)
			must(t, c.Restore(ctx, cp.ID()))
			value, err := s.Value(ctx)
			equal(t, "value", value, 1)
			return err
		})
	}))
}

func TestAHoldEndsWhenItsBodyReturns(t *testing.T) {
	t.Parallel()
	f := engine.NewFence()
	var outer, inner context.Context
	must(t, f.Do(t.Context(), func(ctx context.Context) error {
		outer = ctx //nolint:fatcontext // the leak is what is tested
		must(t, f.Do(ctx, func(ctx context.Context) error {
			inner = ctx //nolint:fatcontext // as above
			return nil
		}))
		// The inner hold is over, the outer one is not.
		return f.Do(inner, func(context.Context) error { return nil })
	}))
	for name, leaked := range map[string]context.Context{"outer": outer, "inner": inner} {
		if f.Held(leaked) {
			t.Errorf("the leaked %s context still holds the fence", name)
		}
		var done <-chan struct{}
		must(t, f.Do(t.Context(), func(context.Context) error {
			done = begin(t, func(context.Context) error {
				return f.Do(leaked, func(ctx context.Context) error {
					if !f.Held(ctx) {
						t.Error("a leaked context locks, but does not hold")
					}
					return nil
				})
			})
			waits(t, "who uses the leaked "+name+" context", done)
			return nil
		}))
		happens(t, "the turn of the leaked "+name+" context", done)
	}
}

func TestAHoldOfOneFenceIsNoneOfAnother(t *testing.T) {
	t.Parallel()
	f, g := engine.NewFence(), engine.NewFence()
	must(t, f.Do(t.Context(), func(ctx context.Context) error {
		if !f.Held(ctx) || g.Held(ctx) || f.Held(t.Context()) {
			t.Error("the wrong fence is held")
		}
		return g.Do(ctx, func(ctx context.Context) error {
			if !f.Held(ctx) || !g.Held(ctx) {
				t.Error("one of two fences is not held")
			}
			return nil
		})
	}))
}

func TestWhoWaitsForTheFenceGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	f := engine.NewFence()
	reason := errors.New("changed my mind")
	never := func(context.Context) error {
		t.Error("the body ran")
		return nil
	}
	must(t, f.Do(t.Context(), func(context.Context) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := begin(t, func(context.Context) error {
			if err := f.Do(ctx, never); !errors.Is(err, reason) {
				t.Errorf("got %v", err)
			}
			return nil
		})
		waits(t, "the second", done)
		cancel(reason)
		happens(t, "giving up", done)
		if err := f.Do(ctx, never); !errors.Is(err, reason) {
			t.Errorf("a context that is done already: %v", err)
		}
		return nil
	}))
	ctx, cancel := context.WithCancelCause(t.Context())
	must(t, f.Do(ctx, func(ctx context.Context) error {
		cancel(reason)
		entered := false
		err := f.Do(ctx, func(context.Context) error { entered = true; return nil })
		if !entered {
			t.Errorf("a record was split by its cancellation: %v", err)
		}
		return err
	}))
	if err := f.Do(ctx, never); !errors.Is(err, reason) {
		t.Errorf("a free fence, and a context that is done: %v", err)
	}
}

func TestAPanicReleasesTheFence(t *testing.T) {
	t.Parallel()
	f := engine.NewFence()
	func() {
		defer func() { _ = recover() }()
		_ = f.Do(t.Context(), func(ctx context.Context) error {
			return f.Do(ctx, func(context.Context) error { panic("oh") })
		})
	}()
	must(t, f.Do(t.Context(), func(context.Context) error { return nil }))
}

// Leaked contexts, shared contexts and fresh ones add to one number, which the race
// detector watches.
func TestGoroutinesThatShareAHoldTakeTurns(t *testing.T) {
	t.Parallel()
	f := engine.NewFence()
	n := 0
	add := func(context.Context) error { n++; return nil }
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range rounds() {
				_ = f.Do(t.Context(), func(ctx context.Context) error {
					n++
					for range 2 {
						all.Go(func() { _ = f.Do(ctx, add) })
					}
					return f.Do(ctx, add)
				})
			}
		})
	}
	all.Wait()
	equal(t, "sum", n, 4*4*rounds())
}

func TestDoWaitsForTheGoroutineWhoseTurnItIs(t *testing.T) {
	t.Parallel()
	f := engine.NewFence()
	inside, proceed := make(chan struct{}), make(chan struct{})
	through := begin(t, func(ctx context.Context) error {
		return f.Do(ctx, func(ctx context.Context) error {
			begin(t, func(context.Context) error {
				return f.Do(ctx, func(context.Context) error {
					close(inside)
					<-proceed
					return nil
				})
			})
			<-inside
			return nil
		})
	})
	happens(t, "the turn of the goroutine", inside)
	waits(t, "Do", through)
	another := begin(t, func(ctx context.Context) error {
		return f.Do(ctx, func(context.Context) error { return nil })
	})
	waits(t, "another", another)
	close(proceed)
	happens(t, "the end of Do", through)
	happens(t, "the turn of another", another)
}

func TestThoseWhoWaitAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := engine.NewFence()
		var order []int
		var all sync.WaitGroup
		must(t, f.Do(t.Context(), func(context.Context) error {
			for i := range 10 {
				all.Go(func() {
					must(t, f.Do(t.Context(), func(context.Context) error {
						order = append(order, i)
						return nil
					}))
				})
				synctest.Wait()
			}
			return nil
		}))
		all.Wait()
		equal(t, "order", order, numbers(10))
	})
}

// The turn comes and the context ends at the same moment: whichever the waiting one sees,
// the next in line is not forgotten.
func TestWhoGivesUpWhenItsTurnComesPassesItOn(t *testing.T) {
	t.Parallel()
	for range rounds() {
		synctest.Test(t, func(t *testing.T) {
			f := engine.NewFence()
			ctx, cancel := context.WithCancel(t.Context())
			entered := 0
			enter := func(context.Context) error { entered++; return nil }
			var all sync.WaitGroup
			must(t, f.Do(t.Context(), func(context.Context) error {
				all.Go(func() {
					if err := f.Do(ctx, enter); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
				synctest.Wait()
				all.Go(func() { must(t, f.Do(t.Context(), enter)) })
				synctest.Wait()
				cancel()
				return nil
			}))
			all.Wait()
			if entered == 0 {
				t.Error("the second one did not get in")
			}
		})
	}
}
