package engine_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/engine"
)

func TestItem54_WithoutACurrentKeyNothingIsReadOrWritten(t *testing.T) {
	t.Parallel()
	s := store[string, int](t, nil, "s")
	for name, ctx := range map[string]context.Context{
		"no key":              t.Context(),
		"a key of other type": engine.WithKey(t.Context(), 1),
	} {
		_, err := s.Value(ctx)
		for _, err := range []error{
			err, s.Set(ctx, 1), s.Clear(ctx),
			s.Update(ctx, func(int) int { t.Error("it was updated"); return 1 }),
		} {
			if !errors.Is(err, engine.ErrNoKey) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	equal(t, "state", contents(t, s), map[string]int{})
}

// Go has no null that would fit every V, so that removing has a method of its own, and
// setting the zero value keeps it.
func TestItem54_ClearRemovesAndKeysAreApart(t *testing.T) {
	t.Parallel()
	s, err := engine.NewKeyedStore[string, int](t.Context(), nil, "s", &engine.StoreOptions[int]{Default: 40})
	must(t, err)
	a, b := engine.WithKey(t.Context(), "a"), engine.WithKey(t.Context(), "b")
	value := func(ctx context.Context) int {
		v, err := s.Value(ctx)
		must(t, err)
		return v
	}
	equal(t, "the default", value(a), 40)
	must(t, s.Update(a, func(n int) int { return n + 2 }))
	must(t, s.Set(b, 0))
	equal(t, "a", value(a), 42)
	equal(t, "b", value(b), 0)
	must(t, s.Clear(a))
	must(t, s.Clear(a))
	equal(t, "a after Clear", value(a), 40)
	n, err := s.Len(t.Context())
	must(t, err)
	equal(t, "keys", n, 1)
}

func TestWhatAllYieldsDoesNotChangeMeanwhile(t *testing.T) {
	t.Parallel()
	s := store[int, int](t, nil, "s")
	for key := range 100 {
		set(t, s, key, 0)
	}
	all, err := s.All(t.Context())
	must(t, err)
	set(t, s, 5, -1)
	equal(t, "the value of before", maps.Collect(all)[5], 0)

	writing := begin(t, func(context.Context) error {
		for round := 1; round <= rounds(); round++ {
			set(t, s, round%100, round)
			must(t, s.Clear(engine.WithKey(t.Context(), (round+50)%100)))
		}
		return nil
	})
	for range rounds() / 10 {
		all, err := s.All(t.Context())
		must(t, err)
		first := maps.Collect(all)
		equal(t, "a second look", maps.Collect(all), first)
	}
	happens(t, "writing", writing)
	for range all {
		break // who has seen enough may stop
	}
}

// A store and its checkpoints are compared with maps that are copied.
func TestAStoreIsAMapWhoseCheckpointsAreCopies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		c := engine.NewCoordinator(nil)
		s := store[int16, int](t, c, "s")
		model := map[int16]int{}
		copies := map[int64]map[int16]int{}
		keys := rapid.Int16Range(0, int16(rapid.SampledFrom([]int{3, 100, 5000}).Draw(r, "keys")))
		r.Repeat(map[string]func(*rapid.T){
			"set": func(r *rapid.T) {
				for range 20 {
					key := keys.Draw(r, "key")
					model[key] = rapid.Int().Draw(r, "value")
					set(t, s, key, model[key])
				}
			},
			"clear": func(r *rapid.T) {
				for range 10 {
					key := keys.Draw(r, "key")
					delete(model, key)
					must(t, s.Clear(engine.WithKey(t.Context(), key)))
				}
			},
			"trigger": func(*rapid.T) {
				cp := trigger(t, c)
				copies[cp.ID()] = copyOf(model)
			},
			"restore": func(r *rapid.T) {
				latest := c.Latest()
				if latest == nil {
					r.Skip("none")
				}
				oldest := max(1, latest.ID()-engine.DefaultRetain+1)
				cp := c.Get(rapid.Int64Range(oldest, latest.ID()).Draw(r, "id"))
				must(t, c.Restore(t.Context(), cp.ID()))
				model = copyOf(copies[cp.ID()])
			},
			"": func(r *rapid.T) {
				same(r, contents(t, s), model)
				if n, err := s.Len(t.Context()); err != nil || n != len(model) {
					r.Fatalf("%d keys, want %d", n, len(model))
				}
				for id, want := range copies {
					if cp := c.Get(id); cp != nil {
						same(r, read[map[int16]int](t, cp, "s"), want)
					}
				}
			},
		})
	})
}

func copyOf(m map[int16]int) map[int16]int {
	c := map[int16]int{}
	maps.Copy(c, m)
	return c
}

func same(r *rapid.T, got, want map[int16]int) {
	r.Helper()
	if len(got) != len(want) {
		r.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for key, value := range want {
		if got[key] != value {
			r.Fatalf("%d is %d, want %d", key, got[key], value)
		}
	}
}
