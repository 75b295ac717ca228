package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

type position struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// entries is what a checkpoint gives to be stored elsewhere.
func entries(t *testing.T, cp *engine.Checkpoint, source string) []engine.Entry {
	t.Helper()
	var all []engine.Entry
	for e, err := range cp.Entries(source) {
		must(t, err)
		all = append(all, e)
	}
	return all
}

func TestACheckpointThatWasStoredElsewhereIsRestored(t *testing.T) {
	t.Parallel()
	first := engine.NewCoordinator(nil)
	where := position{"a.txt", 7}
	registerValue(t, first, "position", &where)
	set(t, store[string, int](t, first, "counts"), "b", 2)
	counts := store[string, int](t, first, "more")
	set(t, counts, "b", 2)
	set(t, counts, "a", 1)
	numbers := store[int, string](t, first, "numbers")
	set(t, numbers, -1, "x")
	set(t, numbers, 20, "y")
	pairs := store[position, bool](t, first, "pairs")
	set(t, pairs, where, true)
	hosts := store[netip.Addr, int](t, first, "hosts")
	set(t, hosts, netip.MustParseAddr("127.0.0.1"), 1)
	cp := trigger(t, first)

	equal(t, "a value's entries", entries(t, cp, "position"), []engine.Entry{{Value: json.RawMessage(`{"file":"a.txt","line":7}`)}})
	equal(t, "a store's entries", entries(t, cp, "more"), []engine.Entry{{Key: "a", Value: json.RawMessage(`1`)}, {Key: "b", Value: json.RawMessage(`2`)}})
	equal(t, "keys that are numbers", entries(t, cp, "numbers"), []engine.Entry{{Key: "-1", Value: json.RawMessage(`"x"`)}, {Key: "20", Value: json.RawMessage(`"y"`)}})
	equal(t, "keys that are structs", entries(t, cp, "pairs"), []engine.Entry{{Key: `{"file":"a.txt","line":7}`, Value: json.RawMessage(`true`)}})
	equal(t, "keys that are text", entries(t, cp, "hosts"), []engine.Entry{{Key: "127.0.0.1", Value: json.RawMessage(`1`)}})
	equal(t, "an unknown source's entries", entries(t, cp, "x"), nil)

	parts := map[string][]engine.Entry{}
	for _, name := range cp.Sources() {
		parts[name] = entries(t, cp, name)
	}
	at := time.UnixMilli(1234)
	kept := engine.NewCheckpoint(41, at, parts)
	equal(t, "id", kept.ID(), 41)
	equal(t, "time", kept.Time(), at)
	for _, name := range cp.Sources() {
		equal(t, name+" as stored", entries(t, kept, name), entries(t, cp, name))
	}
	equal(t, "a stored value", read[position](t, kept, "position"), where)
	equal(t, "a stored store", read[map[int]string](t, kept, "numbers"), map[int]string{-1: "x", 20: "y"})

	c := engine.NewCoordinator(nil)
	early := store[string, int](t, c, "more")
	must(t, c.Adopt(t.Context(), kept))
	var back position
	registerValue(t, c, "position", &back)
	equal(t, "a value", back, where)
	equal(t, "a store from before", contents(t, early), map[string]int{"a": 1, "b": 2})
	equal(t, "numbers", contents(t, store[int, string](t, c, "numbers")), map[int]string{-1: "x", 20: "y"})
	equal(t, "pairs", contents(t, store[position, bool](t, c, "pairs")), map[position]bool{where: true})
	equal(t, "hosts", len(contents(t, store[netip.Addr, int](t, c, "hosts"))), 1)
	equal(t, "the next id", trigger(t, c).ID(), 1)
}

func TestEntriesThatDoNotFitAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string]map[string][]engine.Entry{
		"a key of other type":   {"s": {{Key: "x", Value: json.RawMessage(`1`)}}},
		"a value of other type": {"s": {{Key: "1", Value: json.RawMessage(`"x"`)}}},
		"no JSON":               {"s": {{Key: "1", Value: json.RawMessage(`{`)}}},
		"a store for a value":   {"n": {{Key: "1", Value: json.RawMessage(`1`)}}},
		"nothing for a value":   {"n": nil},
		"a value of wrong type": {"n": {{Key: "", Value: json.RawMessage(`"x"`)}}},
	} {
		c := engine.NewCoordinator(nil)
		n := 5
		s := store[int, int](t, c, "s")
		registerValue(t, c, "n", &n)
		set(t, s, 1, 5)
		if err := c.Adopt(t.Context(), engine.NewCheckpoint(1, time.Now(), parts)); err == nil {
			t.Errorf("%s was accepted", name)
		}
		equal(t, "n after "+name, n, 5)
		equal(t, "s after "+name, contents(t, s), map[int]int{1: 5})
	}
}

func TestReadingWhatIsNotThereSaysSo(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	registerValue(t, c, "n", new(5))
	cp := trigger(t, c)
	if _, err := engine.Read[int](cp, "x"); !errors.Is(err, engine.ErrNoSource) {
		t.Errorf("an unknown source: %v", err)
	}
	_, err := engine.Read[string](cp, "n")
	if err == nil {
		t.Fatal("an int was read as a string")
	}
	equal(t, "error", err.Error(), `read "n" of checkpoint 1: it is a int, not a string`)
}

func TestWhatHasNoJSONFailsWhenItIsEncodedNotAtTheCut(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	registerValue(t, c, "value", new(func() {}))
	set(t, store[string, func()](t, c, "store"), "k", func() {})
	set(t, store[complex128, int](t, c, "keys"), 1i, 1)
	set(t, store[sameText, int](t, c, "same"), 1, 1)
	must(t, c.Fence().Do(t.Context(), func(ctx context.Context) error {
		s, err := engine.NewKeyedStore[sameText, int](ctx, c, "twice", nil)
		must(t, err)
		must(t, s.Set(engine.WithKey(ctx, sameText(1)), 1))
		return s.Set(engine.WithKey(ctx, sameText(2)), 1)
	}))
	cp := trigger(t, c)
	for source, want := range map[string]bool{"value": true, "store": true, "keys": true, "same": false, "twice": true} {
		var failed error
		for _, err := range cp.Entries(source) {
			failed = err
		}
		if (failed != nil) != want {
			t.Errorf("%s: %v", source, failed)
		}
	}
}

// sameText spells all of its values alike.
type sameText int

func (sameText) MarshalText() ([]byte, error) { return []byte("same"), nil }
