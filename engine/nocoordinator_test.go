package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

func TestItem56_ANilCoordinatorHasNothingAndTakesNoCheckpoint(t *testing.T) {
	t.Parallel()
	var c *engine.Coordinator
	if c.Latest() != nil || c.Get(1) != nil || c.Restored() != nil {
		t.Error("it has a checkpoint")
	}
	equal(t, "sources", c.Sources(), []string{})
	c.Acknowledge(1, "task-1")
	c.Complete(1)
	registerValue(t, c, "n", new(1))
	must(t, c.Unregister(t.Context(), "n"))

	s := store[string, int](t, c, "s")
	must(t, c.Fence().Do(engine.WithKey(t.Context(), "k"), func(ctx context.Context) error {
		return errors.Join(s.Set(ctx, 1), s.Set(ctx, 2))
	}))
	equal(t, "state", contents(t, s), map[string]int{"k": 2})

	cp, err := c.Trigger(t.Context())
	if err == nil || cp != nil {
		t.Errorf("trigger: %v, %v", cp, err)
	}
	loader := c.NewLoader(1, time.Now())
	must(t, loader.Add("n"))
	cp, err = loader.Checkpoint()
	must(t, err)
	if c.Restore(t.Context(), 1) == nil || c.Adopt(t.Context(), cp) == nil {
		t.Error("it was restored")
	}
}
