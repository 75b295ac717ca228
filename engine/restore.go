package engine

import (
	"context"
	"errors"
	"fmt"
)

// Restore brings every registered source back to a retained checkpoint. A source that the
// checkpoint has no state of is left as it is; one that is registered later, under a name
// that the checkpoint has, begins with that state. An unknown id fails with
// [ErrNoCheckpoint] and changes nothing.
//
// A restore is done wholly or not at all. When a source fails, those before it are put
// back to what they were, and the error says so if that fails as well.
//
// From inside a record it does not wait, and what the record reads next is what was
// restored.
func (c *Coordinator) Restore(ctx context.Context, id int64) error {
	cp := c.Get(id)
	if cp == nil {
		// Within a cut ErrInCut is the answer, whatever the id.
		err := c.exclusively(ctx, func(context.Context) error { return ErrNoCheckpoint })
		return fmt.Errorf("restore %d: %w", id, err)
	}
	return c.Adopt(ctx, cp)
}

// Adopt restores a checkpoint as [Coordinator.Restore] does, wherever it comes from: one
// that is no longer retained, that of another coordinator, or one made of stored entries
// by [NewCheckpoint]. It is not retained, and ids go on as before.
func (c *Coordinator) Adopt(ctx context.Context, cp *Checkpoint) error {
	err := c.exclusively(ctx, func(ctx context.Context) error {
		taken, err := c.replace(ctx, cp)
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.restored = cp.with(taken...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("restore %d: %w", cp.id, err)
	}
	return nil
}

// Restored returns the checkpoint that was restored last, nil before the first restore.
// What windows had in it is seen here and nowhere else, see [Bucket]. Of stored entries it
// keeps what a source made of them, so [Read] wants the source's own type.
func (c *Coordinator) Restored() *Checkpoint {
	if c == nil {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.restored
}

// replace restores all or nothing, and returns what the sources took.
func (c *Coordinator) replace(ctx context.Context, cp *Checkpoint) ([]part, error) {
	var sources []*source
	var parts []part
	for _, s := range c.sources {
		if p, ok := cp.part(s.name); ok {
			sources, parts = append(sources, s), append(parts, p)
		}
	}
	before, err := snapshots(ctx, sources)
	if err != nil {
		return nil, fmt.Errorf("to be able to undo: %w", err)
	}
	done, touched := false, 0
	defer func() {
		if !done && err == nil { // a restore function panicked
			_ = undo(ctx, sources[:touched], before)
		}
	}()
	for i, s := range sources {
		touched = i + 1
		if parts[i], err = s.take(ctx, parts[i]); err != nil {
			return nil, errors.Join(err, undo(ctx, sources[:touched], before))
		}
	}
	done = true
	return parts, nil
}

func undo(ctx context.Context, sources []*source, before []part) error {
	var errs []error
	for i, s := range sources {
		if _, err := s.take(ctx, before[i]); err != nil {
			errs = append(errs, fmt.Errorf("undo: %w", err))
		}
	}
	return errors.Join(errs...)
}
