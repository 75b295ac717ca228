package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"
)

// trial is one run of a fleet through the whole text.
type trial struct {
	job    job
	server *server
	board  *board
	// program is the executable that is a worker when it is told so.
	program string
	// folder has the text, and gets the output and the logs.
	folder string
	names  []string
	size   int64 // of the text, in lines
	// fixed is how many lines of each partition are read in a second; 0 is so many that the text
	// outlasts the storm.
	fixed    float64
	interval time.Duration
	// ahead is what is still to come of the storm.
	ahead storm

	fleet []*child
	life  int64
}

// outcome is what a trial comes to.
type outcome struct {
	// state is a line for each key of the last checkpoint.
	state []byte
	// output is what the sink of each partition shows.
	output map[string][]byte

	figures figures
	seen    seen
	// lives is how often a fleet was started, struck what was killed.
	lives  int64
	struck storm
	took   time.Duration
	// reached is how much of the text had been read when the storm was over, from 0 to 1.
	reached float64
}

// Folders of a trial, beside the logs.
const (
	textFolder   = "text"
	outputFolder = "output"
)

// errInputEnded tells that the text was too short for the storm.
var errInputEnded = errors.New("the input ended before everything was killed; read slower (-pace) or more (-lines)")

// run takes the fleet, of this size at first, through the storm and to the end of the text.
func (t *trial) run(ctx context.Context, workers int, s storm) (result *outcome, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer func() {
		stop(nil)
		t.killFleet()
		t.server.kill()
	}()
	began := time.Now()
	t.ahead = s
	if err := t.server.start(ctx); err != nil {
		return nil, err
	}
	err = t.job.put(ctx, settings{Tasks: tasks(workers), IntervalMs: t.interval.Milliseconds(), TimeoutMs: checkpointTimeout.Milliseconds()})
	if err != nil {
		return nil, err
	}
	if err := t.startFleet(ctx, workers); err != nil {
		return nil, err
	}
	for i, f := range s {
		t.ahead = s[i+1:]
		if err := t.strike(ctx, f); err != nil {
			killed, servers := s[:i].killed()
			return nil, fmt.Errorf("after killing %d workers, and the server %d times: %w", killed, servers, err)
		}
	}
	now, _, err := t.board.look()
	if err != nil {
		return nil, err
	}
	if len(s) > 0 {
		t.fixed = noPace
		t.order(orderHurry)
	}
	for ended := false; !ended; {
		if ended, err = t.finish(ctx); err != nil {
			return nil, err
		}
	}
	result = &outcome{lives: t.life, struck: s, took: time.Since(began), reached: float64(now.read()) / float64(t.size)}
	return result, t.collect(ctx, result)
}

// checkpointTimeout is how long a checkpoint may stay pending. What a dead worker has left is
// superseded by the recovery, long before.
const checkpointTimeout = 30 * time.Second

// aim is how long a fault waits for the moment that it is aimed at.
const aim = 2 * time.Second

// strike kills something, and starts it again.
func (t *trial) strike(ctx context.Context, f fault) error {
	ended := func(s seen) bool { return s.read() == t.size }
	if err := t.board.await(ctx, f.after, ended); err != nil {
		return err
	}
	if f.aimed {
		now, _, _ := t.board.look()
		if err := t.board.await(ctx, aim, func(s seen) bool { return s.prepared > now.prepared }); err != nil {
			return err
		}
		if err := pause(ctx, f.later); err != nil {
			return err
		}
	}
	if now, _, _ := t.board.look(); ended(now) {
		return errInputEnded
	}
	t.board.change(func() { t.board.kills++ })
	if f.server { // the workers wait by themselves
		t.server.kill()
		if err := pause(ctx, f.notice); err != nil {
			return err
		}
		return t.server.start(ctx)
	}
	t.fleet[int(f.victim*float64(len(t.fleet)))].kill()
	if err := pause(ctx, f.notice); err != nil {
		return err
	}
	resize := len(t.fleet) != f.workers
	t.killFleet()
	if resize {
		// While nobody runs: a checkpoint of the old tasks is superseded by the recovery, and so is one
		// that is triggered now, with the new ones.
		if err := t.job.change(ctx, settings{Tasks: tasks(f.workers)}); err != nil {
			return err
		}
	}
	return t.startFleet(ctx, f.workers)
}

