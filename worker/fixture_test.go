package worker_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/internal/pacetest"
	"github.com/checkpointd/checkpointd/worker"
)

func TestMain(m *testing.M) {
	pacetest.Waiting(4)
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// counter is a state of counts, and the worker that keeps it.
type counter struct {
	worker.Worker

	lock   sync.Mutex
	counts map[string]int

	restored  chan worker.Checkpoint
	completed chan int64
	aborted   chan worker.Ended
}

func newCounter(t *testing.T, server *checkpointtest.Server, task string) *counter {
	t.Helper()
	c := &counter{
		counts: map[string]int{}, restored: make(chan worker.Checkpoint, 1),
		completed: make(chan int64, 1000), aborted: make(chan worker.Ended, 1000),
	}
	c.Worker = worker.Worker{
		URL: server.URL, TaskID: task, MaxBackoff: 200 * time.Millisecond, PollWait: time.Second,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Restore: func(_ context.Context, from worker.Checkpoint, entries worker.Entries) error {
			err := worker.IntoMap(c.counts, entries)
			c.restored <- from
			return err
		},
		Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) {
			c.lock.Lock()
			defer c.lock.Unlock()
			return worker.FromMap(maps.Clone(c.counts)), nil
		},
		OnCompleted: func(_ context.Context, id int64) { c.completed <- id },
		OnAborted:   func(_ context.Context, _ int64, ended worker.Ended) { c.aborted <- ended },
	}
	return c
}

func (c *counter) add(key string, n int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.counts[key] += n
}

// life is a worker that runs.
type life struct {
	kill  context.CancelFunc
	ended chan error
}

// run starts the worker and waits until its state is back.
func (c *counter) run(t *testing.T) (*life, worker.Checkpoint) {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	l := &life{kill: kill, ended: make(chan error, 1)}
	go func() { l.ended <- c.Run(ctx) }()
	t.Cleanup(l.stop)
	select {
	case from := <-c.restored:
		return l, from
	case err := <-l.ended:
		l.ended <- err
		t.Fatalf("the worker ended before it had its state: %v", err)
	case <-time.After(patience):
		t.Fatal("the worker has no state yet")
	}
	return nil, worker.Checkpoint{}
}

// stop ends the worker and waits until it has gone.
func (l *life) stop() {
	l.kill()
	l.ended <- <-l.ended
}

// end waits until the worker ends by itself.
func (l *life) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.ended:
		l.ended <- err
		return err
	case <-time.After(patience):
		t.Fatal("the worker goes on")
	}
	return nil
}

// arrived waits until so many requests of a route have come.
func arrived(t *testing.T, front *fault.Front, route fault.Route, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	requests, err := front.Wait(ctx, func(r fault.Requests) bool { return len(r.Of(route)) >= n })
	if err != nil {
		t.Fatalf("%d requests of %q came, not %d", len(requests.Of(route)), route, n)
	}
}

// polls are the questions of a worker that the server may keep open.
func polls(front *fault.Front, route fault.Route) int {
	return len(front.Requests().Of(route).Where(func(r fault.Request) bool { return r.Query.Has("wait") }))
}

// until holds something up until the channel is closed.
func until(t *testing.T, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-t.Context().Done():
	}
}

// noStream is a proxy that does not let event streams through.
func noStream() fault.Rule { return fault.On(fault.Events).Answer(http.NotFound).Always() }

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}
