package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

func TestAcknowledgementsThatWaitGoTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})

	t.Run("each with its own place, and one of them completes", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		id := c.pending(4)
		first, release := c.first(id, "a")
		calls := c.queue(id, items("b", "c", "d", "e")...)
		release()
		c.same("the first", c.outcome(first), "acknowledged 1 pending")
		c.same("the others", c.outcomes(calls), []string{
			"acknowledged 2 pending", "acknowledged 3 pending", "acknowledged 4 completed", "refused 4 completed checkpoint_completed",
		})
		c.same("trips", c.gate.seen(), []ackTripSeen{{id: 1}, {id: 4}})
		c.same("reported ends", len(c.heard.sorted("ended")), 1)
	})

	t.Run("those of several checkpoints too, and once more by themselves where one ends or is not there", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		one, two := c.pending(9), c.pending(1)
		_, release := c.first(one, "a")
		var calls []*awaited
		for _, task := range []string{"b", "c"} {
			calls = append(calls, c.queue(one, items(task)...)...)
			calls = append(calls, c.queue(two, items(task)...)...)
		}
		gone := c.queue(77, items("x", "y")...)
		release()
		c.same("outcomes", c.outcomes(calls), []string{
			"acknowledged 2 pending", "acknowledged 1 completed", "acknowledged 3 pending", "refused 1 completed checkpoint_completed",
		})
		c.same("outcomes of none", c.outcomes(gone), []string{"checkpoint_not_found", "checkpoint_not_found"})
		c.same("trips", c.gate.seen(), []ackTripSeen{{one: 1}, {one: 2, two: 2, 77: 2}, {two: 2, 77: 2}})
	})

	t.Run("those of several jobs in one round trip, as many in a script call as it takes", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		one, two, three := c.pending(5000), c.pending(5000), c.pending(5000)
		_, release := c.first(one, "a")
		var calls []*awaited
		for n := range 7 {
			for _, id := range []int64{one, two, three} {
				calls = append(calls, c.queueOne(t.Context(), id, items(tasks(fmt.Sprint("task-", n, "-"), soloItems)...)...))
			}
		}
		job := c.job
		c.job += "-2"
		other := c.pending(9)
		calls = append(calls, c.queueOne(t.Context(), other, items("b")...))
		c.job = job
		release()
		for _, a := range calls {
			c.await("answer", a.done)
			c.ok(a.err)
		}
		c.same("trips", len(c.gate.seen()), 2)
		c.same("scripts of the last", c.gate.scripts(), []string{severalScript.verb, acknowledgeScript.verb, acknowledgeScript.verb})
	})

	t.Run("also those of several checkpoints after Redis has forgotten its scripts", func(t *testing.T) {
		t.Parallel()
		own := redistest.Start(t, redistest.Options{Own: true})
		c := newCrowd(t, own)
		one, two := c.pending(9), c.pending(9)
		for n, want := range []int{4, 2} { // with those that were in vain, and without
			if n == 0 {
				c.ok(c.redis.ScriptFlush(t.Context()).Err())
			}
			before := len(c.gate.seen())
			task := fmt.Sprint("task-", n)
			_, release := c.first(one, "first-"+task)
			calls := append(c.queue(one, items(task)...), c.queue(two, items(task)...)...)
			release()
			for _, a := range calls {
				c.await("answer", a.done)
				c.ok(a.err)
			}
			c.same("trips", len(c.gate.seen())-before, want)
		}
		c.same("scripts of the last", c.gate.scripts(), []string{severalScript.verb})
		c.same("acknowledged", c.acknowledged(two), []string{"task-0", "task-1"})
	})

	t.Run("and what is wrong with one checkpoint is the matter of that one", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		one, two, three := c.pending(9), c.pending(9), c.pending(9)
		_, release := c.first(one, "a")
		c.ok(c.redis.Set(t.Context(), c.keys.acks(two), "of another type", 0).Err())
		var calls []*awaited
		for _, id := range []int64{one, two, three} {
			calls = append(calls, c.queue(id, items("b")...)...)
		}
		release()
		c.same("outcomes", c.outcomes(calls), []string{"acknowledged 2 pending", "internal", "acknowledged 1 pending"})
		c.same("trips", c.gate.seen(), []ackTripSeen{{one: 1}, {one: 1, two: 1, three: 1}})
	})

	t.Run("and what is wrong with one is the matter of that one", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		id := c.pending(9)
		_, release := c.first(id, "a")
		stale := int64(7)
		calls := c.queue(id,
			coordinator.AckItem{TaskID: "b", Attempt: 2},
			coordinator.AckItem{TaskID: "b", Attempt: 1},
			coordinator.AckItem{TaskID: "c", Epoch: &stale},
			coordinator.AckItem{TaskID: "d", Digest: digestOf("nobody's")},
			coordinator.AckItem{TaskID: "a", Part: partContent("x\n")},
			coordinator.AckItem{TaskID: "a"},
			coordinator.AckItem{TaskID: "e", Part: partContent("y\n")},
			coordinator.AckItem{TaskID: "f"},
		)
		release()
		c.same("outcomes", c.outcomes(calls), []string{
			"acknowledged 2 pending", "refused 2 pending stale_attempt", "refused 2 pending stale_epoch", "refused 2 pending part_changed",
			"refused 2 pending ack_conflict", "duplicate 2 pending", "acknowledged 3 pending", "acknowledged 4 pending",
		})
		c.same("trips", len(c.gate.seen()), 2)
		c.same("acknowledged", c.acknowledged(id), []string{"a", "b", "e", "f"})
	})

	t.Run("calls of several items too, each told where the checkpoint stands after its own", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		id := c.pending(9)
		_, release := c.first(id, "a")
		calls := []*awaited{c.queueOne(t.Context(), id, items("b", "c")...), c.queueOne(t.Context(), id, items("d", "b", "e")...)}
		release()
		for i, want := range []struct{ outcomes, acked int }{{2, 3}, {3, 5}} {
			c.await("answer", calls[i].done)
			c.ok(calls[i].err)
			c.same("outcomes", len(calls[i].result.Outcomes), want.outcomes)
			c.same("acknowledged", calls[i].result.AcknowledgedTasks, want.acked)
		}
		c.same("the repeated one", calls[1].result.Outcomes[1].Outcome, coordinator.AckDuplicate)
		c.same("trips", c.gate.seen(), []ackTripSeen{{id: 1}, {id: 5}})
	})

	t.Run("no more than a script takes", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		id := c.pending(5000)
		_, release := c.first(id, "a")
		var calls []*awaited
		for n := range 20 {
			calls = append(calls, c.queueOne(t.Context(), id, items(tasks(fmt.Sprint("task-", n, "-"), soloItems)...)...))
		}
		release()
		for _, a := range calls {
			c.await("answer", a.done)
			c.ok(a.err)
		}
		most := scriptItems / soloItems * soloItems
		c.same("trips", c.gate.seen(), []ackTripSeen{{id: 1}, {id: most}, {id: 20*soloItems - most}})
	})

	t.Run("but what is large goes at once", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		id := c.pending(5000)
		first, release := c.first(id, "a")
		bulk := c.start(t.Context(), id, items(tasks("task-", soloItems+1)...)...)
		large := c.start(t.Context(), id, coordinator.AckItem{TaskID: "b", Part: partContent(strings.Repeat("x", soloBytes) + "\n")})
		c.await("answer of the bulk", bulk.done)
		c.await("answer of the large one", large.done)
		c.ok(errors.Join(bulk.err, large.err))
		release()
		c.same("the first, which has been overtaken", c.outcome(first), fmt.Sprintf("acknowledged %d pending", soloItems+3))
	})
}

func TestACallerThatGivesUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})

	t.Run("while it waits has changed nothing", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		id := c.pending(9)
		first, release := c.first(id, "a")
		late, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		calls := []*awaited{c.queueOne(t.Context(), id, items("b")...), c.queueOne(t.Context(), id, items("c")...), c.queueOne(late, id, items("d")...)}
		calls[0].cancel(nil)
		c.await("answer", calls[0].done)
		if !errors.Is(calls[0].err, context.Canceled) {
			t.Errorf("a caller that went away: %v, want context.Canceled", calls[0].err)
		}
		c.same("a caller out of time", c.outcome(calls[2]), string(coordinator.CodeStoreUnavailable))
		release()
		c.same("the first", c.outcome(first), "acknowledged 1 pending")
		c.same("who waits still", c.outcome(calls[1]), "acknowledged 2 pending")
		c.same("acknowledged", c.acknowledged(id), []string{"a", "c"})
	})

	t.Run("with all others while they wait leaves nothing to do", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		id := c.pending(9)
		first, release := c.first(id, "a")
		for _, a := range c.queue(id, items("b", "c")...) {
			a.cancel(nil)
			c.await("answer", a.done)
		}
		release()
		c.same("the first", c.outcome(first), "acknowledged 1 pending")
		c.same("the next", c.outcome(c.start(t.Context(), id, items("d")...)), "acknowledged 2 pending")
		c.same("trips", c.gate.seen(), []ackTripSeen{{id: 1}, {id: 1}})
	})

	t.Run("on the way leaves the others alone, and its own may count", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, server)
		id := c.pending(9)
		releaseBoth := c.gate.hold(1)
		t.Cleanup(releaseBoth)
		_, release := c.first(id, "a")
		late := make(hourglass)
		calls := []*awaited{c.queueOne(t.Context(), id, items("b")...), c.queueOne(late, id, items("c")...), c.queueOne(t.Context(), id, items("d")...)}
		release()
		c.trip(1)
		calls[0].cancel(nil)
		close(late)
		c.await("answer", calls[0].done)
		if !errors.Is(calls[0].err, context.Canceled) {
			t.Errorf("a caller that went away: %v, want context.Canceled", calls[0].err)
		}
		c.same("a caller out of time", c.outcome(calls[1]), string(coordinator.CodeOutcomeUnknown))
		releaseBoth()
		c.same("who stayed", c.outcome(calls[2]), "acknowledged 4 pending")
	})
}

