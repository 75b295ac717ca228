package engine_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/checkpointd/checkpointd/engine"
)

func TestALoaderMakesWhatNewCheckpointMakesOfEntries(t *testing.T) {
	t.Parallel()
	parts := map[string][]engine.Entry{
		"early": {{Key: "a", Value: json.RawMessage(`[1]`)}, {Key: "b", Value: json.RawMessage(`[2]`)}},
		"late":  {{Key: "c", Value: json.RawMessage(`[3]`)}},
		"empty": nil,
		"n":     {{Value: json.RawMessage(`7`)}},
	}
	clone := &engine.StoreOptions[[]int]{Clone: slices.Clone[[]int]}
	for name, load := range map[string]func(c *engine.Coordinator, at time.Time) *engine.Checkpoint{
		"at once": func(_ *engine.Coordinator, at time.Time) *engine.Checkpoint {
			return engine.NewCheckpoint(7, at, parts)
		},
		"one by one": func(c *engine.Coordinator, at time.Time) *engine.Checkpoint {
			l := c.NewLoader(7, at)
			for name, entries := range parts {
				must(t, l.Add(name))
				for _, e := range entries {
					must(t, l.Add(name, e))
				}
			}
			cp, err := l.Checkpoint()
			must(t, err)
			return cp
		},
	} {
		c := engine.NewCoordinator(nil)
		early, err := engine.NewKeyedStore[string](t.Context(), c, "early", clone)
		must(t, err)
		empty := store[string, int](t, c, "empty")
		set(t, empty, "x", 1)
		n := 0
		registerValue(t, c, "n", &n)
		at := time.UnixMilli(1234)
		cp := load(c, at)
		equal(t, name+": sources", cp.Sources(), []string{"early", "empty", "late", "n"})
		for _, source := range cp.Sources() {
			equal(t, name+": the entries of "+source, entries(t, cp, source), parts[source])
		}
		must(t, c.Adopt(t.Context(), cp))
		late := store[string, []int](t, c, "late")
		equal(t, name+": early", contents(t, early), map[string][]int{"a": {1}, "b": {2}})
		equal(t, name+": late", contents(t, late), map[string][]int{"c": {3}})
		equal(t, name+": empty", contents(t, empty), map[string]int{})
		equal(t, name+": n", n, 7)

		restored := c.Restored()
		equal(t, name+": id", restored.ID(), 7)
		equal(t, name+": time", restored.Time(), at)
		read[map[string][]int](t, restored, "early")["a"][0] = 9
		equal(t, name+": what a reader does to its copy", read[map[string][]int](t, restored, "early"), map[string][]int{"a": {1}, "b": {2}})
		for _, source := range cp.Sources() {
			equal(t, name+": what was restored of "+source, entries(t, restored, source), parts[source])
			equal(t, name+": keyed", restored.Keyed(source), source != "n")
		}
	}
}

func TestALoaderRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	store[int, int](t, c, "s")
	registerValue(t, c, "n", new(5))
	one := json.RawMessage(`1`)
	for want, parts := range map[string]map[string][]engine.Entry{
		`load "s": decode the key "x"`:             {"s": {{Key: "x", Value: one}}},
		`load "s": decode: the key "1" is there t`: {"s": {{Key: "1", Value: one}, {Key: "1", Value: one}}},
		`load "n": decode: want a single entry`:    {"n": nil},
		`load "n": decode: want a single entry w`:  {"n": {{Value: one}, {Value: one}}},
		`load "n": decode: json`:                   {"n": {{Value: json.RawMessage(`"x"`)}}},
	} {
		l := c.NewLoader(1, time.Time{})
		var err error
		for name, entries := range parts {
			err = l.Add(name, entries...)
		}
		if err == nil {
			_, err = l.Checkpoint()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// A state that was brought from elsewhere is there once: as entries until its source is
// registered, and as what the source made of them then.
func TestEntriesAreNotKeptBesideWhatASourceMadeOfThem(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(c *engine.Coordinator, e engine.Entry) *engine.Checkpoint{
		"at once": func(_ *engine.Coordinator, e engine.Entry) *engine.Checkpoint {
			return engine.NewCheckpoint(1, time.Time{}, map[string][]engine.Entry{"s": {e}})
		},
		"one by one": func(c *engine.Coordinator, e engine.Entry) *engine.Checkpoint {
			l := c.NewLoader(1, time.Time{})
			must(t, l.Add("s", e))
			cp, err := l.Checkpoint()
			must(t, err)
			return cp
		},
	} {
		for _, early := range []bool{true, false} {
			c := engine.NewCoordinator(nil)
			if early {
				store[string, string](t, c, "s")
			}
			text := json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", 1000)))
			kept := weak.Make(&text[0])
			must(t, c.Adopt(t.Context(), load(c, engine.Entry{Key: "k", Value: text})))
			runtime.GC()
			if gone := kept.Value() == nil; gone != early {
				t.Errorf("%s, registered early %v: the entry is gone %v", name, early, gone)
			}
			if !early {
				store[string, string](t, c, "s")
			}
			runtime.GC()
			if kept.Value() != nil {
				t.Errorf("%s, registered early %v: the entry is kept", name, early)
			}
			runtime.KeepAlive(c)
		}
	}
}
