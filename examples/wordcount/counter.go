package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/checkpointd/checkpointd/worker"
)

// counter is the program that a worker runs: it reads its share of the partitions, counts, and
// writes a record of each line to the sink of its partition.
type counter struct {
	share worker.Share
	// text and sink are the folders of the partitions' files.
	text, sink string
	// pace is how many lines of each partition are read in a second.
	pace float64
	// early breaks the sinks, see there.
	early bool

	reports *reporter
	// hurry is closed when there is no pace any more, finish when the whole fleet has read all.
	hurry, finish chan struct{}
	// fail ends the worker where a callback has no error to return.
	fail context.CancelCauseFunc

	// lock guards the tallies and what the sinks have not prepared.
	lock    sync.Mutex
	tallies map[string]*tally
	sinks   map[string]*sink
	sources map[string]*source
}

// restore brings the share of the state back, wherever its parts come from, and makes the sinks
// follow it.
func (c *counter) restore(_ context.Context, from worker.Checkpoint, entries worker.Entries) error {
	c.tallies, c.sinks, c.sources = map[string]*tally{}, map[string]*sink{}, map[string]*source{}
	for _, name := range partitionNames() {
		if c.share.Owns(name) {
			c.tallies[name] = newTally()
		}
	}
	for entry, err := range entries {
		if err != nil {
			return err
		}
		t := c.tallies[partitionOf(entry.Key)]
		if t == nil {
			return fmt.Errorf("the key %q of %s is not in this worker's share", entry.Key, entry.TaskID)
		}
		if err := t.put(entry); err != nil {
			return err
		}
	}
	restored := report{Event: eventRestored, Checkpoint: from.ID, Lines: map[string]int64{}}
	for name, t := range c.tallies {
		s, err := openSink(sinkFolder(c.sink, name))
		if err != nil {
			return err
		}
		s.early = c.early
		done, undone, err := s.settle(from.ID)
		if err != nil {
			return err
		}
		restored.Committed += done
		restored.RolledBack += undone
		restored.Lines[name] = t.Line
		c.sinks[name] = s
		if c.sources[name], err = openSource(c.text, name, t.Byte); err != nil {
			return err
		}
	}
	return c.reports.tell(restored)
}

// snapshot takes the cut. The sinks prepare while the next lines are read.
func (c *counter) snapshot(_ context.Context, checkpoint worker.Checkpoint) (worker.Entries, error) {
	tallies, batches := c.cut()
	for name, batch := range batches {
		if err := c.sinks[name].prepare(checkpoint.ID, batch); err != nil {
			c.fail(err) // the batch is lost to this life; the next one reads its lines again
			return nil, err
		}
	}
	if err := c.reports.tell(report{Event: eventPrepared, Checkpoint: checkpoint.ID}); err != nil {
		return nil, err
	}
	return entries(tallies), nil
}

// cut gives what belongs together: the tallies, and what was written up to the same line.
func (c *counter) cut() (map[string]*tally, map[string][]byte) {
	tallies, batches := make(map[string]*tally), make(map[string][]byte)
	c.lock.Lock()
	defer c.lock.Unlock()
	for name, t := range c.tallies {
		tallies[name], batches[name] = t.clone(), c.sinks[name].cut()
	}
	return tallies, batches
}

// completed lets everybody see what belongs to the checkpoint.
func (c *counter) completed(_ context.Context, id int64) {
	for _, s := range c.sinks {
		if _, err := s.commit(id); err != nil {
			c.fail(err) // the next life settles it
			return
		}
	}
}

const (
	// tick is how often the pace is looked at.
	tick = 10 * time.Millisecond
	// tellEvery is the time between two reports.
	tellEvery = 200 * time.Millisecond
	// batchMax is how many lines of a partition are read before a cut can be taken.
	batchMax = 500
)

// work reads everything, then waits until the fleet has.
func (c *counter) work(ctx context.Context) error {
	defer func() {
		for _, s := range c.sources {
			s.close()
		}
	}()
	began, told, read, hurry := time.Now(), time.Now(), int64(0), c.hurry
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ended := false; !ended; {
		due := int64(math.MaxInt64)
		if hurry != nil {
			due = int64(c.pace * time.Since(began).Seconds())
		}
		batch := min(due-read, batchMax)
		var err error
		if ended, err = c.read(batch); err != nil {
			return err
		}
		read += batch
		if ended || time.Since(told) >= tellEvery {
			told = time.Now()
			if err := c.reports.tell(report{Event: eventLines, Lines: c.lines()}); err != nil {
				return err
			}
		}
		if read < due && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-hurry:
			hurry = nil
		case <-ticker.C:
		}
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.finish:
		return c.reports.tell(report{Event: eventFinished})
	}
}

// read counts up to so many lines of each partition.
func (c *counter) read(lines int64) (ended bool, _ error) {
	ended = true
	for name, t := range c.tallies {
		if c.sources[name] == nil {
			continue
		}
		more, err := c.readPartition(name, t, lines)
		if err != nil {
			return false, err
		}
		if !more {
			c.sources[name].close()
			delete(c.sources, name)
		}
		ended = ended && !more
	}
	return ended, nil
}

func (c *counter) readPartition(name string, t *tally, lines int64) (more bool, _ error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for range lines {
		line, err := c.sources[name].next()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading %s: %w", name, err)
		}
		c.sinks[name].write(t.add(name, line))
	}
	return true, nil
}

// lines is how far each partition has been read.
func (c *counter) lines() map[string]int64 {
	lines := make(map[string]int64, len(c.tallies))
	for name, t := range c.tallies { // only this goroutine moves them
		lines[name] = t.Line
	}
	return lines
}