// hourglass is a context that runs out of time when it is closed.
type hourglass chan struct{}

// Deadline is not known before.
func (hourglass) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed with it.
func (h hourglass) Done() <-chan struct{} { return h }

// Value is none.
func (hourglass) Value(any) any { return nil }

// Err is that of a context out of time.
func (h hourglass) Err() error {
	select {
	case <-h:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestWhatRedisRefusesReachesEveryCallerOfATrip(t *testing.T) {
	t.Parallel()
	for _, checkpoints := range []int{1, 3} {
		t.Run(fmt.Sprintf("for %d checkpoints", checkpoints), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{Config: []string{"--maxmemory-policy", "noeviction"}})
			c := newCrowd(t, server)
			var ids []int64
			for range checkpoints {
				ids = append(ids, c.pending(9))
			}
			_, release := c.first(ids[0], "a")
			var calls []*awaited
			for _, id := range ids {
				calls = append(calls, c.queue(id, items("b", "c")...)...)
			}
			must(t, c.redis.ConfigSet(t.Context(), "maxmemory", "1").Err())
			release()
			for _, outcome := range c.outcomes(calls) {
				c.same("while Redis is full", outcome, string(coordinator.CodeStoreFull))
			}

			_, release = c.first(ids[0], "a")
			calls = c.queue(ids[0], items("b")...)
			if checkpoints > 1 {
				calls = append(calls, c.queue(ids[1], items("b")...)...)
			}
			c.wire.proxy.Stop()
			c.cutOff()
			release()
			for _, outcome := range c.outcomes(calls) {
				c.same("while Redis is away", outcome, string(coordinator.CodeStoreUnavailable))
			}
		})
	}
}

