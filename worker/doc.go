// Package worker connects the state of a program to a checkpointd server: it brings the state
// back at the start, hears of checkpoints, takes the cut and hands it in. The whole program:
//
//	package main
//
//	import (
//		"context"
//		"log"
//		"maps"
//		"sync"
//
//		"github.com/checkpointd/checkpointd/worker"
//	)
//
//	func main() {
//		var lock sync.Mutex
//		counts := map[string]int{}
//		w := worker.Worker{URL: "http://127.0.0.1:8080", TaskID: "task-1"}
//		w.Restore = func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
//			return worker.IntoMap(counts, entries)
//		}
//		w.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
//			lock.Lock()
//			defer lock.Unlock()
//			return worker.FromMap(maps.Clone(counts)), nil
//		}
//		w.Work = func(ctx context.Context) error { return count(ctx, &lock, counts) } // yours
//		log.Fatal(w.Run(context.Background()))
//	}
//
// Something else triggers: the job's schedule, a cron job, or a call of POST /checkpoints.
//
// # The cut
//
// What Snapshot has got hold of when it returns is the task's part of the cut. Only this needs
// the state's lock; the entries are encoded and sent while the state changes again. They are
// handed in as an iterator and not through a writer because an upload may have to be
// repeated, and a second call of Snapshot would take another cut: the checkpoint might have
// the first while the worker, or the transaction it prepared, is about the second.
//
// # Fleets
//
// Without a RecoveryKey a worker comes back by itself, to its part of the latest completed
// checkpoint, while the others go on. That is right where tasks do not depend on each other.
// Where they do, whatever watches over the fleet ends all workers when one ends and starts
// them with a new RecoveryKey, the same for all: what was pending is superseded, all get the
// same checkpoint, and messages of former lives are refused, also of those that are only cut
// off. Run ends with CodeStaleEpoch in a worker that went through a recovery of the others.
//
// # Sinks that commit in two phases
//
// Prepare in Snapshot, under the checkpoint's ID, what was written since the cut before, and
// commit in OnCompleted everything that was prepared under this ID or a lower one. An abort
// rolls nothing back: what was written is in the state, too, and the next checkpoint that
// completes covers both. A worker may die before it is told, so Restore settles the rest:
// commit what was prepared under the ID that it is given or a lower one, and roll back what
// is above.
//
// # What happens when something fails
//
// Calls that get no answer, or one that says that the store is away, are repeated with growing
// pauses, uploads until their checkpoint has ended. A restore goes on at the byte where its
// connection broke. A snapshot that cannot be taken or is refused declines the checkpoint,
// which ends it for all tasks with the reason. While there is no event stream (a proxy may
// refuse or hold it), the worker polls; it needs no setting for that.
//
// The package imports the standard library only. Package checkpointtest has a server for tests.
package worker
