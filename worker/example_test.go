package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

// A worker counts, is stopped, and goes on in its next life from what it had handed in.
func Example() {
	server := checkpointtest.NewServer()
	defer server.Close()
	live := func(word string) {
		var lock sync.Mutex
		counts := map[string]int{}
		ctx, stop := context.WithCancel(context.Background())
		w := worker.Worker{
			URL: server.URL, TaskID: "task-1",
			Restore: func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
				return worker.IntoMap(counts, entries)
			},
			Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
				lock.Lock()
				defer lock.Unlock()
				return worker.FromMap(maps.Clone(counts)), nil
			},
			OnCompleted: func(context.Context, int64) { stop() },
			Work: func(ctx context.Context) error {
				lock.Lock()
				counts[word]++
				fmt.Println(counts)
				lock.Unlock()
				server.Trigger("task-1")
				<-ctx.Done()
				return ctx.Err()
			},
		}
		_ = w.Run(ctx) // until it is stopped
	}
	live("tea")
	live("coffee")
	live("tea")
	// Output:
	// map[tea:1]
	// map[coffee:1 tea:1]
	// map[coffee:1 tea:2]
}

// Two workers that come back with one RecoveryKey go on from one checkpoint.
func ExampleWorker_recoveryKey() {
	server := checkpointtest.NewServer()
	defer server.Close()
	recovered := errors.New("recovered")
	for _, task := range []string{"task-1", "task-2"} {
		w := worker.Worker{
			URL: server.URL, TaskID: task, RecoveryKey: "crash-2026-11-29",
			Restore: func(_ context.Context, from worker.Checkpoint, _ worker.Entries) error {
				fmt.Println(task, "begins anew:", from.ID == worker.None, "in epoch", from.Epoch)
				return recovered
			},
			Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
				return worker.FromMap(map[string]int{}), nil
			},
		}
		fmt.Println(errors.Is(w.Run(context.Background()), recovered))
	}
	// Output:
	// task-1 begins anew: true in epoch 1
	// true
	// task-2 begins anew: true in epoch 1
	// true
}

// A snapshot that fails declines the checkpoint, and the worker is told how it ended.
func ExampleWorker_decline() {
	server := checkpointtest.NewServer()
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	w := worker.Worker{
		URL: server.URL, TaskID: "task-1",
		Restore: func(context.Context, worker.Checkpoint, worker.Entries) error { return nil },
		Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
			return nil, errors.New("disk is full")
		},
		OnAborted: func(_ context.Context, _ int64, ended worker.Ended) {
			fmt.Println(ended.Error())
			stop()
		},
	}
	id := server.Trigger("task-1").ID
	_ = w.Run(ctx) // until it is stopped
	fmt.Println(server.Checkpoint(id).Failure.Reason)
	// Output:
	// checkpoint 0 has ended: declined by task-1: taking the snapshot: disk is full
	// declined
}

// The code of a refusal says what to do about it.
func ExampleProblem() {
	server := checkpointtest.NewServer()
	defer server.Close()
	w := worker.Worker{
		URL: server.URL, Job: "mistyped", TaskID: "task-1",
		Restore: func(context.Context, worker.Checkpoint, worker.Entries) error { return nil },
		Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
			return worker.FromMap(map[string]int{}), nil
		},
	}
	err := w.Run(context.Background())
	fmt.Println(errors.Is(err, worker.CodeJobNotFound), errors.Is(err, worker.CodeStaleEpoch))
	if problem, is := errors.AsType[*worker.Problem](err); is {
		fmt.Println(problem.Status, problem.Code)
	}
	// Output:
	// true false
	// 404 job_not_found
}

// Values are encoded while they are sent.
func ExampleEncode() {
	type window struct {
		From  int64   `json:"from"`
		Sum   float64 `json:"sum"`
		Label string  `json:"label"`
	}
	entry, err := worker.Encode("window-1", window{From: 1764374400000, Sum: 2.5, Label: "<all>"})
	fmt.Println(entry.Key, string(entry.Value), err)
	// Output: window-1 {"from":1764374400000,"sum":2.5,"label":"<all>"} <nil>
}

// What FromMap hands in, IntoMap takes back.
func ExampleFromMap() {
	counts := map[string]int{}
	err := worker.IntoMap(counts, worker.FromMap(map[string]int{"tea": 2, "coffee": 1}))
	fmt.Println(counts, err)
	// Output: map[coffee:1 tea:2] <nil>
}
