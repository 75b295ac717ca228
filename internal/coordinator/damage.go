package coordinator

import (
	"context"
	"errors"
	"io"
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
		second, still := open(again)
		if still == nil {
			lacks := second.Checkpoint().Damage
			_ = second.Close() // it was for a look only
			if lacks != "" {   // it opens, and is marked for what reading it found: none is whole
				return source, err
			}
			still = errLooksDiffer(err)
		}
		if wish.ID == Latest && CodeOf(still) == CodeCheckpointDeleted {
			source, err = open(wish)
			continue
		}
		if CodeOf(still) != CodeSnapshotDamaged {
			return nil, still
		}
		c.markDamaged(ctx, wish.Job, damage)
		if wish.ID != Latest {
			return source, err
		}
		source, err = open(wish)
	}
}

// errLooksDiffer is for two looks of which one found damage and the other did not: then it is not known.
func errLooksDiffer(found error) error {
	return ErrStoreUnavailable(&Cause{Says: "it has answered the same question in two ways, a moment apart", Err: found})
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
// workers of a fleet ask for its recovery at about the same time, so they share a look. The
// error says that it could not look; what else it meets, the recovery itself will meet, and
// time that ran out over a large checkpoint proves nothing.
func (c *Coordinator) inspectLatest(ctx context.Context, job string) error {
	look, _ := c.looks.LoadOrStore(job, new(freshRead[struct{}]))
	shared := look.(*freshRead[struct{}]) //nolint:forcetypeassert // Nothing else is in it.
	_, err := shared.get(ctx, func(ctx context.Context) (struct{}, error) {
		defer c.looks.CompareAndDelete(job, look)
		return struct{}{}, c.look(ctx, Ref{Job: job, ID: Latest})
	})
	if CodeOf(err) == CodeStoreUnavailable && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// look opens a checkpoint only to see, and mark, whether it is damaged.
func (c *Coordinator) look(ctx context.Context, ref Ref) error {
	source, err := c.openUndamaged(ctx, RestoreCall{Ref: ref})
	if err != nil {
		return err
	}
	return source.Close()
}

// isDamaged tells whether reading all of a part again finds it damaged again. It is the second look at
// bytes; the first one has broken a transfer off.
func (c *Coordinator) isDamaged(ctx context.Context, ref Ref, part ManifestPart) bool {
	wish := RestoreCall{Ref: ref, Shared: part.Shared, Token: newToken(), Tasks: []string{part.TaskID}}
	if part.Shared {
		wish.Tasks = []string{}
	}
	source, err := call(c, "open_restore", func() (RestoreSource, error) { return c.store.OpenRestore(ctx, wish) })
	if err != nil {
		return CodeOf(err) == CodeSnapshotDamaged
	}
	again := &Restore{coordinator: c, source: source, checkpoint: source.Checkpoint(), parts: source.Parts(), ctx: ctx}
	for _, p := range again.parts {
		again.size += p.Bytes
	}
	err = again.writeRange(io.Discard, 0, again.size)
	if failed := source.Close(); failed != nil {
		c.observer.BackgroundFailed("close_restore", failed)
	}
	return CodeOf(err) == CodeSnapshotDamaged
}
