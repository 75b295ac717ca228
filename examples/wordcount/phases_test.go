package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

// testPatience is how long a test waits for what must come.
const testPatience = 30 * time.Second

// actor is a worker inside the test, which hears its reports.
type actor struct {
	counter *counter
	heard   map[string]chan report
	kill    context.CancelFunc
	ended   chan error
}

// act starts a life of the only worker of a fleet.
func act(t *testing.T, url, folder string, life int64, pace float64, early bool) *actor {
	t.Helper()
	ctx, kill := context.WithCancelCause(t.Context())
	f := &workerFlags{
		url: url, job: "default", recoveryKey: fmt.Sprint("life-", life), attempt: life, of: 1, pace: pace,
		text: filepath.Join(folder, textFolder), sink: filepath.Join(folder, outputFolder),
	}
	reports, reporter := io.Pipe()
	a := &actor{
		counter: newCounter(f, reporter, kill), ended: make(chan error, 1), heard: map[string]chan report{},
		kill: func() { kill(context.Canceled) },
	}
	a.counter.early = early
	for _, event := range []string{eventRestored, eventPrepared, eventLines, eventTransfer, eventFinished} {
		a.heard[event] = make(chan report, 10_000)
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		if err := readReports(reports, func(r report) { a.heard[r.Event] <- r }); err != nil {
			t.Error(err)
		}
	}()
	go func() { a.ended <- a.counter.worker(f).Run(ctx) }()
	t.Cleanup(func() {
		a.kill()
		a.ended <- <-a.ended
		_ = reporter.Close()
		<-listening
	})
	return a
}

// hear waits for a report.
func (a *actor) hear(t *testing.T, event string) report {
	t.Helper()
	select {
	case r := <-a.heard[event]:
		return r
	case err := <-a.ended:
		t.Fatalf("the worker ended instead of saying %q: %v", event, err)
	case <-time.After(testPatience):
		t.Fatalf("the worker does not say %q", event)
	}
	return report{}
}

// The driver's comparison must see the mistake that a sink with two phases avoids. A worker is killed between the
// phases, so what it prepared is read again by its next life.
func TestASinkThatCommitsBeforeTheCheckpointHasCompletedIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		early bool
		says  string
	}{
		"two phases": {false, ""},
		"one phase":  {true, "the output of p00 has "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words := text{"p00": {"to be or not to be", "that is the question"}, "p11": {"whether"}}
			for _, name := range partitionNames() { // a worker opens all of its partitions
				words[name] = append(words[name], "the last line")
			}
			want, err := count(words)
			if err != nil {
				t.Fatal(err)
			}
			folder, err := newFolder(t.TempDir(), "trial", words)
			if err != nil {
				t.Fatal(err)
			}
			server := checkpointtest.Start(t)

			first := act(t, server.URL, folder, 1, math.MaxInt32, test.early)
			first.hear(t, eventLines) // at the end of the text
			server.Trigger(taskID(0), "one that never hands in")
			first.hear(t, eventPrepared)
			first.kill()

			second := act(t, server.URL, folder, 2, math.MaxInt32, test.early)
			if r := second.hear(t, eventRestored); r.Checkpoint != -1 || (r.RolledBack > 0) == test.early {
				t.Errorf("the next life begins with %+v", r)
			}
			second.hear(t, eventLines)
			close(second.counter.finish)
			second.hear(t, eventFinished)
			second.end(t, server)

			got := &outcome{}
			j := newJob(server.URL, "default")
			if got.state, err = j.state(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got.output, err = readOutput(filepath.Join(folder, outputFolder), partitionNames()); err != nil {
				t.Fatal(err)
			}
			if err := differ(got, want); (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("the comparison says: %v", err)
			}
		})
	}
}

// end triggers checkpoints until one was the worker's last.
func (a *actor) end(t *testing.T, server *checkpointtest.Server) {
	t.Helper()
	for {
		server.Trigger(taskID(0))
		select {
		case err := <-a.ended:
			a.ended <- err
			if err != nil {
				t.Errorf("the worker ended with %v", err)
			}
			return
		case <-time.After(testPatience):
		}
	}
}

// Between the copy of a tally and the cut of its sink nothing may be counted.
func TestTheStateAndTheSinkAreCutAtTheSameLine(t *testing.T) {
	t.Parallel()
	words := text{}
	for _, name := range partitionNames() {
		words[name] = slices.Repeat([]string{"to be or not to be"}, 5_000)
	}
	folder, err := newFolder(t.TempDir(), "trial", words)
	if err != nil {
		t.Fatal(err)
	}
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	f := &workerFlags{of: 1, pace: math.MaxInt32, text: filepath.Join(folder, textFolder), sink: filepath.Join(folder, outputFolder)}
	c := newCounter(f, io.Discard, fail)
	if err := c.restore(ctx, worker.Checkpoint{ID: worker.None}, worker.FromMap(map[string]int{})); err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() { read <- c.work(ctx) }()
	close(c.finish)
	written := map[string]int64{}
	for cuts, ended := 0, false; !ended; cuts++ {
		select {
		case err := <-read:
			if err != nil || cuts == 0 {
				t.Fatalf("the text was read with %v after %d cuts", err, cuts)
			}
			ended = true
		default:
		}
		tallies, batches := c.cut()
		for name, tally := range tallies {
			written[name] += int64(bytes.Count(batches[name], []byte("\n")))
			if written[name] != tally.Line || ended && written[name] != int64(len(words[name])) {
				t.Fatalf("the sink of %s has %d lines at cut %d, the state %d", name, written[name], cuts, tally.Line)
			}
		}
	}
}
