package filestore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// batchLimit is how many changes share a transaction at most. It bounds the memory of a
// batch: each may carry a part of InlineBytes.
const batchLimit = 256

// change is one queued function over a transaction.
type change struct {
	ctx   context.Context //nolint:containedctx // It travels through the queue with its call.
	apply func(*step) error
	// frees is set for what must work on a full disk too.
	frees bool
	// step and err are the outcome, valid once done is closed. step is nil where nothing
	// was changed.
	step *step
	err  error
	done chan struct{}
}

// committer is the only writer of the database. It runs the changes that wait in one
// transaction, in the order in which they came, and syncs once for all of them.
type committer struct {
	db      *bolt.DB
	disk    disk
	guard   *guard
	time    *timeline
	reserve *reserve
	// breaks is told of the failure that is the last, before anybody is answered.
	breaks func()
	// unreadable is that of the ledger.
	unreadable func(job string, id int64, err error)
	// last is the number of the last transaction, 0 before the first.
	last int

	mu     sync.Mutex
	queue  []*change
	closed bool
	wake   chan struct{} // capacity 1: a token says that the queue is not empty
	idle   chan struct{} // closed when the goroutine has ended

	// broken is why no more changes are taken, see commitFailed.
	broken atomic.Pointer[coordinator.Cause]
}

// start begins to take changes.
func (c *committer) start() {
	c.wake, c.idle = make(chan struct{}, 1), make(chan struct{})
	go c.run()
}

// stop takes no more changes until the process starts again. The first reason stays.
func (c *committer) stop(cause *coordinator.Cause) {
	c.breaks()
	c.broken.CompareAndSwap(nil, cause)
}

// usable is nil while changes are taken.
func (c *committer) usable() error {
	if broken := c.broken.Load(); broken != nil {
		return broken //nolint:wrapcheck // It is our own.
	}
	return c.guard.check()
}

var errClosed = errors.New("the store is closed")

// do applies a change and returns when it is durable. The error is the change's own
// refusal, which is as durable as what it wrote before refusing; or nothing was changed.
//
// A ctx that ends keeps the change from running; once it runs, do waits for it, so that
// the caller always knows the outcome. What frees room may use the reserve for it.
func (c *committer) do(ctx context.Context, frees bool, apply func(*step) error) (*step, error) {
	if err := c.usable(); err != nil {
		return nil, coordinator.ErrStoreUnavailable(err)
	}
	ch := &change{ctx: ctx, apply: apply, frees: frees, done: make(chan struct{})}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, coordinator.ErrStoreUnavailable(errClosed)
	}
	c.queue = append(c.queue, ch)
	select {
	case c.wake <- struct{}{}:
	default: // a token is there already
	}
	c.mu.Unlock()
	<-ch.done
	return ch.step, ch.err
}

// close lets the queued changes finish and ends the goroutine.
func (c *committer) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.wake)
	}
	c.mu.Unlock()
	<-c.idle
}

func (c *committer) run() {
	defer close(c.idle)
	for range c.wake {
		for batch := c.take(); len(batch) > 0; batch = c.take() {
			c.time.begin()
			c.commit(batch)
			c.time.end()
			for _, ch := range batch {
				close(ch.done)
			}
		}
	}
}

func (c *committer) take() []*change {
	c.gather()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), batchLimit)
	batch := c.queue[:n:n]
	c.queue = c.queue[n:]
	if len(c.queue) == 0 {
		c.queue = nil // let the array go with its batch
	}
	return batch
}

// gather lets those who are about to queue a change do so before a batch is taken. It goes
// on as long as each turn brings more, so that a lone change waits for nobody: those whom
// the last commit has answered would otherwise find that the next one has begun without
// them, and each commit would be for half of the callers.
func (c *committer) gather() {
	for before := 0; ; {
		c.mu.Lock()
		waiting := len(c.queue)
		c.mu.Unlock()
		if waiting == before || waiting >= batchLimit {
			return
		}
		before = waiting
		runtime.Gosched()
	}
}

