package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/checkpointd/checkpointd/engine"
)

func TestItem07_ACutHasBothWritesOfARecordOrNeither(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	a, b := store[string, int](t, c, "a"), store[string, int](t, c, "b")
	var over atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for n := 1; !over.Load(); n++ {
			must(t, c.Fence().Do(engine.WithKey(t.Context(), "k"), func(ctx context.Context) error {
				must(t, a.Set(ctx, n))
				return b.Set(ctx, n)
			}))
		}
	})
	for range rounds() {
		cp := trigger(t, c)
		equal(t, "b, which is written after a", read[map[string]int](t, cp, "b"), read[map[string]int](t, cp, "a"))
	}
	over.Store(true)
	all.Wait()
}

func TestItem08_WritersAndTriggersDoNotTearAMap(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	s := store[int, int](t, c, "s")
	var over atomic.Bool
	var all sync.WaitGroup
	const writers, keys = 4, 50
	for w := range writers {
		all.Go(func() {
			// A writer's keys are written in ascending order, then removed in that order:
			// what a cut has of them is without a hole.
			for !over.Load() {
				for i := range keys {
					set(t, s, w*keys+i, i)
				}
				for i := range keys {
					must(t, s.Clear(engine.WithKey(t.Context(), w*keys+i)))
				}
			}
		})
	}
	for range rounds() {
		state := read[map[int]int](t, trigger(t, c), "s")
		for w := range writers {
			var has []int
			for i := range keys {
				if value, ok := state[w*keys+i]; ok {
					has = append(has, value)
				}
			}
			if n := len(has); n > 0 && (has[n-1]-has[0] != n-1 || has[0] != 0 && has[n-1] != keys-1) {
				t.Fatalf("a writer's keys in a cut: %v", has)
			}
		}
	}
	over.Store(true)
	all.Wait()
}

func TestItem09_LaterWritesDoNotShowInACheckpoint(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	s := store[string, int](t, c, "s")
	want := map[string]int{}
	for i := range 1000 {
		key := fmt.Sprint(i)
		want[key] = i
		set(t, s, key, i)
	}
	cp := trigger(t, c)
	for i := range 1000 {
		set(t, s, fmt.Sprint(i), -1)
		set(t, s, fmt.Sprint("later", i), i)
		if i%2 == 0 {
			must(t, s.Clear(engine.WithKey(t.Context(), fmt.Sprint(i))))
		}
	}
	equal(t, "the checkpoint", read[map[string]int](t, cp, "s"), want)
}

func TestItem10_AValueChangedInPlaceChangesInTheCheckpointUnlessItIsCloned(t *testing.T) {
	t.Parallel()
	for name, clone := range map[string]func([]int) []int{"shared": nil, "cloned": slices.Clone[[]int]} {
		c := engine.NewCoordinator(nil)
		s, err := engine.NewKeyedStore[string, []int](t.Context(), c, "s",
			&engine.StoreOptions[[]int]{Clone: clone, Default: []int{0}})
		must(t, err)
		key := engine.WithKey(t.Context(), "k")
		value := []int{1}
		must(t, s.Set(key, value))
		cp := trigger(t, c)
		value[0] = 2
		got, err := s.Value(key)
		must(t, err)
		got[0]++
		must(t, s.Update(key, func(v []int) []int { v[0]++; return v }))
		initial, err := s.Value(engine.WithKey(t.Context(), "absent"))
		must(t, err)
		initial[0] = 9
		initial, err = s.Value(engine.WithKey(t.Context(), "absent"))
		must(t, err)

		want, wantInitial := map[string][]int{"k": {4}}, []int{9} // the documented limit
		if clone != nil {
			want, wantInitial = map[string][]int{"k": {1}}, []int{0}
		}
		state := read[map[string][]int](t, cp, "s")
		equal(t, name, state, want)
		equal(t, name+" default", initial, wantInitial)
		if clone != nil {
			state["k"][0] = 9
			equal(t, "what a reader does to its copy", read[map[string][]int](t, cp, "s"), want)
		}
	}
}

func TestItem11_NoRegistrationIsLostAmongTriggers(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	var registering, triggering sync.WaitGroup
	var over atomic.Bool
	for thread := range 8 {
		registering.Go(func() {
			for i := range 200 {
				store[string, int](t, c, fmt.Sprintf("store-%d-%d", thread, i))
			}
		})
	}
	for range 6 {
		triggering.Go(func() {
			for !over.Load() {
				trigger(t, c)
			}
		})
	}
	registering.Wait()
	over.Store(true)
	triggering.Wait()
	equal(t, "registered", len(c.Sources()), 1600)
	equal(t, "in the final checkpoint", len(trigger(t, c).Sources()), 1600)
}

func TestItem12_SourcesAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	store[string, int](t, c, "first")
	registering := begin(t, func(context.Context) error {
		for i := range rounds() {
			store[string, int](t, c, fmt.Sprint(i))
		}
		return nil
	})
	for range rounds() {
		names := c.Sources()
		names[0] = "changed"
		equal(t, "the first", c.Sources()[0], "first")
	}
	happens(t, "registering", registering)
}

func TestConcurrentTriggersGetIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(&engine.Options{Retain: 4 * rounds()})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range rounds() {
				trigger(t, c)
			}
		})
	}
	all.Wait()
	equal(t, "the latest", c.Latest().ID(), int64(4*rounds()))
	for id := int64(1); id <= int64(4*rounds()); id++ {
		if c.Get(id) == nil {
			t.Fatalf("there is no checkpoint %d", id)
		}
	}
}
