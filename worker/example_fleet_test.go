package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

// Whatever watches over a fleet ends all workers when one ends, and starts them again with a
// key that was never used before.
func ExampleWorker_Run() {
	server := checkpointtest.NewServer()
	defer server.Close()
	for crash := 1; crash < 10; crash++ {
		err := runFleet(context.Background(), server, fmt.Sprintf("2026-11-30T09:00Z-%d", crash))
		fmt.Println("the fleet ended:", err)
		if err == nil {
			return
		}
	}
	// Output:
	// the fleet ended: task-1 is out of memory
	// the fleet ended: <nil>
}

// runFleet is one life of two workers. It returns when the last of them has gone.
func runFleet(ctx context.Context, server *checkpointtest.Server, key string) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var workers sync.WaitGroup
	for _, task := range []string{"task-1", "task-2"} {
		state := map[string]int{} // each life begins with nothing
		completed := make(chan struct{}, 1)
		w := worker.Worker{
			URL: server.URL, TaskID: task, RecoveryKey: key,
			Restore: func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
				err := worker.IntoMap(state, entries)
				state["lives"]++
				return err
			},
			Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
				return worker.FromMap(state), nil // nobody writes to it any more
			},
			OnCompleted: func(context.Context, int64) { completed <- struct{}{} },
			Work: func(ctx context.Context) error {
				if state["lives"] == 2 {
					return nil
				}
				if task == "task-1" {
					server.Trigger("task-1", "task-2")
					<-completed
					return errors.New("task-1 is out of memory")
				}
				<-ctx.Done()
				return ctx.Err()
			},
		}
		workers.Go(func() {
			if err := w.Run(ctx); err != nil {
				end(err) // also when it is CodeStaleEpoch: somebody else has recovered
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// One worker has counted four partitions. Now there are two workers.
func ExampleShare() {
	server := checkpointtest.NewServer()
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	old := worker.Worker{
		URL: server.URL, TaskID: "worker-0", OnCompleted: func(context.Context, int64) { stop() },
		Restore: func(context.Context, worker.Checkpoint, worker.Entries) error { return nil },
		Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
			return worker.FromMap(map[string]int{"p0": 3, "p1": 1, "p2": 4, "p3": 1}), nil
		},
	}
	server.Trigger("worker-0")
	_ = old.Run(ctx) // until it is stopped

	for index := range 2 {
		seen := errors.New("seen enough")
		w := worker.Worker{
			URL: server.URL, TaskID: fmt.Sprintf("worker-%d", index),
			RecoveryKey: "from-1-to-2", Share: worker.Share{Index: index, Of: 2},
			Restore: func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
				for entry, err := range entries {
					if err != nil {
						return err
					}
					fmt.Printf("worker-%d has %s=%s, which was %s's\n", index, entry.Key, entry.Value, entry.TaskID)
				}
				return seen
			},
			Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) { return nil, errors.New("unused") },
		}
		if err := w.Run(context.Background()); !errors.Is(err, seen) {
			fmt.Println(err)
		}
	}
	// Output:
	// worker-0 has p1=1, which was worker-0's
	// worker-0 has p3=1, which was worker-0's
	// worker-1 has p0=3, which was worker-0's
	// worker-1 has p2=4, which was worker-0's
}

// A worker asks which partitions are its own, and comes back to their state.
func ExampleShare_Owns() {
	partitions := []string{"p0", "p1", "p2", "p3", "p4", "p5"}
	for index := range 3 {
		share := worker.Share{Index: index, Of: 3}
		fmt.Println(index, slices.DeleteFunc(slices.Clone(partitions), func(p string) bool { return !share.Owns(p) }))
	}
	// Output:
	// 0 [p0 p3]
	// 1 [p2 p5]
	// 2 [p1 p4]
}
