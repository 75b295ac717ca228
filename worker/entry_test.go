package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

func TestValuesComeBackByteForByte(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"float": "1.0", "big": "9007199254740993", "exponent": "1e21", "minus": "-0", "null": "null",
		"html": `"<a href=\"&\">"`, "order": `{"b":1,"a":2}`, "escape": `"\u003c"`, "": `""`,
		"\u2028 <&> \"\\": "[1,2]", "lines": `{"a":[1,2]}`,
	}
	delete(want, "") // keys have a byte at least
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "a/task with \"signs\"? & ümlauts")
	c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
		return func(yield func(worker.Entry, error) bool) {
			for key, value := range want {
				if key == "lines" {
					value = "{\n\"a\": [1,\r\n2]}"
				}
				if !yield(worker.Entry{Key: key, Value: json.RawMessage(value)}, nil) {
					return
				}
			}
		}, nil
	}
	life, _ := c.run(t)
	if got := server.Ended(server.Trigger(c.TaskID).ID); got.Status != "completed" {
		t.Fatalf("the checkpoint ended as %+v", got)
	}
	life.stop()
	got := map[string]string{}
	c.Restore = func(_ context.Context, from worker.Checkpoint, entries worker.Entries) error {
		for entry, err := range entries {
			if err != nil {
				return err
			}
			got[entry.Key] = string(entry.Value)
		}
		for _, err := range entries {
			if err == nil {
				t.Error("the entries can be read twice")
			}
		}
		c.restored <- from
		return nil
	}
	c.run(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEntriesThatAreNoneDeclineTheCheckpoint(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	var entry worker.Entry
	c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
		return func(yield func(worker.Entry, error) bool) { yield(entry, nil) }, nil
	}
	for _, bad := range []struct {
		entry worker.Entry
		want  string
	}{
		{worker.Entry{Key: "a\xff", Value: json.RawMessage("1")}, "not UTF-8"},
		{worker.Entry{Key: "a"}, "no value"},
		{worker.Entry{Key: "a", Value: json.RawMessage("{\n")}, "unexpected end"},
		{worker.Entry{Key: "a", Value: json.RawMessage(`1,"value":2`)}, "line 1"},
		{worker.Entry{Key: "", Value: json.RawMessage("1")}, "line 1"},
	} {
		entry = bad.entry
		life, _ := c.run(t)
		got := server.Ended(server.Trigger("task-1").ID)
		if got.Failure.Reason != "declined" || !strings.Contains(got.Failure.Message, bad.want) {
			t.Errorf("for %q the checkpoint ended as %+v", bad.entry, got)
		}
		life.stop()
	}
}

func TestNoEntriesAreAnEmptyPart(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) { return nil, nil } //nolint:nilnil // It is what is tested.
	c.run(t)
	if got := server.Ended(server.Trigger("task-1").ID); got.Status != "completed" {
		t.Errorf("the checkpoint ended as %+v", got)
	}
}

func TestATaskThatHadNoPartBeginsWithNothing(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	other := newCounter(t, server, "task-1")
	other.run(t)
	takesPart(t, server, other, 1)
	c := newCounter(t, server, "task-2")
	if _, from := c.run(t); from.ID != 0 || len(c.counts) != 0 {
		t.Errorf("it went on from %+v with %v", from, c.counts)
	}
}

func TestAWorkerThatCannotWorkSaysEverythingThatIsMissing(t *testing.T) {
	t.Parallel()
	err := new(worker.Worker{URL: "localhost:8080"}).Run(t.Context())
	for _, want := range []string{"URL", "TaskID", "Snapshot"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %s", err, want)
		}
	}
}
