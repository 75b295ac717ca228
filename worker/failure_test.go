package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
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
	proxy := newProxy(t, server)
	c.URL = proxy.url
	life, _ := c.run(t)
	id := server.Trigger("task-1").ID
	eventually(t, "the upload is under way", func() bool { return proxy.uploads.Load() == 1 })
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
	server.Recover()
	if ended := receive(t, c.aborted); ended.ID != waiting || ended.Reason != "superseded" {
		t.Errorf("the worker was told %+v", ended)
	}
}

func TestAWorkerWaitsForAServerAndNeverTakesItForAFreshStart(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	life, _ := first.run(t)
	takesPart(t, server, first, 1)
	life.stop()

	proxy := newProxy(t, server)
	var refused atomic.Int64
	proxy.set(func(w http.ResponseWriter, _ *http.Request) bool {
		switch refused.Add(1) {
		case 1:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"store_unavailable","status":503}`))
		case 2:
			breakOff(w)
		case 4: // 3 asks for the epoch
			w.WriteHeader(http.StatusBadGateway)
		default:
			return true
		}
		return false
	})
	second := newCounter(t, server, "task-1")
	second.URL = proxy.url
	if _, from := second.run(t); from.ID != 0 || second.counts["n"] != 1 {
		t.Errorf("the worker began from %+v with %v", from, second.counts)
	}
}

func TestARestoreGoesOnWhereItsConnectionBroke(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	for n := range 2000 {
		first.add(fmt.Sprintf("key-%d", n), n)
	}
	life, _ := first.run(t)
	takesPart(t, server, first, 1)
	life.stop()

	proxy := newProxy(t, server)
	var broken atomic.Int64
	target := server.URL
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/restore") {
			return true
		}
		connection := broken.Add(1)
		if wanted := fmt.Sprintf("bytes=%d-", (connection-1)*10_001); connection > 1 && r.Header.Get("Range") != wanted {
			t.Errorf("connection %d asks for %q, not %q", connection, r.Header.Get("Range"), wanted)
		}
		if connection > 4 {
			return true
		}
		relayCut(t, w, r, target, 10_001)
		return false
	})
	second := newCounter(t, server, "task-1")
	second.URL = proxy.url
	second.run(t)
	if diff := cmp.Diff(first.counts, second.counts); diff != "" || broken.Load() != 5 {
		t.Errorf("after %d connections: %s", broken.Load(), diff)
	}
}

func TestARestoreThatAlwaysBreaksOffAtTheSamePlaceIsAnError(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	first.add(strings.Repeat("k", 1000), 1)
	life, _ := first.run(t)
	takesPart(t, server, first, 1)
	life.stop()

	proxy := newProxy(t, server)
	target := server.URL
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/restore") {
			return true
		}
		relayCut(t, w, r, target, 0)
		return false
	})
	second := newCounter(t, server, "task-1")
	second.URL, second.MaxBackoff = proxy.url, time.Millisecond
	second.Restore = func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
		for _, err := range entries {
			_ = err // a callback that does not look at it
		}
		return nil
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("the worker ended with %v", err)
	}
}

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

func TestAWorkerStopsWhenTheFleetHasRecoveredWithoutIt(t *testing.T) {
	t.Parallel()
	for name, hearing := range map[string]bool{"hearing of it": true, "by its next message": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t)
			proxy := newProxy(t, server)
			proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/events" || hearing {
					return true
				}
				w.WriteHeader(http.StatusNotFound)
				return false
			})
			c := newCounter(t, server, "task-1")
			c.URL = proxy.url
			worked := make(chan error, 1)
			c.Work = func(ctx context.Context) error {
				<-ctx.Done()
				worked <- context.Cause(ctx)
				return nil
			}
			life, _ := c.run(t)
			takesPart(t, server, c, 3)
			server.Recover()
			if !hearing {
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

func TestALostAnswerToAnUploadIsFoundOut(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	proxy := newProxy(t, server)
	var lost atomic.Int64
	target := server.URL
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || lost.Add(1)%2 == 0 {
			return true
		}
		relayCut(t, w, r, target, -1)
		return false
	})
	c := newCounter(t, server, "task-1")
	c.URL = proxy.url
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
	if lost.Load() < 5 {
		t.Errorf("%d uploads were sent", lost.Load())
	}
}

func TestAnUploadThatNeverArrivedIsNotTakenForOneWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	proxy := newProxy(t, server)
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return true
		}
		breakOff(w)
		return false
	})
	slow, fast := newCounter(t, server, "slow"), newCounter(t, server, "fast")
	slow.URL = proxy.url
	slow.run(t)
	id := server.Trigger().ID // one task is enough
	eventually(t, "the upload was tried", func() bool { return proxy.uploads.Load() > 1 })
	fast.run(t)
	if told := receive(t, fast.completed); told != id {
		t.Errorf("the fast one was told of %d", told)
	}
	if ended := receive(t, slow.aborted); ended.ID != id || ended.Reason != worker.ReasonNotIncluded {
		t.Errorf("the slow one was told %+v", ended)
	}
}

func TestAPageThatIsNotTheServersIsNoFreshStart(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	proxy := newProxy(t, server)
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/checkpoints/latest" {
			return true
		}
		http.Error(w, "no such page", http.StatusNotFound)
		return false
	})
	c := newCounter(t, server, "task-1")
	c.URL = proxy.url
	problem, is := errors.AsType[*worker.Problem](c.Run(t.Context()))
	if !is || problem.Status != http.StatusNotFound || problem.Code != "" || problem.Detail != "no such page" || len(c.restored) > 0 {
		t.Errorf("the worker ended with %v", problem)
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
			for n := range 50 { // five seconds
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
