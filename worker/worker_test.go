package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

func TestAWorkerBeginsWithNothingAndComesBackWithWhatItHandedIn(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	life, from := first.run(t)
	if from.ID != worker.None || len(first.counts) != 0 {
		t.Fatalf("a fresh start is from %+v with %v", from, first.counts)
	}
	first.add("a", 1)
	first.add("<b>\n", 9007199254740993)
	id := server.Trigger("task-1").ID
	if got := server.Ended(id); got.Status != "completed" {
		t.Fatalf("the checkpoint ended as %+v", got)
	}
	if told := receive(t, first.completed); told != id {
		t.Errorf("the worker was told of %d, not of %d", told, id)
	}
	first.add("a", 100) // is lost
	life.kill()
	if err := life.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("a worker that is stopped ends with %v", err)
	}

	second := newCounter(t, server, "task-1")
	_, from = second.run(t)
	if diff := cmp.Diff(map[string]int{"a": 1, "<b>\n": 9007199254740993}, second.counts); diff != "" || from.ID != id {
		t.Errorf("it went on from %+v with %s", from, diff)
	}
}

func TestAWorkerWarnsWhenItsJobNamesOtherTasksOnly(t *testing.T) {
	t.Parallel()
	const warning = "level=WARN msg=\"the job names other tasks and not this one;"
	for name, with := range map[string]struct {
		settings string
		warnings int
	}{
		"others":     {`{"tasks":["task-0","task-2"]}`, 1},
		"it, too":    {`{"tasks":["task-0","task-1"]}`, 0},
		"no tasks":   {`{"requiredTaskAcks":1}`, 0},
		"no setting": {`{}`, 0},
	} {
		for _, key := range []string{"", "crash-1"} {
			t.Run(name+key, func(t *testing.T) {
				t.Parallel()
				server := checkpointtest.Start(t)
				send(t, server, http.MethodPut, "/jobs/default", with.settings)
				c := newCounter(t, server, "task-1")
				var log bytes.Buffer
				c.RecoveryKey, c.Logger = key, slog.New(slog.NewTextHandler(&log, nil))
				c.Work = func(context.Context) error { return nil }
				if err := c.Run(t.Context()); err != nil {
					t.Error(err)
				}
				if strings.Count(log.String(), warning) != with.warnings || strings.Contains(log.String(), "task-2") != (with.warnings > 0) {
					t.Errorf("not %d warnings in\n%s", with.warnings, log.String())
				}
			})
		}
	}
}