// startFleet begins a new life, with a recovery of its own.
func (t *trial) startFleet(ctx context.Context, workers int) error {
	t.life++
	t.board.begin()
	pace := t.pace()
	for i := range workers {
		flags := workerFlags{
			url: t.job.url, job: t.job.name, recoveryKey: fmt.Sprintf("life-%d", t.life), attempt: t.life,
			text: filepath.Join(t.folder, textFolder), sink: filepath.Join(t.folder, outputFolder),
			index: i, of: workers, pace: pace,
		}
		gone := func(c *child) {
			// A worker ends by itself only after its last checkpoint.
			if c.err != nil {
				t.board.fail(fmt.Errorf("%s has ended by itself: %w", taskID(i), c.err))
			} else {
				t.board.change(func() { t.board.ended++ })
			}
		}
		log := filepath.Join(t.folder, taskID(i)+".log")
		listen := func(from io.Reader) error { return readReports(from, t.board.hear) }
		c, err := startChild(ctx, log, listen, gone, t.program, flags.arguments()...)
		if err != nil {
			return err
		}
		t.fleet = append(t.fleet, c)
	}
	return nil
}

// noPace is more than can be read.
const noPace = math.MaxInt32

// pace is at what the rest of the text just outlasts the rest of the storm.
func (t *trial) pace() float64 {
	if t.fixed > 0 {
		return t.fixed
	}
	now, _, _ := t.board.look()
	return min(float64(t.size-now.read())/float64(len(t.names))/t.ahead.busy().Seconds(), noPace)
}

func (t *trial) killFleet() {
	for _, c := range t.fleet {
		c.kill()
	}
	t.fleet = nil
}

func (t *trial) order(line string) {
	for _, c := range t.fleet {
		c.order(line)
	}
}

// tasks are those of a fleet of this size.
func tasks(workers int) []string {
	ids := make([]string, workers)
	for i := range ids {
		ids[i] = taskID(i)
	}
	return ids
}

// endPatience is how long a worker may take to end after its final checkpoint.
const endPatience = 10 * time.Second

// finish lets all workers end with one checkpoint. No worker may end before the others can: the
// next checkpoint would wait for it in vain. So the schedule is held until nothing is pending,
// all say that they are done, and one checkpoint is triggered of which every part is final.
func (t *trial) finish(ctx context.Context) (ended bool, _ error) {
	err := t.board.await(ctx, math.MaxInt64, func(s seen) bool { return s.restored == len(t.fleet) && s.read() == t.size })
	if err != nil {
		return false, err
	}
	if err := t.job.change(ctx, settings{Paused: new(true)}); err != nil {
		return false, err
	}
	for pending := 1; pending > 0; {
		if pending, err = t.job.pending(ctx); err != nil {
			return false, err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
	t.order(orderFinish)
	if err := t.board.await(ctx, math.MaxInt64, func(s seen) bool { return s.finished == len(t.fleet) }); err != nil {
		return false, err
	}
	if err := t.job.checkpoint(ctx, fmt.Sprintf("final-%d", t.life)); err != nil {
		return false, err
	}
	if err := t.board.await(ctx, endPatience, func(s seen) bool { return s.ended == len(t.fleet) }); err != nil {
		return false, err
	}
	if now, _, _ := t.board.look(); now.ended == len(t.fleet) {
		return true, nil
	}
	// A worker may have been so slow to end its work that the cut came before it, which is not its
	// last one then. The fleet goes round once more.
	workers := len(t.fleet)
	t.killFleet()
	return false, t.startFleet(ctx, workers)
}

// collect reads what there is to compare.
func (t *trial) collect(ctx context.Context, result *outcome) (err error) {
	if result.seen, _, err = t.board.look(); err != nil {
		return err
	}
	if result.figures, err = t.job.figures(ctx); err != nil {
		return err
	}
	if result.state, err = t.job.state(ctx); err != nil {
		return err
	}
	if result.output, err = readOutput(filepath.Join(t.folder, outputFolder), t.names); err != nil {
		return err
	}
	return t.job.remove(ctx)
}

// readOutput gives what the sinks show. What was prepared and never committed is a fault.
func readOutput(folder string, names []string) (map[string][]byte, error) {
	outputs := make(map[string][]byte, len(names))
	for _, name := range names {
		shown, waiting, err := output(sinkFolder(folder, name))
		if err != nil {
			return nil, err
		}
		if waiting > 0 {
			return nil, fmt.Errorf("the sink of %s has %d batches that were never committed", name, waiting)
		}
		outputs[name] = shown
	}
	return outputs, nil
}

// newFolder makes the folder of a trial, with the text.
func newFolder(parent, name string, words text) (string, error) {
	folder := filepath.Join(parent, name)
	if err := os.MkdirAll(folder, 0o750); err != nil { //nolint:gosec // The user names it.
		return "", fmt.Errorf("making the folder of a trial: %w", err)
	}
	return folder, words.write(filepath.Join(folder, textFolder))
}
