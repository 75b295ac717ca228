// Package worker connects the state of a program to a checkpointd server: it brings the state
// back at the start, hears of checkpoints, takes the cut and hands it in. The whole program:
//
//	package main
//
//	import (
//		"context"
//		"log"
//		"log/slog"
//		"maps"
//		"sync"
//
//		"github.com/checkpointd/checkpointd/worker"
//	)
//
//	func main() {
//		var lock sync.Mutex
//		counts := map[string]int{}
//		w := worker.Worker{URL: "http://127.0.0.1:8080", TaskID: "task-1", Logger: slog.Default()}
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
// Something else triggers: the job's schedule, a cron job, or a call of POST /checkpoints. Where
// nothing seems to happen, the Logger says why: a server that does not answer is waited for.
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
// What its former life had sent may still arrive, and complete a newer checkpoint than the one
// that this life came back to: who must never fall behind a completed checkpoint recovers.
// Where they do, all workers are ended when one ends and begin again with a RecoveryKey that
// was never used before, the same for all:
//
//	for crash := 1; ; crash++ {
//		key := fmt.Sprintf("%s-%d", began, crash) // began is a time at which nobody else began
//		err := runFleet(ctx, key)
//		if err == nil || ctx.Err() != nil {
//			return err
//		}
//	}
//
// where runFleet starts all workers with this key, ends all when one ends, and waits until the
// last has gone. The example of Run has the whole of it. Where workers are processes, the key
// comes to them as an argument or in the environment, and nothing else restarts them. Each life
// begins with empty state, which Restore fills.
//
// The first worker that gives the key supersedes what was pending; all get the same checkpoint,
// and messages of former lives are refused, also of those that are only cut off. That is what
// CodeStaleEpoch tells a worker that was left out: others have recovered with a newer key, so it
// must end, drop its state and be started with theirs. A key that is used once more, after a
// checkpoint has completed, would take one worker back behind the others: [ErrRecoveryKeyUsed].
//
// # Growing and shrinking
//
// A fleet that comes back with another number of workers sets Share in each: all parts are read,
// and every group of keys comes back to one worker. What has to stay together, such as the
// counts and the offset of a partition, belongs under keys of one group. State that every task
// has under the same key comes back once from each, so merge it. With a Share a worker may also
// come back to a checkpoint of its own number: the same groups are its own.
//
// # Sinks that commit in two phases
//
// In Snapshot, take what was written since the cut before out of the sink, under the same hold
// of the lock as the state. Let go of the lock, and prepare that batch under the checkpoint's ID:
// it must be on disk, or wherever it survives the worker, before Snapshot returns. Snapshot may
// take its time for this, since nothing waits but the checkpoint. In OnCompleted, commit
// everything that was prepared under this ID or a lower one. An abort rolls nothing back: what
// was written is in the state, too, and the next checkpoint that completes covers both. A worker
// may die before it is told, so Restore settles the rest: commit what was prepared under the ID
// that it is given or a lower one, and roll back what is above.
//
// Two faults must not pass unnoticed. An error of Snapshot only declines the checkpoint, and the
// worker goes on: put a batch that could not be prepared back before what was written since, or
// end the life, or the next checkpoint has the state without the batch. And OnCompleted has no
// error: where a commit fails, end the life. That is, cancel Run's context with a cause. The next
// life reads again what is not in its checkpoint, and its Restore commits what is.
//
// All this needs a RecoveryKey, also in a fleet of one. Without it the last part of a former life
// may arrive, and complete a checkpoint, when this life has rolled back what was prepared for it.
// The sink of examples/wordcount does so with files.
//
// # Stopping, and finishing
//
// A worker that is stopped leaves its checkpoint to its next life, or to the timeout. With a
// ShutdownTimeout it first hands in what it has begun to. One whose work is finite sets
// FinalCheckpoint, so that Run returns nil only when a checkpoint has all of it.
//
// The workers of a fleet must all end with the same checkpoint: the one after it waits in vain
// for a worker that has gone. So Work does not return when its own part is done, but waits until
// those of all others are, and the worker takes part in checkpoints meanwhile. Whoever runs the
// fleet then
//
//  1. pauses the schedule and waits until nothing is pending. A cut between the return of the
//     first Work and that of the last would be the last one for some workers, which end, and not
//     for the others, which then wait for ever, however often something triggers;
//  2. lets all of Work return, and triggers one checkpoint by hand;
//  3. recovers the fleet, as after a crash, when some have not ended soon after it completed. What
//     a Work says at its end ("I am done") is said before it has returned, so that the cut may
//     have come between the two. In the next life Work finds nothing left to do.
//
// The driver of examples/wordcount does so. A worker by itself needs none of it: a schedule
// triggers again.
//
// # What happens when something fails
//
// Calls that get no answer, or one that says that the store is away, are repeated with growing
// pauses, uploads until their checkpoint has ended. A restore goes on at the byte where its
// connection broke. Where either gets stuck for two minutes, its connection is given up. An answer
// with status 200 that is not checkpointd's, such as a proxy's page, counts as none. A snapshot
// that cannot be taken or is refused declines the checkpoint, which ends it for all tasks with
// the reason; so does a store without room for it ([CodeStoreFull], status 507), since a repetition
// makes none. While there is no event stream (a proxy may refuse or hold it), the worker polls;
// it needs no setting for that.
//
// The package imports the standard library only. Package checkpointtest has a server for tests.
package worker
