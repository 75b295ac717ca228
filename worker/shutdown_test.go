package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

// newHalting is a worker whose uploads halt after their first entry, until goOn is closed or
// their context ends.
func newHalting(t *testing.T, server *checkpointtest.Server) (c *counter, halted, goOn chan struct{}) {
	t.Helper()
	c, halted, goOn = newCounter(t, server, "task-1"), make(chan struct{}, 100), make(chan struct{})
	c.Snapshot = func(ctx context.Context, _ worker.Checkpoint) (worker.Entries, error) {
		return func(yield func(worker.Entry, error) bool) {
			if !yield(worker.Encode("a", 1)) {
				return
			}
			halted <- struct{}{}
			select {
			case <-goOn:
				yield(worker.Encode("b", 2))
			case <-ctx.Done():
				yield(worker.Entry{}, ctx.Err())
			}
		}, nil
	}
	return c, halted, goOn
}

func TestAWorkerThatIsStoppedHandsInWhatItHasBegunAndNothingMore(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c, halted, goOn := newHalting(t, server)
	c.ShutdownTimeout = patience
	stopped := make(chan struct{})
	c.Work = func(ctx context.Context) error {
		<-ctx.Done()
		close(stopped)
		return nil
	}
	life, _ := c.run(t)
	begun, next := server.Trigger("task-1").ID, server.Trigger("task-1").ID
	receive(t, halted)
	life.kill()
	receive(t, stopped)
	close(goOn)
	if err := life.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the worker ended with %v", err)
	}
	if len(c.completed) != 1 || <-c.completed != begun {
		t.Error("the worker was not told that its checkpoint completed")
	}
	if got := server.Checkpoint(next); got.Status != "pending" || len(halted) != 0 {
		t.Errorf("a worker that is stopped took another cut, and left %+v", got)
	}
	c2, restore := restoring(t, server, "task-1")
	if got := restore(); len(got) != 2 || c2.TaskID != "task-1" {
		t.Errorf("what it handed in is %v", got)
	}
}

func TestAnUploadIsCutOffAfterTheShutdownTimeout(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"none": 0, "short": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t)
			c, halted, _ := newHalting(t, server)
			c.ShutdownTimeout = timeout
			life, _ := c.run(t)
			id := server.Trigger("task-1").ID
			receive(t, halted)
			life.kill()
			if err := life.end(t); !errors.Is(err, context.Canceled) {
				t.Errorf("the worker ended with %v", err)
			}
			if got := server.Checkpoint(id); got.Status != "pending" || len(c.aborted) > 0 {
				t.Errorf("a worker that is stopped left %+v", got)
			}
		})
	}
}

func TestTheShutdownTimeoutIsNotForADrainNorForAWorkerThatFails(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c, halted, _ := newHalting(t, server)
	c.ShutdownTimeout = time.Hour
	draining := make(chan struct{})
	c.Drain = func(ctx context.Context) error {
		close(draining)
		<-ctx.Done()
		return ctx.Err()
	}
	life, _ := c.run(t)
	id := server.Trigger("task-1").ID
	receive(t, draining)
	life.kill()
	if err := life.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the worker ended with %v", err)
	}
	if got := server.Checkpoint(id); got.Status != "pending" || len(halted) > 0 {
		t.Errorf("a worker that is stopped left %+v", got)
	}

	c.Drain = nil
	fail, failure := make(chan struct{}), errors.New("a fault")
	c.Work = func(context.Context) error {
		<-fail
		return failure
	}
	life, _ = c.run(t)
	receive(t, halted)
	close(fail)
	if err := life.end(t); !errors.Is(err, failure) {
		t.Errorf("the worker ended with %v", err)
	}
}
