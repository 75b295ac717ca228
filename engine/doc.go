// Package engine is a streaming engine inside your process whose state can be brought
// back: it takes a consistent cut of all state while records keep flowing, and returns to
// it. It needs no server; package worker connects it to one.
//
//	c := engine.NewCoordinator(nil)
//	counts, err := engine.NewKeyedStore[string, int](ctx, c, "counts", nil)
//	…
//	count := func(ctx context.Context) error {
//		return counts.Update(ctx, func(n int) int { return n + 1 })
//	}
//	err = count(engine.WithKey(ctx, "apple"))
//	cp, err := c.Trigger(ctx)        // {apple: 1}
//	err = count(engine.WithKey(ctx, "apple"))
//	err = c.Restore(ctx, cp.ID())    // {apple: 1} again
//
// # One cut
//
// A [Coordinator] keeps a [Fence], the lock that every record, every write to a
// [KeyedStore] and every checkpoint takes. A checkpoint therefore lies between two
// records: of what one record writes, it has everything or nothing. The fence is held for
// work in memory only, never while anything waits for a source or a queue.
//
// Whoever holds the fence may write, trigger and restore: holding it travels in the
// context, and there is no other way in which it could be entered again. Always pass on
// the context you were given last.
//
// # What a checkpoint costs
//
// Freezing a [KeyedStore] takes no longer for a million keys than for one: a checkpoint
// shares what it has with the store, and a later write copies the few nodes on its way.
// Encoding happens when a checkpoint's [Checkpoint.Entries] are read, outside of the fence.
//
// # What was decided
//
// Where the model this follows, the in-memory engine of a Java library, leaves a choice,
// or where Go asks for another one:
//
//   - The current key is in the context ([WithKey]), not in the store: it needs no lock,
//     and two goroutines cannot change it under each other.
//   - Reads take the fence too, or they would see half a record.
//   - Values are shared by reference, as in the model, unless the store has a Clone
//     function ([StoreOptions]). Removing is Clear; the zero value is a value.
//   - There is no environment in which checkpoints are enabled: a coordinator is a value,
//     and a nil one is none. A [Checkpoint] is complete, or it does not exist.
//   - Old checkpoints are dropped ([Options].Retain), or memory would grow for ever.
//   - A trigger or restore inside a record is allowed, and sees what the record has written
//     so far: only the author of the record can know that this is wanted. One inside a
//     snapshot or restore function is refused ([ErrInCut]).
//   - A name is registered once ([ErrDuplicate]). Registering after a restore hands over
//     what was restored under the name. [Coordinator.Unregister] takes a source away.
//   - A failing snapshot function means no checkpoint, and its id is not used up. A failing
//     restore function undoes the whole restore. A panic passes through, and leaves the
//     fence free, the state as it was, and the coordinator usable.
//   - Ids belong to a coordinator: they begin at 1 with it, whatever it adopts.
//   - Acknowledge and Complete take any id and any task, blank ones too, and do nothing.
//     What else the model leaves open (required acknowledgements, time limits, cleanup,
//     versions, draining) is about checkpoints of many processes: there is none here.
package engine
