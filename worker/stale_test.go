package worker_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
)

func TestAWorkerStopsWhenTheFleetHasRecoveredWithoutIt(t *testing.T) {
	t.Parallel()
	const idle = time.Minute // too long for a poll to end by itself
	for name, by := range map[string]struct {
		stream, trigger bool
		pollWait        time.Duration
	}{
		"hearing of it":             {stream: true, pollWait: idle},
		"by the next checkpoint":    {trigger: true, pollWait: idle},
		"by a poll that is in vain": {pollWait: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t)
			front := server.Front()
			if !by.stream {
				front.Script(fault.On(fault.Events).Refuse("forbidden").Always())
			}
			c := newCounter(t, server, "task-1")
			c.URL, c.PollWait = front.URL, by.pollWait
			worked := make(chan error, 1)
			c.Work = func(ctx context.Context) error {
				<-ctx.Done()
				worked <- context.Cause(ctx)
				return nil
			}
			life, _ := c.run(t)
			takesPart(t, server, c, 3)
			server.Recover()
			if by.trigger {
				server.Trigger("task-1")
			}
			err := life.end(t)
			problem, is := errors.AsType[*worker.Problem](err)
			if !errors.Is(err, worker.CodeStaleEpoch) || errors.Is(err, worker.CodeStaleAttempt) || !is || problem.Status != http.StatusConflict {
				t.Errorf("the worker ended with %v", err)
			}
			if cause := receive(t, worked); !errors.Is(cause, worker.CodeStaleEpoch) {
				t.Errorf("the work was told %v", cause)
			}
		})
	}
}

func TestAWorkerStopsWhenTheFleetHasRecoveredWhileItsStateCameBack(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	c.PollWait = time.Minute
	c.Restore = func(_ context.Context, from worker.Checkpoint, _ worker.Entries) error {
		server.Recover() // before there is a stream that could tell
		c.restored <- from
		return nil
	}
	life, _ := c.run(t)
	if err := life.end(t); !errors.Is(err, worker.CodeStaleEpoch) {
		t.Errorf("the worker ended with %v", err)
	}
}

func TestAFormerLifeStopsWhenANewerAttemptWasHeard(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t, checkpointtest.RequiredTaskAcks(2))
	old := newCounter(t, server, "task-1")
	old.Attempt = 1
	life, _ := old.run(t)
	younger := newCounter(t, server, "task-1")
	younger.Attempt = 2
	id := server.Trigger().ID
	eventually(t, "a part is in", func() bool { return server.Checkpoint(id).AcknowledgedTasks == 1 })
	younger.run(t)
	// Both rush for each checkpoint; the older one can win only before the younger was heard.
	for n := 0; len(life.ended) == 0 && n < 100; n++ {
		id := server.Trigger().ID
		eventually(t, "a part is in", func() bool { return server.Checkpoint(id).AcknowledgedTasks == 1 || len(life.ended) > 0 })
		server.Abort(id)
	}
	if err := life.end(t); !errors.Is(err, worker.CodeStaleAttempt) {
		t.Errorf("the former life ended with %v", err)
	}
}
