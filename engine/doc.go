// Package engine is a streaming engine inside your process whose state can be brought
// back: it takes a consistent cut of all state while records keep flowing, and returns to
// it. It needs no server and nothing but the standard library.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"strings"
//
//		"github.com/checkpointd/checkpointd/engine"
//	)
//
//	func main() {
//		ctx := context.Background()
//		c := engine.NewCoordinator(nil)
//		counts, err := engine.NewKeyedStore[string, int](ctx, c, "counts", nil)
//		if err != nil {
//			panic(err)
//		}
//		words := engine.FromSlice(c, strings.Fields("to be or not to be"))
//		byWord := engine.KeyBy(words, func(word string) string { return word })
//		count := func(ctx context.Context, _ string) error {
//			return counts.Update(ctx, func(n int) int { return n + 1 })
//		}
//
//		if err := byWord.Each(ctx, count); err != nil {
//			panic(err)
//		}
//		cp, err := c.Trigger(ctx) // at any time, from any goroutine
//		if err != nil {
//			panic(err)
//		}
//		fmt.Println(engine.Read[map[string]int](cp, "counts")) // map[be:2 not:1 or:1 to:2] <nil>
//	}
//
// Later, c.Restore(ctx, cp.ID()) makes the counts what they were.
//
// # One cut
//
// A [Coordinator] has a [Fence], the lock that each record, each read or write of a
// [KeyedStore] and each checkpoint takes. A checkpoint therefore lies between two records:
// of what one record writes, it has everything or nothing. The fence is held for work in
// memory only, never while anything waits for a source or a queue.
//
// Whoever holds the fence may write, trigger and restore: holding it travels in the
// context. Always pass on the context you were given last; one from outside the fence
// would wait for its own caller.
//
// A source has a lock of its own, [Emitter.Lock], which it may hold while it waits for a
// full queue. The consumer never takes it. So a source that is blocked, by the outside or
// by the queue, holds up no checkpoint, and back-pressure ends in no deadlock.
//
// # What a checkpoint costs
//
// Freezing a [KeyedStore] takes no longer for a million keys than for one: a checkpoint
// shares what it has with the store, and a later write copies the few nodes on its way.
// Encoding happens when [Checkpoint.Entries] are read, outside of the fence. Windows cost
// inside it what listing them does: they share their records, but each result so far is
// taken. A snapshot function of your own costs what it does.
//
// A record costs a fence and a context for its key, each an allocation, and a hash trie is
// slower than a map. docs/engine.md has the measurements, and the tests of the contract.
//
// # Keeping checkpoints elsewhere
//
// [Checkpoint.Entries] gives the state of each source as JSON, [NewCheckpoint] makes a
// checkpoint of such entries, and [Coordinator.Adopt] restores it. It does not matter
// whether stores are registered before or after that. A [Loader] takes entries as they
// arrive, for a state that should not be in memory twice. With a worker.Worker whose Engine
// is the coordinator all of this is done, against a checkpointd server.
//
// # What was decided
//
// This engine follows the one in memory of a Java library. Where that leaves a choice,
// or where Go asks for another one:
//
// Locks and state
//
//   - Go has no lock that its owner can take again; a [Fence] is one, without asking which
//     goroutine it is. A hold ends with its body, so a context that leaks locks anew.
//   - A done context keeps nobody waiting, but once inside it no longer matters: no record
//     is split by its cancellation.
//   - The current key and timestamp are in the context ([WithKey]), not in the store: that
//     needs no lock, and two goroutines cannot change them under each other.
//   - Reads take the fence too, or they would see half a record.
//   - Values are shared by reference unless the store has a Clone function
//     ([StoreOptions]): one that is changed in place changes in checkpoints too.
//   - KeyedStore.Clear removes; setting the zero value keeps it, as Go has no null.
//
// Checkpoints
//
//   - There is no environment in which they are enabled: a coordinator is a value, and a
//     nil one is none. A [Checkpoint] is complete, or it does not exist.
//   - Old ones are dropped ([Options].Retain), or memory would grow for ever.
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
//     The rest of what the model leaves open is about checkpoints of many processes
//     (required acknowledgements, time limits, cleanup, versions, drain timeouts), which
//     are not this package's.
//
// Streams
//
//   - What a source emitted before it failed is processed, and then its failure surfaces
//     ([SourceError]); to drop what is queued would make results a matter of chance.
//     A source begins when its stream is consumed, so that is where all failures surface.
//   - A panic of a source becomes one of its consumer, as with [iter.Pull]: nobody could
//     recover it in a goroutine that is the engine's.
//   - Windows are cut off at the ends of what an int64 holds. To refuse such a record would
//     end the stream for one strange timestamp, and to wrap would put it into any window.
//   - Watermarks and windows are registered when consumption begins, one for each: the
//     watermark of an earlier consumption would make every record late.
//   - A restore may lower a watermark, since it returns to an earlier time.
//   - Timers and windows act when a watermark rises, not while it is high. A source that
//     is read again after a restore closes nothing before it passes the restored point,
//     and gives the results of a run without a restore.
//   - A restore leaves windows and timers alone: records come again and would be counted
//     twice. [Coordinator.Restored] shows what the windows were.
//   - A late record opens its window anew. A purged window is gone, with its trigger, and
//     the end of the input has nothing of it to fire.
//   - The names that were given by number stay registered when the input ends; whoever
//     consumes streams for ever unregisters them.
package engine
