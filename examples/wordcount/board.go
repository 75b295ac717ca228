package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/checkpointd/checkpointd/worker"
)

// board is where the driver sees how the fleet fares.
type board struct {
	lock    sync.Mutex
	changed chan struct{} // closed with every change
	seen

	// err is why the trial cannot go on.
	err error
}

// seen is what the workers have told.
type seen struct {
	// lines is how far each partition has been read.
	lines map[string]int64
	// again counts the lines that were read by one life and were not in the state of the next.
	again int64
	// restored and finished count the workers of this life that have said so, ended those that
	// have ended well.
	restored, finished, ended int
	// kills counts what was killed, prepared the cuts that workers have prepared.
	kills, prepared int
	// transfer is the last transfer that was told of.
	transfer string

	// origins are the checkpoints that fleets came back to.
	origins map[int64]bool
	// committed and rolledBack are the batches that restores found in the sinks.
	committed, rolledBack int
}

func newBoard() *board {
	return &board{changed: make(chan struct{}), seen: seen{lines: map[string]int64{}, origins: map[int64]bool{}}}
}

// change is the only way to write to the board.
func (b *board) change(f func()) {
	b.lock.Lock()
	defer b.lock.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *board) hear(r report) {
	b.change(func() {
		for name, lines := range r.Lines {
			b.again += max(b.lines[name]-lines, 0)
			b.lines[name] = lines
		}
		switch r.Event {
		case eventRestored:
			b.restored++
			if r.Checkpoint != worker.None {
				b.origins[r.Checkpoint] = true
			}
			b.committed += r.Committed
			b.rolledBack += r.RolledBack
			b.transfer = ""
		case eventPrepared:
			b.prepared++
		case eventTransfer:
			b.transfer = r.Transfer
		case eventFinished:
			b.finished++
		}
	})
}

// fail ends the trial.
func (b *board) fail(err error) { b.change(func() { b.err = errors.Join(b.err, err) }) }

// begin clears what was told by a fleet that is gone.
func (b *board) begin() {
	b.change(func() { b.restored, b.finished, b.ended, b.transfer = 0, 0, 0, "" })
}

// look gives what is seen now.
func (b *board) look() (s seen, changed <-chan struct{}, _ error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	s = b.seen
	s.lines, s.origins = maps.Clone(b.lines), maps.Clone(b.origins)
	return s, b.changed, b.err
}

// read counts the lines that the fleet has read.
func (s *seen) read() (lines int64) {
	for _, n := range s.lines {
		lines += n
	}
	return lines
}

// patience is how long a fleet may be silent. One that reads or takes part in checkpoints is not.
const patience = time.Minute

// await waits until the board shows what is asked for, or the time is over, which is no error.
func (b *board) await(ctx context.Context, within time.Duration, what func(seen) bool) error {
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		now, changed, err := b.look()
		if err != nil || what(now) {
			return err
		}
		silence := time.NewTimer(patience)
		select {
		case <-changed:
			silence.Stop()
		case <-over.C:
			return nil
		case <-silence.C:
			return fmt.Errorf("the fleet has said nothing for %s", patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
