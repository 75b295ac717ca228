package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
)

func TestAWorkerThatIsKilledInTheMiddleOfAnUploadTakesPartInItsNextLife(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	c.add("n", 7)
	c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
		return func(yield func(worker.Entry, error) bool) {
			for n, more := 0, true; more; n++ {
				more = yield(worker.Encode(fmt.Sprint(n), strings.Repeat("x", 100_000)))
			}
		}, nil
	}
	front := server.Front()
	c.URL = front.URL
	life, _ := c.run(t)
	id := server.Trigger("task-1").ID
	arrived(t, front, fault.Upload, 1)
	life.kill()
	if err := life.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the worker ended with %v", err)
	}

	next := newCounter(t, server, "task-1")
	next.add("n", 8)
	_, from := next.run(t)
	if got := server.Ended(id); from.ID != worker.None || got.Status != "completed" {
		t.Errorf("from %+v the next life left the checkpoint as %+v", from, got)
	}
}

func TestAWorkerGoesOnWhenTheServerComesBack(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	c.run(t)
	takesPart(t, server, c, 2)
	// A checkpoint whose part is in outlives the server, and so does one that it missed.
	waiting := server.Trigger("task-1", "task-2").ID
	eventually(t, "the part is in", func() bool { return server.Checkpoint(waiting).AcknowledgedTasks == 1 })
	for range 3 {
		server.Restart()
		takesPart(t, server, c, 3)
	}
	server.Stop()
	server.Restart()
	server.Abort(waiting) // a recovery would race with its news: it ends the worker, too
	if ended := receive(t, c.aborted); ended.ID != waiting || ended.Reason != worker.ReasonAborted {
		t.Errorf("the worker was told %+v", ended)
	}
}

func TestALostAnswerToAnUploadIsFoundOut(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	for range 8 {
		front.Script(fault.On(fault.Upload).CutAfter(), fault.On(fault.Upload))
	}
	c := newCounter(t, server, "task-1")
	c.URL = front.URL
	c.run(t)
	takesPart(t, server, c, 5) // the lost answer was that it completed
	for range 3 {              // and here that the part counts
		id := server.Trigger("task-1", "task-2").ID
		eventually(t, "the part is in", func() bool { return server.Checkpoint(id).AcknowledgedTasks == 1 })
		server.Abort(id)
		if ended := receive(t, c.aborted); ended.ID != id || ended.Reason != worker.ReasonAborted {
			t.Errorf("the worker was told %+v", ended)
		}
	}
	lost := front.Requests().Of(fault.Upload).Where(func(r fault.Request) bool { return r.Fault != "" })
	if len(lost) < 4 {
		t.Errorf("%d answers were lost", len(lost))
	}
}

func TestTheCutIsTakenOnceAndItsFirstPartCountsHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(fault.On(fault.Upload).CutAfter().Times(3))
	c := newCounter(t, server, "task-1")
	c.URL = front.URL
	var cuts, readings atomic.Int64
	c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
		cuts.Add(1)
		return func(yield func(worker.Entry, error) bool) {
			yield(worker.Encode("reading", readings.Add(1))) // not as it should be
		}, nil
	}
	life, _ := c.run(t)
	id := handedIn(t, server)
	arrived(t, front, fault.Upload, 4)
	acknowledge(t, server, id, "other")
	if told := receive(t, c.completed); told != id || cuts.Load() != 1 {
		t.Errorf("after %d cuts the worker was told of %d", cuts.Load(), told)
	}
	life.stop()
	_, restore := restoring(t, server, "task-1")
	if diff := cmp.Diff(map[string]int{"task-1/reading=1": 1}, restore()); diff != "" {
		t.Error(diff)
	}
}

func TestAnUploadThatNeverArrivedIsNotTakenForOneWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(fault.On(fault.Upload).CutBefore().Always())
	slow, fast := newCounter(t, server, "slow"), newCounter(t, server, "fast")
	slow.URL = front.URL
	slow.run(t)
	id := server.Trigger().ID // one task is enough
	arrived(t, front, fault.Upload, 2)
	fast.run(t)
	if told := receive(t, fast.completed); told != id {
		t.Errorf("the fast one was told of %d", told)
	}
	if ended := receive(t, slow.aborted); ended.ID != id || ended.Reason != worker.ReasonNotIncluded {
		t.Errorf("the slow one was told %+v", ended)
	}
}

func TestAnUploadThatGetsStuckIsBegunAgain(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]struct {
		rule    fault.Rule
		entries int // of 100 kB
	}{
		"nobody reads":   {fault.On(fault.Upload).Delay(time.Hour), 120}, // more than the buffers on the way take
		"nobody answers": {fault.On(fault.Upload).Hang(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t, checkpointtest.Timeout(0))
			front := server.Front()
			front.Script(with.rule)
			c := newCounter(t, server, "task-1")
			c.URL = front.URL
			c.SetTransferPatience(time.Second)
			c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
				return func(yield func(worker.Entry, error) bool) {
					value := strings.Repeat("x", 100_000)
					for n := range with.entries {
						if !yield(worker.Encode(fmt.Sprint(n), value)) {
							return
						}
					}
				}, nil
			}
			c.run(t)
			id := server.Trigger("task-1").ID
			if got := server.Ended(id); got.Status != "completed" {
				t.Errorf("the checkpoint ended as %+v", got)
			}
			if told := receive(t, c.completed); told != id {
				t.Errorf("the worker was told of %d", told)
			}
			uploads := front.Requests().Of(fault.Upload)
			if len(uploads) < 2 || uploads[0].Status != 0 {
				t.Errorf("there were these uploads: %v", uploads)
			}
		})
	}
}

func TestALongUploadMovesTheDeadline(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t, checkpointtest.Timeout(3*time.Second))
	c := newCounter(t, server, "task-1")
	c.ExtendBy = 2 * time.Second
	c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
		return func(yield func(worker.Entry, error) bool) {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for n := range 40 { // four seconds
				<-tick.C
				if !yield(worker.Encode(fmt.Sprint(n), strings.Repeat("x", 100_000))) {
					return
				}
			}
		}, nil
	}
	c.run(t)
	if got := server.Ended(server.Trigger("task-1").ID); got.Status != "completed" {
		t.Errorf("the checkpoint ended as %+v", got)
	}
}
