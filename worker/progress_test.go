package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
)

// listener takes down what OnProgress is told. It has no lock: the race detector sees two calls at
// the same time.
type listener struct {
	told []worker.Progress
	done chan []worker.Progress
}

func newListener(c *counter) *listener {
	l := &listener{done: make(chan []worker.Progress, 100)}
	c.OnProgress = func(p worker.Progress) {
		if l.told = append(l.told, p); p.Done {
			l.done <- l.told
			l.told = nil
		}
	}
	return l
}

// slowly yields so many entries of 100 kB, one every few milliseconds.
func slowly(entries int) worker.Entries {
	return func(yield func(worker.Entry, error) bool) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := range entries {
			<-tick.C
			if !yield(worker.Encode(fmt.Sprint(n), strings.Repeat("x", 100_000))) {
				return
			}
		}
	}
}

func TestProgressIsToldAFewTimesASecondAndOnceAtTheEnd(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	listener := newListener(c)
	const entries = 40
	c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) { return slowly(entries), nil }
	life, _ := c.run(t)
	began := time.Now()
	id := server.Trigger("task-1").ID
	upload := receive(t, listener.done)
	most := int(time.Since(began)/(100*time.Millisecond)) + 1
	var before worker.Progress
	for n, p := range upload {
		if p.CheckpointID != id || p.Restoring || p.Total != -1 || p.Bytes < before.Bytes || p.Entries < before.Entries || p.Done != (n == len(upload)-1) {
			t.Errorf("after %+v it is told %+v", before, p)
		}
		before = p
	}
	if len(upload) < 3 || len(upload) > most {
		t.Errorf("of an upload of 800 ms %d words were told, at most %d may be", len(upload), most)
	}
	if before.Entries != entries || before.Bytes < entries*100_000 || before.Bytes > entries*100_100 {
		t.Errorf("the last word is %+v", before)
	}
	server.Ended(id)
	life.stop()

	c.Restore = func(_ context.Context, from worker.Checkpoint, entries worker.Entries) error {
		for _, err := range entries {
			if err != nil {
				return err
			}
		}
		c.restored <- from
		return nil
	}
	life, _ = c.run(t)
	restore := receive(t, listener.done)
	last := restore[len(restore)-1]
	want := worker.Progress{CheckpointID: id, Restoring: true, Bytes: last.Total, Total: last.Total, Entries: entries, Done: true}
	if diff := cmp.Diff(want, last); diff != "" || last.Total < entries*100_000 {
		t.Error(diff)
	}
	life.stop()

	enough := errors.New("enough")
	c.Restore = func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
		for _, err := range entries {
			return errors.Join(enough, err)
		}
		return nil
	}
	if err := c.Run(t.Context()); !errors.Is(err, enough) {
		t.Errorf("the worker ended with %v", err)
	}
	restore = receive(t, listener.done)
	if last := restore[len(restore)-1]; last.Entries != 1 || last.Bytes >= last.Total {
		t.Errorf("the last word on a restore that was given up is %+v", last)
	}
}

func TestAnUploadThatIsRepeatedHasOneLastWord(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(fault.On(fault.Upload).CutBefore().Times(2))
	c := newCounter(t, server, "task-1")
	c.URL = front.URL
	c.add("a", 1)
	listener := newListener(c)
	c.run(t)
	takesPart(t, server, c, 1)
	told := receive(t, listener.done)
	bytes := int64(len(`{"key":"a","value":1}` + "\n" + `{"key":"n","value":1}` + "\n"))
	want := worker.Progress{Bytes: bytes, Total: -1, Entries: 2, Done: true}
	uploads := len(front.Requests().Of(fault.Upload))
	if diff := cmp.Diff(want, told[len(told)-1]); diff != "" || uploads != 3 || len(listener.done) > 0 {
		t.Errorf("after %d uploads: %s", uploads, diff)
	}
}
