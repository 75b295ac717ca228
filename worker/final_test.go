package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
)

// newFinisher is a worker with a FinalCheckpoint whose work returns when the channel is closed.
func newFinisher(t *testing.T, server *checkpointtest.Server) (c *counter, finish chan struct{}) {
	t.Helper()
	c, finish = newCounter(t, server, "task-1"), make(chan struct{})
	c.FinalCheckpoint = true
	c.Work = func(ctx context.Context) error {
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c, finish
}

// acknowledge hands in an empty part for another task.
func acknowledge(t *testing.T, server *checkpointtest.Server, id int64, task string) {
	t.Helper()
	send(t, server, http.MethodPost, fmt.Sprintf("/checkpoints/%d/acks", id), fmt.Sprintf(`{"taskId":%q}`, task))
}

// handedIn triggers a checkpoint for which the worker has done its part and another task has not.
func handedIn(t *testing.T, server *checkpointtest.Server) int64 {
	t.Helper()
	id := server.Trigger("task-1", "other").ID
	eventually(t, "the part is in", func() bool { return server.Checkpoint(id).AcknowledgedTasks == 1 })
	return id
}

func TestTheFinalCheckpointIsOneWhoseCutWasTakenAfterTheWork(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c, finish := newFinisher(t, server)
	returned := make(chan struct{})
	work := c.Work
	c.Work = func(ctx context.Context) error {
		defer close(returned)
		return work(ctx)
	}
	life, _ := c.run(t)
	before := handedIn(t, server)
	close(finish)
	receive(t, returned)
	acknowledge(t, server, before, "other")
	if told := receive(t, c.completed); told != before {
		t.Errorf("the worker was told of %d", told)
	}
	// It goes on, although the next one comes to nothing.
	aborted := handedIn(t, server)
	server.Abort(aborted)
	if ended := receive(t, c.aborted); ended.ID != aborted {
		t.Errorf("the worker was told %+v", ended)
	}
	final := handedIn(t, server)
	acknowledge(t, server, final, "other")
	if err := life.end(t); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if len(c.completed) != 1 || <-c.completed != final {
		t.Error("the worker ended before it was told of its last checkpoint")
	}
}

func TestAWorkerThatWaitsForItsFinalCheckpointEndsWithItsContextAndItsEpoch(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c, finish := newFinisher(t, server)
	close(finish)
	life, _ := c.run(t)
	handedIn(t, server)
	life.kill()
	if err := life.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("a worker that is stopped ends with %v", err)
	}
	life, _ = c.run(t)
	handedIn(t, server)
	server.Recover()
	if err := life.end(t); !errors.Is(err, worker.CodeStaleEpoch) {
		t.Errorf("a worker of a former epoch ends with %v", err)
	}
}

func TestAFinalCheckpointThatIsGoneBeforeItWasHeardOfIsNone(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	deleted := make(chan struct{})
	front.Script(noStream(), fault.On("GET /checkpoints/0").Before(func() { until(t, deleted) }).Always())
	c, finish := newFinisher(t, server)
	c.URL = front.URL
	close(finish)
	life, _ := c.run(t)
	id := handedIn(t, server)
	acknowledge(t, server, id, "other")
	server.Delete(id)
	close(deleted)
	if ended := receive(t, c.aborted); ended.ID != id || ended.Reason != worker.ReasonDeleted {
		t.Errorf("the worker was told %+v", ended)
	}
	next := server.Trigger("task-1").ID
	if err := life.end(t); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if told := receive(t, c.completed); told != next {
		t.Errorf("the worker was told of %d", told)
	}
}

func TestACommitThatFailsAtTheFinalCheckpointIsWhatRunEndsWith(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"at once": 0, "with a ShutdownTimeout": patience} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t, checkpointtest.Interval(50*time.Millisecond))
			c, finish := newFinisher(t, server)
			close(finish)
			ctx, fail := context.WithCancelCause(t.Context())
			defer fail(nil)
			c.ShutdownTimeout = timeout
			failure := errors.New("the disk is full")
			c.OnCompleted = func(context.Context, int64) { fail(failure) }
			if err := c.Run(ctx); !errors.Is(err, failure) {
				t.Errorf("the worker ended with %v", err)
			}
		})
	}
}

func TestAFinalCheckpointWithoutWorkIsRefused(t *testing.T) {
	t.Parallel()
	c := newCounter(t, &checkpointtest.Server{URL: "http://127.0.0.1:1"}, "task-1")
	c.FinalCheckpoint = true
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "FinalCheckpoint") {
		t.Errorf("the worker ended with %v", err)
	}
}
