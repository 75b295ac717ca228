package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

// sink keeps lines back until a checkpoint has them.
type sink struct {
	lock      sync.Mutex
	written   []string // since the last cut
	lines     int      // were written before that
	prepared  map[int64][]string
	committed []string
}

// prepare makes everything that was written durable under a checkpoint's ID, and tells how
// many lines there are by now.
func (s *sink) prepare(id int64) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.lines += len(s.written)
	s.prepared[id], s.written = s.written, nil
	return s.lines
}

// commit publishes what was prepared under this ID or a lower one.
func (s *sink) commit(id int64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for n := range id + 1 {
		s.committed = append(s.committed, s.prepared[n]...)
		delete(s.prepared, n)
	}
}

// A sink commits in two phases, and Run ends when its last line is committed.
func ExampleWorker_twoPhases() {
	server := checkpointtest.NewServer(checkpointtest.Interval(50 * time.Millisecond))
	defer server.Close()
	out := &sink{prepared: map[int64][]string{}}
	w := worker.Worker{
		URL: server.URL, TaskID: "task-1", RecoveryKey: "start", FinalCheckpoint: true,
		Restore: func(_ context.Context, from worker.Checkpoint, _ worker.Entries) error {
			out.commit(from.ID) // the life before may not have been told
			clear(out.prepared) // what is above belongs to no checkpoint
			return nil
		},
		Snapshot: func(_ context.Context, checkpoint worker.Checkpoint) (worker.Entries, error) {
			return worker.FromMap(map[string]int{"lines": out.prepare(checkpoint.ID)}), nil
		},
		OnCompleted: func(_ context.Context, id int64) { out.commit(id) },
		Work: func(context.Context) error {
			for _, line := range []string{"tea", "coffee", "milk"} {
				out.lock.Lock()
				out.written = append(out.written, line)
				out.lock.Unlock()
			}
			return nil
		},
	}
	err := w.Run(context.Background())
	fmt.Println(err, out.committed)
	// Output: <nil> [tea coffee milk]
}

// Requests that are under way when a checkpoint comes are waited for: what they bring
// belongs to the cut.
func ExampleWorker_drain() {
	server := checkpointtest.NewServer()
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	var lock sync.Mutex
	answers := map[string]int{}
	asked, answered := make(chan struct{}), make(chan struct{})
	w := worker.Worker{
		URL: server.URL, TaskID: "task-1", DrainTimeout: time.Minute,
		Restore: func(context.Context, worker.Checkpoint, worker.Entries) error { return nil },
		Drain: func(ctx context.Context) error {
			close(asked)
			select {
			case <-answered:
				return nil
			case <-ctx.Done(): // the checkpoint is declined
				return context.Cause(ctx)
			}
		},
		Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
			lock.Lock()
			defer lock.Unlock()
			fmt.Println("the cut has", answers)
			return worker.FromMap(maps.Clone(answers)), nil
		},
		OnCompleted: func(context.Context, int64) { stop() },
		Work: func(ctx context.Context) error {
			server.Trigger("task-1")
			<-asked // an answer is late
			lock.Lock()
			answers["the question"] = 42
			lock.Unlock()
			close(answered)
			<-ctx.Done()
			return ctx.Err()
		},
	}
	fmt.Println(errors.Is(w.Run(ctx), context.Canceled))
	// Output:
	// the cut has map[the question:42]
	// true
}

// How far uploads and restores have come can be shown. Short ones have only a last word.
func ExampleProgress() {
	server := checkpointtest.NewServer()
	defer server.Close()
	live := func() {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		state := map[string]int{}
		w := worker.Worker{
			URL: server.URL, TaskID: "task-1",
			Restore: func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
				return worker.IntoMap(state, entries)
			},
			Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
				return worker.FromMap(map[string]int{"tea": 2, "coffee": 1}), nil
			},
			OnCompleted: func(context.Context, int64) { stop() },
			OnProgress: func(p worker.Progress) {
				switch {
				case !p.Done:
				case p.Restoring:
					fmt.Printf("checkpoint %d: %d of %d bytes, %d entries came back\n", p.CheckpointID, p.Bytes, p.Total, p.Entries)
					stop()
				default:
					fmt.Printf("checkpoint %d: %d bytes, %d entries handed in\n", p.CheckpointID, p.Bytes, p.Entries)
				}
			},
		}
		_ = w.Run(ctx) // until it is stopped
	}
	server.Trigger("task-1")
	live()
	live()
	// Output:
	// checkpoint 0: 51 bytes, 2 entries handed in
	// checkpoint 0: 87 of 87 bytes, 2 entries came back
}
