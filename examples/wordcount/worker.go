package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog" //nolint:depguard // A worker logs where its program does.
	"path/filepath"
	"strconv"
	"time"

	"github.com/checkpointd/checkpointd/worker"
)

// workerFlags are what the driver tells a worker on its command line.
type workerFlags struct {
	url, job, recoveryKey string
	text, sink            string
	index, of             int
	attempt               int64
	pace                  float64
}

func (f *workerFlags) arguments() []string {
	return []string{
		"worker", "-url", f.url, "-job", f.job, "-recovery-key", f.recoveryKey, "-text", f.text, "-sink", f.sink,
		"-index", strconv.Itoa(f.index), "-of", strconv.Itoa(f.of), "-attempt", strconv.FormatInt(f.attempt, 10),
		"-pace", strconv.FormatFloat(f.pace, 'f', -1, 64),
	}
}

func parseWorkerFlags(arguments []string, stderr io.Writer) (*workerFlags, error) {
	f, set := &workerFlags{}, flag.NewFlagSet("wordcount worker", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.url, "url", "http://127.0.0.1:8080", "where checkpointd answers")
	set.StringVar(&f.job, "job", "wordcount", "the `name` of the job")
	set.StringVar(&f.recoveryKey, "recovery-key", "", "one `key` for each crash, the same for the whole fleet")
	set.StringVar(&f.text, "text", "", "`folder` of the partitions")
	set.StringVar(&f.sink, "sink", "", "`folder` of the output")
	set.IntVar(&f.index, "index", 0, "this worker's place in the fleet, from 0")
	set.IntVar(&f.of, "of", 1, "the fleet's size")
	set.Int64Var(&f.attempt, "attempt", 0, "the number of this life")
	set.Float64Var(&f.pace, "pace", 1000, "`lines` of each partition in a second")
	return f, set.Parse(arguments) //nolint:wrapcheck // It has told the user.
}

// taskID names a worker. A fleet of another size has the first of the same names.
func taskID(index int) string { return fmt.Sprintf("worker-%d", index) }

func sinkFolder(folder, partition string) string { return filepath.Join(folder, partition) }

// maxBackoff is how long a worker waits at most before it tries a server again that was away.
const maxBackoff = 500 * time.Millisecond

// runWorker is one life of a worker. It hears what the driver orders on stdin, and ends with it.
func runWorker(ctx context.Context, f *workerFlags, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c := newCounter(f, stdout, fail)
	go func() { fail(c.obey(stdin)) }()
	w := c.worker(f)
	w.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	if err := w.Run(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func newCounter(f *workerFlags, stdout io.Writer, fail context.CancelCauseFunc) *counter {
	return &counter{
		share: worker.Share{Index: f.index, Of: f.of, Group: partitionOf},
		text:  f.text, sink: f.sink, pace: f.pace, reports: &reporter{to: stdout},
		hurry: make(chan struct{}), finish: make(chan struct{}), fail: fail,
	}
}

// worker connects the counter to a server.
func (c *counter) worker(f *workerFlags) *worker.Worker {
	return &worker.Worker{
		URL: f.url, Job: f.job, TaskID: taskID(f.index), Attempt: f.attempt, RecoveryKey: f.recoveryKey,
		Share: c.share, Restore: c.restore, Snapshot: c.snapshot, Work: c.work, OnCompleted: c.completed,
		FinalCheckpoint: true, OnProgress: c.progress, MaxBackoff: maxBackoff,
	}
}

// obey does what the driver says until it hangs up.
func (c *counter) obey(stdin io.Reader) error {
	orders := bufio.NewScanner(stdin)
	for orders.Scan() {
		switch orders.Text() {
		case orderHurry:
			close(c.hurry)
		case orderFinish:
			close(c.finish)
		}
	}
	return errors.Join(errors.New("the driver has gone"), orders.Err())
}

// progress tells of a transfer, or that none is under way.
func (c *counter) progress(p worker.Progress) {
	if p.Done {
		c.tellTransfer("")
		return
	}
	doing := "handing in"
	if p.Restoring {
		doing = "restoring"
	}
	transfer := fmt.Sprintf("%s %d: %.1f MB", doing, p.CheckpointID, float64(p.Bytes)/1e6)
	if p.Total > 0 {
		transfer += fmt.Sprintf(" of %.1f", float64(p.Total)/1e6)
	}
	c.tellTransfer(transfer)
}

func (c *counter) tellTransfer(transfer string) {
	if err := c.reports.tell(report{Event: eventTransfer, Transfer: transfer}); err != nil {
		c.fail(err)
	}
}
