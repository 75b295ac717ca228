package worker

import (
	"context"
	"sync"
	"time"
)

// cut is one checkpoint in which the worker takes part.
type cut struct {
	Checkpoint

	// ctx is what callbacks get, and transfer that of requests: an upload that is on its way
	// when the checkpoint completes may be the one that completed it, so its answer is awaited.
	ctx      context.Context //nolint:containedctx // A cut is something that goes on, and ends.
	transfer context.Context //nolint:containedctx // As ctx.
	end      context.CancelCauseFunc
	cutOff   context.CancelCauseFunc

	// The rest is guarded by the ledger's lock.

	// taken tells that Snapshot was called, final that Work had returned before, acked that the
	// part counts.
	taken, final, acked bool
	ended               *Ended
	settled             chan struct{} // closed when nothing more can be learned
}

// answerPatience is how long the answer to an upload is awaited once its checkpoint is known
// to have completed. The server looks every two seconds.
const answerPatience = 10 * time.Second

// ledger keeps the cuts whose end is not known, and what the user is to be told.
type ledger struct {
	lock sync.Mutex
	cuts map[int64]*cut
	// over are the checkpoints without a cut that were heard to end since the server was last
	// asked what is pending. Its answer may be from before. They are forgotten with the next
	// question, so there are as many as end while one part is handed in.
	over map[int64]bool
	// worked tells that Work has returned, and that a checkpoint with the state as it is now
	// is waited for.
	worked bool
	news   []word
	more   chan struct{} // capacity 1
}

// word is what the user is to be told about a cut.
type word struct {
	Ended
	final bool
}

func (l *ledger) init() {
	l.cuts, l.over, l.more = make(map[int64]*cut), make(map[int64]bool), make(chan struct{}, 1)
}

// asking notes that the server is about to be asked what is pending.
func (l *ledger) asking() {
	l.lock.Lock()
	defer l.lock.Unlock()
	clear(l.over)
}

// finish notes that Work has returned.
func (l *ledger) finish() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.worked = true
}

// open begins a cut; nil when it is known already, or too late.
func (l *ledger) open(ctx context.Context, checkpoint Checkpoint) *cut {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.cuts[checkpoint.ID] != nil || l.over[checkpoint.ID] {
		return nil
	}
	c := &cut{Checkpoint: checkpoint, settled: make(chan struct{})}
	c.ctx, c.end = context.WithCancelCause(ctx)
	c.transfer, c.cutOff = context.WithCancelCause(ctx)
	l.cuts[checkpoint.ID] = c
	return c
}

// take notes that Snapshot is about to be called; false when it is too late for that.
func (l *ledger) take(c *cut) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	c.taken, c.final = c.ended == nil, l.worked
	return c.taken
}

// acknowledge notes that the part of a cut counts.
func (l *ledger) acknowledge(c *cut) {
	l.lock.Lock()
	defer l.lock.Unlock()
	c.acked = true
	if c.ended != nil {
		l.settle(c)
	}
}

// close notes how a checkpoint ended; only the first word counts.
func (l *ledger) close(ended *Ended) {
	l.lock.Lock()
	defer l.lock.Unlock()
	c := l.cuts[ended.ID]
	if c == nil {
		l.over[ended.ID] = true
		return
	}
	if c.ended != nil {
		return
	}
	c.ended = ended
	c.end(ended)
	if ended.Reason == ReasonCompleted && c.taken && !c.acked {
		time.AfterFunc(answerPatience, func() { c.cutOff(ended) })
		return // whoever uploads finds out whether the part is in
	}
	c.cutOff(ended)
	l.settle(c)
}

// exclude notes that a checkpoint completed and the part of this task is not in it.
func (l *ledger) exclude(c *cut) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if !c.acked {
		c.ended = &Ended{ID: c.ID, Reason: ReasonNotIncluded}
		l.settle(c)
	}
}

// forget ends a cut of which nothing more will be heard.
func (l *ledger) forget(c *cut) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.settle(c)
}

// settle hands the news on. The lock is held.
func (l *ledger) settle(c *cut) {
	if l.cuts[c.ID] != c {
		return
	}
	delete(l.cuts, c.ID)
	close(c.settled)
	c.end(nil)
	c.cutOff(nil)
	if !c.taken || c.ended == nil {
		return
	}
	l.news = append(l.news, word{*c.ended, c.final})
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// endOf is how a cut ended, nil while that is not known.
func (l *ledger) endOf(c *cut) *Ended {
	l.lock.Lock()
	defer l.lock.Unlock()
	return c.ended
}

// next takes what is to be told.
func (l *ledger) next() []word {
	l.lock.Lock()
	defer l.lock.Unlock()
	news := l.news
	l.news = nil
	return news
}