// commit gives every change of the batch its outcome. A change that panics spoils the
// transaction that it shares; so the transaction is rolled back, that change fails, and
// the others run again without it.
func (c *committer) commit(batch []*change) {
	for len(batch) > 0 {
		guilty, err := c.attempt(batch)
		switch {
		case err == nil:
			return
		case guilty >= 0:
			fail(batch[guilty], err)
			rest := append([]*change{}, batch[:guilty]...)
			batch = append(rest, batch[guilty+1:]...)
		case len(batch) > 1 && c.broken.Load() == nil:
			// Nobody knows whose pages did not fit on the disk: alone, a change that
			// frees room is not refused for its neighbour's sake.
			for i := range batch {
				c.commit(batch[i : i+1])
			}
			return
		case len(batch) == 1 && batch[0].frees && coordinator.CodeOf(err) == coordinator.CodeStoreFull && c.reserve.give():
			// Once more, with the room that was kept for this.
		default:
			for _, ch := range batch {
				fail(ch, err)
			}
			return
		}
	}
}

func fail(ch *change, err error) { ch.step, ch.err = nil, err }

// attempt runs the batch in one transaction. On error nothing was changed; guilty is the
// index of the change whose fault it was, -1 when it was the commit's.
func (c *committer) attempt(batch []*change) (guilty int, err error) {
	if err := c.usable(); err != nil {
		return -1, coordinator.ErrStoreUnavailable(err)
	}
	if err := c.guard.checkNow(); err != nil {
		return -1, coordinator.ErrStoreUnavailable(err)
	}
	tx, err := c.db.Begin(true)
	if err != nil {
		return -1, coordinator.ErrStoreUnavailable(fmt.Errorf("begin: %w", err))
	}
	// After a commit, failed or not, there is nothing to roll back and this does nothing.
	defer func() { _ = tx.Rollback() }()
	number := tx.ID()
	if c.last != 0 && number != c.last+1 {
		overwritten := &coordinator.Cause{
			Says: "meta.db was overwritten while the server ran", Restart: true, Err: fmt.Errorf("transaction %d follows %d", number, c.last),
		}
		c.stop(overwritten)
		return -1, coordinator.ErrStoreUnavailable(overwritten)
	}
	ledger := newLedger(tx, c.unreadable)
	for i, ch := range batch {
		if err := c.apply(ch, ledger); err != nil {
			return i, err
		}
	}
	if !ledger.dirty {
		return -1, nil // nothing to sync: late and repeated messages cost no disk
	}
	if err := ledger.flush(); err != nil {
		return -1, coordinator.ErrInternal(err)
	}
	if err := c.disk.Commit(tx); err != nil {
		return -1, c.commitFailed(number, err)
	}
	c.last = number
	if err := c.guard.checkNow(); errors.Is(err, errMoved) {
		// It is written, to a database that perhaps nobody finds again.
		return -1, coordinator.ErrOutcomeUnknown(err)
	}
	return -1, nil
}

// apply runs one change. A refusal is its outcome like any other; the error is a defect,
// which spoils the transaction.
func (c *committer) apply(ch *change, ledger *ledger) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = coordinator.ErrInternal(fmt.Errorf("a change panicked: %v\n%s", cause, debug.Stack()))
		}
	}()
	if cause := context.Cause(ch.ctx); cause != nil {
		ch.step, ch.err = nil, interrupted(cause)
		return nil
	}
	ch.step = &step{ledger: ledger, now: c.time.clock()}
	ch.err = ch.apply(ch.step)
	if _, refusal := errors.AsType[*coordinator.Error](ch.err); ch.err != nil && !refusal {
		return coordinator.ErrInternal(ch.err)
	}
	return nil
}

// commitFailed judges the failed commit of a transaction. Where the page that makes it valid was not
// written, nothing was changed, and a full disk is all that is wrong. Where it was written, or that is
// not known, nobody knows what the disk has. In both cases a file system that failed a sync once may
// report the next one as good although pages are missing. So, but for a full disk that was told in
// time, the store takes no more changes, and the next start reads what the disk really has.
func (c *committer) commitFailed(number int, err error) error {
	err = fmt.Errorf("commit: %w", err)
	wrote := c.shows(number)
	if isFull(err) && !wrote {
		return coordinator.ErrStoreFull(err)
	}
	broken := &coordinator.Cause{Says: "writing to the data directory has failed: " + reasonOf(err), Restart: true, Err: err}
	c.stop(broken)
	if wrote {
		return coordinator.ErrOutcomeUnknown(err)
	}
	return coordinator.ErrStoreUnavailable(broken)
}

// shows tells whether the database, as the system has it in memory, has the transaction. Where that
// cannot be seen it may have it.
func (c *committer) shows(number int) (shows bool) {
	defer func() {
		if recover() != nil { // the file may not be mapped any more
			shows = true
		}
	}()
	err := c.db.View(func(tx *bolt.Tx) error {
		shows = tx.ID() >= number
		return nil
	})
	return shows || err != nil
}