//nolint:paralleltest // It looks for goroutines that are left, and those of other tests are.
func TestClosingWaitsForAcknowledgementsOnTheirWay(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Own: true})
	before := goleak.IgnoreCurrent()
	s, err := New(Options{URL: server.URL, KeyPrefix: server.Prefix})
	must(t, err)
	must(t, acknowledgeScript.text.Load(t.Context(), s.client).Err())
	g := newGate()
	s.client.AddHook(g)
	c := &crowd{lossyLab: &lossyLab{lab: &lab{TB: t, job: coordinator.DefaultJob}, store: s}, gate: g}
	call := aTriggerCall()
	call.RequiredTaskAcks = 5
	made, err := s.Trigger(t.Context(), call)
	must(t, err)
	id := made.Checkpoint.ID
	releaseSecond := g.hold(1)
	first, release := c.first(id, "a")
	second := c.queueOne(t.Context(), id, items("b")...)
	release()
	c.trip(1)
	second.cancel(nil)
	c.await("answer of the first", first.done)
	c.await("answer", second.done)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	c.until("closing", c.closing)
	for range 100 {
		runtime.Gosched() // it could go on to close the connections now
	}
	releaseSecond()
	must(t, <-closed)
	acked, err := server.Client(t).HExists(t.Context(), s.keys(c.job).acks(id), "b").Result()
	must(t, err)
	if !acked {
		t.Error("the connections were closed before the acknowledgement came back")
	}
	if _, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: c.job, ID: id, Items: items("c")}); err == nil {
		t.Error("a closed store acknowledges")
	}
	goleak.VerifyNone(t, before)
}

func (c *crowd) closing() bool {
	c.store.acks.mu.Lock()
	defer c.store.acks.mu.Unlock()
	return c.store.acks.closed
}

// The whole of a large checkpoint comes at once.
func TestALargeCheckpointIsCompletedByExactlyOne(t *testing.T) {
	t.Parallel()
	const callers = 256
	total := int64(100_000)
	if raceDetector || testing.Short() {
		total = 5000
	}
	server := redistest.Start(t, redistest.Options{Own: true})
	heard := new(hearsay)
	s := openObserved(t, server, heard)
	call := aTriggerCall()
	call.RequiredTaskAcks, call.TimeoutMs = int(total), new(int64(0))
	made, err := s.Trigger(t.Context(), call)
	must(t, err)
	id := made.Checkpoint.ID

	var next, completing atomic.Int64
	places := make([]atomic.Bool, total+1)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := next.Add(1); n <= total; n = next.Add(1) {
				result, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: items("task-" + strconv.FormatInt(n, 10))})
				if err != nil || result.Outcomes[0].Outcome != coordinator.AckAccepted {
					t.Errorf("task %d: %+v, %v", n, result, err)
					return
				}
				if places[result.AcknowledgedTasks].Swap(true) {
					t.Errorf("two tasks have place %d", result.AcknowledgedTasks)
				}
				if result.Status == coordinator.StatusCompleted {
					completing.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := completing.Load(); n != 1 {
		t.Errorf("%d callers completed it", n)
	}
	if ends := heard.sorted("ended"); len(ends) != 1 {
		t.Errorf("reported ends: %v", ends)
	}
	cp, err := s.Get(t.Context(), coordinator.Ref{Job: coordinator.DefaultJob, ID: id})
	must(t, err)
	if cp.Status != coordinator.StatusCompleted || cp.AcknowledgedTasks != int(total) {
		t.Errorf("it is %s with %d acknowledgements", cp.Status, cp.AcknowledgedTasks)
	}
}
