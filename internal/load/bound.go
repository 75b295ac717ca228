package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Who is on whose behalf something is taken: the name or address of a client, and a job; ""
// where there is none.
type Who struct{ Client, Job string }

// Bound is so many units of something, of which requests hold some. It is safe for
// concurrent use.
//
// Whoever finds none free waits in a queue, in which clients take turns, and the jobs of a
// client among themselves: one that has sent thousands of requests is served once in each
// round, as one that has sent one. Where shares are kept, a job or client that holds some
// gets more only while it holds less than its share of what is free, so that alone it has
// its percentage, and however many others have theirs, there is some left for a newcomer.
type Bound struct {
	bound

	used, waiting atomic.Int64
	refused       [reasons]atomic.Int64

	mu sync.Mutex
	// jobs and clients are what each holds, where shares are kept.
	jobs, clients map[string]int64
	queue         queue
}

// bound is how a Bound is.
type bound struct {
	size int64
	// places is how many may wait, patience how long.
	places   int
	patience time.Duration
	// jobShare and clientShare are percentages; 0 keeps no shares.
	jobShare, clientShare int
}

func newBound(b bound) *Bound {
	return &Bound{bound: b, jobs: map[string]int64{}, clients: map[string]int64{}, queue: newQueue()}
}

// Reason says why something was refused.
type Reason int

// The reasons.
const (
	// Full is that everything is taken.
	Full Reason = iota
	// Crowd is that more requests of this client and job wait than may.
	Crowd
	// JobShare and ClientShare are that the job or the client holds its share.
	JobShare
	ClientShare
	reasons
)

// RefusalError is the error of whoever gets nothing.
type RefusalError struct {
	Reason Reason
	// Size is how many units there are.
	Size int64
	// After is when to try again.
	After time.Duration
}

// Error says so, for the log.
func (r *RefusalError) Error() string {
	return fmt.Sprintf("none of %d for reason %d", r.Size, r.Reason)
}

// Usage is how a bound fares. Full and Unfair count refusals: of what nobody could have got,
// and of what only this job or client could not.
type Usage struct{ Used, Size, Waiting, Full, Unfair int64 }

// Usage gives the present numbers.
func (b *Bound) Usage() Usage {
	u := Usage{Used: b.used.Load(), Size: b.size, Waiting: b.waiting.Load(), Full: b.refused[Full].Load()}
	for reason := Crowd; reason < reasons; reason++ {
		u.Unfair += b.refused[reason].Load()
	}
	return u
}

// TryTake takes one unit where no shares are kept, nobody waits and one is free. It costs
// next to nothing, and who asks need not be known.
func (b *Bound) TryTake() bool {
	return b.clientShare == 0 && b.waiting.Load() == 0 && b.claim(1)
}

// Take takes n units, at most all there are, and waits for them for a while. The error is a
// *RefusalError, or why ctx has ended. Give them back with [Bound.Give].
func (b *Bound) Take(ctx context.Context, who Who, n int64) error {
	w := &waiter{who: who, units: min(n, b.size), granted: make(chan struct{})}
	if err := b.enqueue(w); err != nil {
		return err
	}
	select {
	case <-w.granted:
		return nil
	default:
	}
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return b.giveUp(ctx, w)
}

// enqueue puts a waiter into the queue, unless it is full and there is nothing to take.
func (b *Bound) enqueue(w *waiter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue.push(w)
	// In this order: whoever gives units back looks for those who wait afterwards.
	b.waiting.Add(1)
	b.dispatch()
	// A line may have half of the places, the next half of the rest, and so on.
	length := b.queue.length(w.who)
	switch waiting := int(b.waiting.Load()); {
	case !w.queued() || waiting <= b.places && length-1 <= b.places-waiting:
		return nil
	default:
		b.leave(w)
		if waiting <= b.places {
			return b.refuse(Crowd)
		}
		return b.refuse(b.lacking(w.who))
	}
}

// giveUp ends waiting. What was granted in the same moment counts, unless nobody wants it.
func (b *Bound) giveUp(ctx context.Context, w *waiter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !w.queued() && ctx.Err() == nil:
		return nil
	case !w.queued():
		b.give(w.who, w.units)
	default:
		b.leave(w)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return b.refuse(b.lacking(w.who))
}

func (b *Bound) leave(w *waiter) {
	b.queue.remove(w)
	b.waiting.Add(-1)
	b.dispatch() // of those behind it some may want less
}

func (b *Bound) refuse(reason Reason) *RefusalError {
	b.refused[reason].Add(1)
	return &RefusalError{Reason: reason, Size: b.size, After: max(time.Second, b.patience/2)}
}

// Give gives units back that were taken for who.
func (b *Bound) Give(who Who, n int64) {
	n = min(n, b.size)
	if b.clientShare == 0 {
		b.used.Add(-n)
		if b.waiting.Load() > 0 {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.dispatch()
		}
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(who, n)
}

func (b *Bound) give(who Who, n int64) {
	b.used.Add(-n)
	b.hold(who, -n)
	b.dispatch()
}

// dispatch gives what is free to those whose turn it is.
func (b *Bound) dispatch() {
	for {
		w := b.queue.next(b.judge)
		if w == nil {
			return
		}
		b.waiting.Add(-1)
		close(w.granted)
	}
}

// judge takes a waiter's units if it may have them. One for whom there is too little keeps
// its turn, or those who want less would pass it for ever; one that has its share loses it.
func (b *Bound) judge(w *waiter) verdict {
	switch {
	case b.lacking(w.who) != Full:
		return passes
	case !b.claim(w.units):
		return holds
	}
	b.hold(w.who, w.units)
	return taken
}

// claim takes units if they are free.
func (b *Bound) claim(n int64) bool {
	for {
		used := b.used.Load()
		if used+n > b.size {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// lacking is what may keep who from getting any: Full, unless the job or the client holds its
// share.
func (b *Bound) lacking(who Who) Reason {
	if b.clientShare == 0 {
		return Full
	}
	free := b.size - b.used.Load()
	exceeds := func(held int64, share int) bool {
		return held > 0 && held*int64(100-share) >= free*int64(share)
	}
	switch {
	case free == 0:
		return Full
	case exceeds(b.jobs[who.Job], b.jobShare):
		return JobShare
	case exceeds(b.clients[who.Client], b.clientShare):
		return ClientShare
	}
	return Full
}

// hold notes what job and client hold.
func (b *Bound) hold(who Who, n int64) {
	if b.clientShare == 0 {
		return
	}
	note := func(held map[string]int64, name string) {
		if name == "" {
			return
		}
		if held[name] += n; held[name] == 0 {
			delete(held, name)
		}
	}
	note(b.jobs, who.Job)
	note(b.clients, who.Client)
}
