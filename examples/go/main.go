// go run ./examples/go URL TASK counts; killed and started again, it goes on from its latest checkpoint.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/checkpointd/checkpointd/worker"
)

func main() {
	var count atomic.Int64
	w := worker.Worker{URL: os.Args[1], TaskID: os.Args[2], Token: os.Getenv("CHECKPOINTD_TOKEN"), Logger: slog.Default()}
	w.Restore = func(_ context.Context, from worker.Checkpoint, entries worker.Entries) error {
		state := map[string]int64{}
		err := worker.IntoMap(state, entries)
		count.Store(state["count"])
		fmt.Fprintln(os.Stderr, "checkpoint", from.ID, "has", state)
		return err
	}
	w.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
		return worker.FromMap(map[string]int64{"count": count.Add(1)}), nil // the work would be beside this
	}
	fmt.Fprintln(os.Stderr, w.Run(context.Background()))
	os.Exit(1)
}
