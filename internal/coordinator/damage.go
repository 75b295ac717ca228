package coordinator

import (
	"context"
	"errors"
)

// DamageCall names a completed checkpoint and what it lacks.
type DamageCall struct {
	Job string
	ID  int64
	// What is the beginning of a sentence that goes on with "is missing": the part of a task,
	// or the shared state.
	What string
	// By is who found it, for the events; "" where that is not known.
	By string
}

// openUndamaged opens a restore. A checkpoint that turns out to be damaged is marked; where
// the latest was asked for, the next that is whole is opened in its place.
func (c *Coordinator) openUndamaged(ctx context.Context, wish RestoreCall) (RestoreSource, error) {
	open := func(wish RestoreCall) (RestoreSource, error) {
		wish.Token = newToken()
		return call(c, "open_restore", func() (RestoreSource, error) { return c.store.OpenRestore(ctx, wish) })
	}
	source, err := open(wish)
	for marked := int64(-1); ; {
		for wish.ID == Latest && CodeOf(err) == CodeCheckpointDeleted {
			source, err = open(wish) // it was deleted while it was opened, so that another is the latest now
		}
		damage, damaged := damageOf(err)
		if !damaged || *damage.CheckpointID == marked {
			return source, err
		}
		marked = *damage.CheckpointID
		// A mark takes a checkpoint away from every fleet, so what may have been a passing
		// fault of the store is looked at once more.
		again := wish
		again.ID, again.LeaseMs = marked, 0
		if second, still := open(again); CodeOf(still) != CodeSnapshotDamaged {
			if still == nil {
				_ = second.Close() // it was for a look only
			}
			return source, err
		}
		c.markDamaged(ctx, wish.Job, damage)
		if wish.ID != Latest {
			return source, err
		}
		source, err = open(wish)
	}
}

// damageOf tells whether err names a damaged checkpoint.
func damageOf(err error) (damage *Error, damaged bool) {
	e, ok := errors.AsType[*Error](err)
	return e, ok && e.Code == CodeSnapshotDamaged && e.CheckpointID != nil
}

// markDamaged keeps others from what was found to be damaged. Failing to leaves that to
// whoever finds it next.
func (c *Coordinator) markDamaged(ctx context.Context, job string, damage *Error) {
	c.observer.Damaged(job, *damage.CheckpointID, damage)
	_, err := call(c, "mark_damaged", func() (struct{}, error) {
		return struct{}{}, c.store.MarkDamaged(ctx, DamageCall{Job: job, ID: *damage.CheckpointID, What: damage.Damage, By: byOf(ctx)})
	})
	if err != nil {
		c.observer.BackgroundFailed("mark_damaged", err)
	}
}

// inspectLatest marks what is found damaged before a fleet is told to go on from it. All
// workers of a fleet ask for its recovery at about the same time, so they share a look. What
// else keeps it from looking, the recovery itself will meet.
func (c *Coordinator) inspectLatest(ctx context.Context, job string) {
	look, _ := c.looks.LoadOrStore(job, new(freshRead[struct{}]))
	shared := look.(*freshRead[struct{}]) //nolint:forcetypeassert // Nothing else is in it.
	_, _ = shared.get(ctx, func(ctx context.Context) (struct{}, error) {
		defer c.looks.CompareAndDelete(job, look)
		return struct{}{}, c.look(ctx, Ref{Job: job, ID: Latest})
	})
}

// look opens a checkpoint only to see, and mark, whether it is damaged.
func (c *Coordinator) look(ctx context.Context, ref Ref) error {
	source, err := c.openUndamaged(ctx, RestoreCall{Ref: ref})
	if err != nil {
		return err
	}
	return source.Close()
}
