package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

func TestAWorkerWhoseSnapshotFailsDeclinesAndTakesPartInTheNext(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() (worker.Entries, error){
		"at once": func() (worker.Entries, error) { return nil, errors.New("disk is full") },
		"while it is read": func() (worker.Entries, error) {
			return func(yield func(worker.Entry, error) bool) {
				if yield(worker.Encode("a", 1)) {
					yield(worker.Entry{}, errors.New("disk is full"))
				}
			}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t)
			c := newCounter(t, server, "task-1")
			succeed := c.Snapshot
			var failed atomic.Bool
			c.Snapshot = func(ctx context.Context, checkpoint worker.Checkpoint) (worker.Entries, error) {
				if failed.CompareAndSwap(false, true) {
					return fail()
				}
				return succeed(ctx, checkpoint)
			}
			c.run(t)
			id := server.Trigger("task-1").ID
			got := server.Ended(id)
			if got.Failure.Reason != "declined" || got.Failure.TaskID != "task-1" || !strings.Contains(got.Failure.Message, "disk is full") {
				t.Errorf("the checkpoint ended as %+v", got)
			}
			if ended := receive(t, c.aborted); ended.ID != id || ended.Reason != worker.ReasonDeclined {
				t.Errorf("the worker was told %+v", ended)
			}
			takesPart(t, server, c, 1)
		})
	}
}

func TestAPartThatTheServerRefusesIsDeclinedWithItsReason(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
		return func(yield func(worker.Entry, error) bool) {
			_ = yield(worker.Encode("a", 1)) && yield(worker.Encode("a", 2))
		}, nil
	}
	c.run(t)
	got := server.Ended(server.Trigger("task-1").ID)
	if got.Failure.Reason != "declined" || !strings.Contains(got.Failure.Message, "line 2") {
		t.Errorf("the checkpoint ended as %+v", got)
	}
}

func TestADrainIsAwaitedAndDeclinesWhenItTakesTooLong(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	drained := make(chan struct{})
	var calls, snapshots atomic.Int64
	c.DrainTimeout = 100 * time.Millisecond
	c.Drain = func(ctx context.Context) error {
		switch calls.Add(1) {
		case 1: // stuck, and deaf to its context
			<-drained
			return nil
		case 2:
			<-ctx.Done()
			return ctx.Err()
		}
		c.add("drained", 1)
		return nil
	}
	snapshot := c.Snapshot
	c.Snapshot = func(ctx context.Context, checkpoint worker.Checkpoint) (worker.Entries, error) {
		snapshots.Add(1)
		return snapshot(ctx, checkpoint)
	}
	c.run(t)
	for range 3 {
		got := server.Ended(server.Trigger("task-1").ID)
		if got.Failure.Reason != "declined" || !strings.Contains(got.Failure.Message, worker.ErrDrainTimeout.Error()) {
			t.Errorf("the checkpoint ended as %+v", got)
		}
		if calls.Load() == 1 && got.ID == 1 {
			close(drained)
		}
	}
	if calls.Load() != 2 || snapshots.Load() != 0 {
		t.Errorf("%d drains were begun, %d snapshots taken", calls.Load(), snapshots.Load())
	}
	takesPart(t, server, c, 1)
	if c.counts["drained"] != 1 || len(c.aborted) != 0 {
		t.Errorf("%v, and the worker was told of %d aborts of what it never cut", c.counts, len(c.aborted))
	}
}

func TestTheContextOfASnapshotEndsWithItsCheckpoint(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	succeed := c.Snapshot
	began, causes := make(chan struct{}, 1), make(chan error, 1)
	c.Snapshot = func(ctx context.Context, checkpoint worker.Checkpoint) (worker.Entries, error) {
		if checkpoint.ID > 0 {
			return succeed(ctx, checkpoint)
		}
		began <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	c.run(t)
	id := server.Trigger("task-1").ID
	receive(t, began)
	server.Abort(id)
	cause, is := errors.AsType[*worker.Ended](receive(t, causes))
	if !is || cause.ID != id || cause.Reason != worker.ReasonAborted {
		t.Errorf("the cause is %v", cause)
	}
	if ended := receive(t, c.aborted); ended.ID != id || ended.Reason != worker.ReasonAborted {
		t.Errorf("the worker was told %+v", ended)
	}
	takesPart(t, server, c, 1)
}

func TestACheckpointThatCompletesWithoutTheTaskIsNoSuccessOfIts(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	slow, fast := newCounter(t, server, "slow"), newCounter(t, server, "fast")
	began := make(chan struct{}, 1)
	slow.Snapshot = func(ctx context.Context, _ worker.Checkpoint) (worker.Entries, error) {
		began <- struct{}{}
		<-ctx.Done()
		return worker.FromMap(map[string]int{"late": 1}), nil
	}
	slow.run(t)
	id := server.Trigger().ID // one task is enough
	receive(t, began)
	fast.run(t)
	if told := receive(t, fast.completed); told != id {
		t.Errorf("the fast one was told of %d", told)
	}
	if ended := receive(t, slow.aborted); ended.ID != id || ended.Reason != worker.ReasonNotIncluded {
		t.Errorf("the slow one was told %+v", ended)
	}
}
