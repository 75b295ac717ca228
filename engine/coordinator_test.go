package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

func TestItem01_IDsCountFromOneAndBothCanBeRead(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	for want := int64(1); want <= 2; want++ {
		equal(t, "id", trigger(t, c).ID(), want)
	}
	for id := int64(1); id <= 2; id++ {
		if cp := c.Get(id); cp == nil || cp.ID() != id {
			t.Errorf("checkpoint %d is %v", id, cp)
		}
	}
}

// The engine has no incomplete checkpoints: there is nothing to ask for completion.
func TestItem02_WhatTriggerReturnsIsTheLatest(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	before := time.Now()
	for range 3 {
		cp := trigger(t, c)
		if c.Latest() != cp || c.Get(cp.ID()) != cp {
			t.Errorf("checkpoint %d is not the latest", cp.ID())
		}
		if cp.Time().Before(before) || cp.Time().After(time.Now()) {
			t.Errorf("it was taken at %v", cp.Time())
		}
	}
}

func TestItem03_ThereIsNoLatestBeforeTheFirst(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	if c.Latest() != nil || c.Get(1) != nil {
		t.Error("there is a checkpoint before the first trigger")
	}
}

func TestItem04_AcknowledgeAndCompleteChangeNothing(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	for _, id := range []int64{-1, 0, 1, 7} {
		c.Acknowledge(id, "task-1")
		c.Acknowledge(id, "")
		c.Complete(id)
	}
	if c.Latest() != nil {
		t.Error("a checkpoint came from nowhere")
	}
	equal(t, "the first id", trigger(t, c).ID(), 1)
}

func TestItem05_ASnapshotHasOneEntryPerStoreAndSource(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	store[string, int](t, c, "b")
	store[string, int](t, c, "a")
	registerValue(t, c, "offset", new(3))
	cp := trigger(t, c)
	equal(t, "sources", cp.Sources(), []string{"b", "a", "offset"})
}

func TestItem06_NothingRegisteredIsAnEmptyCheckpoint(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	cp := trigger(t, c)
	equal(t, "sources", cp.Sources(), []string{})
	must(t, c.Restore(t.Context(), cp.ID()))
}

func TestItem49_AnUnknownIDIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	s := store[string, int](t, c, "s")
	set(t, s, "a", 1)
	trigger(t, c)
	set(t, s, "a", 2)
	for _, id := range []int64{-1, 0, 2} {
		if err := c.Restore(t.Context(), id); !errors.Is(err, engine.ErrNoCheckpoint) {
			t.Errorf("restore %d: %v", id, err)
		}
	}
	equal(t, "state", contents(t, s), map[string]int{"a": 2})
}

func TestItem50_ARestoredStoreIsReplacedWholly(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	s := store[string, int](t, c, "s")
	set(t, s, "a", 1)
	set(t, s, "b", 1)
	cp := trigger(t, c)
	set(t, s, "a", 2)
	set(t, s, "later", 2)
	must(t, s.Clear(engine.WithKey(t.Context(), "b")))
	must(t, c.Restore(t.Context(), cp.ID()))
	equal(t, "state", contents(t, s), map[string]int{"a": 1, "b": 1})

	set(t, s, "a", 3)
	equal(t, "the checkpoint after a write to what was restored",
		read[map[string]int](t, cp, "s"), map[string]int{"a": 1, "b": 1})
}

func TestItem51_AStoreThatTheCheckpointLacksIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	cp := trigger(t, c)
	s := store[string, int](t, c, "s")
	set(t, s, "a", 1)
	must(t, c.Restore(t.Context(), cp.ID()))
	equal(t, "state", contents(t, s), map[string]int{"a": 1})
}

func TestItem52_TheLastRestoreWins(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	s := store[string, int](t, c, "s")
	for i := range 2 {
		set(t, s, "a", i+1)
		trigger(t, c)
	}
	for _, id := range []int64{1, 2, 1, 2} {
		must(t, c.Restore(t.Context(), id))
		equal(t, "state", contents(t, s), map[string]int{"a": int(id)})
	}
	// What was written after a restore belongs to the next checkpoint, not to that one.
	// Looking at the store in between would hide that it shares what it should not.
	must(t, c.Restore(t.Context(), 2))
	set(t, s, "a", 3)
	cp := trigger(t, c)
	must(t, c.Restore(t.Context(), cp.ID()))
	set(t, s, "a", 4)
	for id := int64(1); id <= 3; id++ {
		equal(t, "the checkpoint", read[map[string]int](t, c.Get(id), "s"), map[string]int{"a": int(id)})
	}
	if cp := c.Restored(); cp.ID() != 3 {
		t.Errorf("restored last: %v", cp)
	}
}

func TestItem53_AStoreRegisteredAfterARestoreBeginsWithItsState(t *testing.T) {
	t.Parallel()
	first := engine.NewCoordinator(nil)
	set(t, store[string, int](t, first, "s"), "a", 7)
	cp := trigger(t, first)

	c := engine.NewCoordinator(nil)
	must(t, c.Adopt(t.Context(), cp))
	s := store[string, int](t, c, "s")
	equal(t, "state", contents(t, s), map[string]int{"a": 7})
	equal(t, "another's state", contents(t, store[string, int](t, c, "other")), map[string]int{})

	if _, err := engine.NewKeyedStore[string, string](t.Context(), engine.NewCoordinator(nil), "s", nil); err != nil {
		t.Fatal(err)
	}
	c = engine.NewCoordinator(nil)
	must(t, c.Adopt(t.Context(), cp))
	if s, err := engine.NewKeyedStore[int, int](t.Context(), c, "s", nil); err == nil || s != nil {
		t.Error("a store of other keys began with this state")
	}
	equal(t, "sources after the refusal", c.Sources(), []string{})
}

// There is no environment in which checkpoints are switched on: a coordinator is a value,
// and nil is none. What switching on twice must not do, making a second coordinator with
// locks of its own, cannot happen.
func TestItem56_WithoutACoordinatorEverythingWorksOnItsOwn(t *testing.T) {
	t.Parallel()
	s := store[string, int](t, nil, "s")
	set(t, s, "a", 1)
	equal(t, "state", contents(t, s), map[string]int{"a": 1})
}

func TestOldCheckpointsAreDropped(t *testing.T) {
	t.Parallel()
	for retain, want := range map[int]int{-1: engine.DefaultRetain, 0: engine.DefaultRetain, 1: 1, 3: 3} {
		t.Run(fmt.Sprintf("retain %d", retain), func(t *testing.T) {
			t.Parallel()
			c := engine.NewCoordinator(&engine.Options{Retain: retain})
			const triggered = 25
			for range triggered {
				trigger(t, c)
			}
			for id := int64(1); id <= triggered; id++ {
				if kept := c.Get(id) != nil; kept != (id > int64(triggered-want)) {
					t.Errorf("checkpoint %d is kept: %v", id, kept)
				}
			}
			if err := c.Restore(t.Context(), 1); !errors.Is(err, engine.ErrNoCheckpoint) {
				t.Errorf("restore of a dropped one: %v", err)
			}
		})
	}
}

// registerValue registers a variable as a snapshot source.
func registerValue[V any](t *testing.T, c *engine.Coordinator, name string, value *V) {
	t.Helper()
	must(t, engine.Register(t.Context(), c, name,
		func(context.Context) (V, error) { return *value, nil },
		func(_ context.Context, v V) error {
			*value = v
			return nil
		}))
}
