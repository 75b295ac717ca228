package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
)

func TestAWorkerWaitsForAServerAndNeverTakesItForAFreshStart(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	life, _ := first.run(t)
	takesPart(t, server, first, 1)
	life.stop()

	front := server.Front()
	badGateway := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	front.Script(
		fault.On(fault.Job).Refuse("store_unavailable"),
		fault.On(fault.Job).CutBefore(),
		fault.On(fault.Latest).Answer(badGateway),
	)
	second := newCounter(t, server, "task-1")
	second.URL = front.URL
	if _, from := second.run(t); from.ID != 0 || second.counts["n"] != 1 {
		t.Errorf("the worker began from %+v with %v", from, second.counts)
	}
}

func TestARestoreGoesOnWhereItsConnectionBroke(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	for n := range 2000 {
		first.add(fmt.Sprintf("key-%d", n), n)
	}
	life, _ := first.run(t)
	takesPart(t, server, first, 1)
	life.stop()

	front := server.Front()
	front.Script(fault.On(fault.Restore).CutAnswerAfter(10_001).Times(4))
	second := newCounter(t, server, "task-1")
	second.URL = front.URL
	second.run(t)
	if diff := cmp.Diff(first.counts, second.counts); diff != "" {
		t.Error(diff)
	}
	var ranges []string
	for _, request := range front.Requests().Of(fault.Restore) {
		ranges = append(ranges, request.Header.Get("Range"))
	}
	if diff := cmp.Diff([]string{"", "bytes=10001-", "bytes=20002-", "bytes=30003-", "bytes=40004-"}, ranges); diff != "" {
		t.Error(diff)
	}
}

func TestARestoreDoesNotGoOnInAnotherSnapshot(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	handsIn(t, server, "", map[string]string{"task-1": `{"n":1,"m":2}`})
	for name, alter := range map[string]func(fault.Rule) fault.Rule{
		"a part of it":  func(r fault.Rule) fault.Rule { return r },
		"the whole one": func(r fault.Rule) fault.Rule { return r.Rewrite(func(r *http.Request) { r.Header.Del("Range") }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front := server.Front()
			front.Script(fault.On(fault.Restore).CutAnswerAfter(10), alter(fault.On(fault.Restore)).Alter(func(answer *http.Response) error {
				answer.Header.Set("ETag", `"another"`)
				return nil
			}))
			c, _ := restoring(t, server, "task-1")
			c.URL = front.URL
			c.Work = func(context.Context) error { return nil } // where it should go on after all
			if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is another one than before") || len(c.restored) > 0 {
				t.Errorf("the worker ended with %v", err)
			}
		})
	}
}

func TestAWorkerDoesNotGoOnWithAPartOfItsState(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	handsIn(t, server, `{"s":0}`, map[string]string{"full": `{"a":1,"b":2,"c":3}`, "empty": `{}`})
	for name, with := range map[string]struct {
		task string
		read int
		goes bool
	}{
		"nothing is read":             {"full", 0, false},
		"the last one is missing":     {"full", 2, false},
		"all but the end":             {"full", 3, true},
		"there was nothing":           {"empty", 0, true},
		"nothing of this one's task":  {"unknown", 0, true},
		"the end is read, in vain":    {"empty", 1, true},
		"the end is read, after all":  {"full", 4, true},
		"the end of nothing, in vain": {"unknown", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounter(t, server, with.task)
			c.Restore = func(_ context.Context, from worker.Checkpoint, entries worker.Entries) error {
				next, stop := iter.Pull2(entries)
				defer stop()
				for range with.read {
					_, _, _ = next()
				}
				c.restored <- from
				return nil
			}
			c.Work = func(context.Context) error { return nil }
			err := c.Run(t.Context())
			if refused := err != nil && strings.Contains(err.Error(), "before it had read all entries"); refused == with.goes || (with.goes && err != nil) {
				t.Errorf("the worker ended with %v", err)
			}
		})
	}
}

func TestARestoreOfUnknownLengthThatBreaksAfterItsLastByteIsWhole(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	handsIn(t, server, "", map[string]string{"task-1": `{"n":1}`})
	front := server.Front()
	front.Script(fault.On(fault.Restore).Alter(func(answer *http.Response) error {
		text, err := io.ReadAll(answer.Body)
		answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), iotest.ErrReader(errors.New("cut"))))
		answer.ContentLength = -1
		answer.Header.Del("Content-Length")
		return err
	}))
	c, restore := restoring(t, server, "task-1")
	c.URL = front.URL
	if diff := cmp.Diff(map[string]int{"task-1/n=1": 1}, restore()); diff != "" || len(front.Requests().Of(fault.Restore)) != 2 {
		t.Errorf("after %v it came back to %s", front.Requests().Of(fault.Restore), diff)
	}
}

func TestARestoreThatGetsStuckIsBegunAgain(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	handsIn(t, server, "", map[string]string{"task-1": `{"n":1,"m":2}`})
	front := server.Front()
	front.Script(
		fault.On(fault.Restore).Hang(),
		fault.On(fault.Restore).Alter(func(answer *http.Response) error {
			begin := io.LimitReader(answer.Body, 10)
			answer.Body = io.NopCloser(io.MultiReader(begin, silence(answer.Request.Context().Done())))
			return nil
		}),
	)
	c, restore := restoring(t, server, "task-1")
	c.URL = front.URL
	c.SetTransferPatience(time.Second)
	if diff := cmp.Diff(map[string]int{"task-1/n=1": 1, "task-1/m=2": 1}, restore()); diff != "" {
		t.Error(diff)
	}
	if requests := front.Requests().Of(fault.Restore); len(requests) < 3 {
		t.Errorf("there were these restores: %v", requests)
	}
}

// silence is a body that brings nothing more.
type silence <-chan struct{}

func (s silence) Read([]byte) (int, error) {
	<-s
	return 0, io.ErrUnexpectedEOF
}

// answers gives the same answer to everybody, with status 200.
func answers(media, checkpoint, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		if checkpoint != "" {
			w.Header().Set("Checkpoint-Id", checkpoint)
		}
		_, _ = io.WriteString(w, body)
	}
}

func TestWhatSomethingElseAnswersIsNeitherEntriesNorAFreshStart(t *testing.T) {
	t.Parallel()
	const line = `{"taskId":"task-1","key":"n","value":99}` + "\n"
	for name, answer := range map[string]func(fault.Rule) fault.Rule{
		"a page":             fault.Rule.Garbage,
		"an empty object":    func(r fault.Rule) fault.Rule { return r.Answer(answers("application/json", "", "{}")) },
		"nothing":            func(r fault.Rule) fault.Rule { return r.Answer(answers("", "", "")) },
		"another type":       func(r fault.Rule) fault.Rule { return r.Answer(answers("text/plain", "0", line)) },
		"another checkpoint": func(r fault.Rule) fault.Rule { return r.Answer(answers("application/x-ndjson", "1", line)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t)
			handsIn(t, server, "", map[string]string{"task-1": `{"n":1,"m":2}`})
			front := server.Front()
			for _, key := range []string{"", "crash-1"} {
				for _, route := range []fault.Route{fault.Recover, fault.Job, fault.Latest, fault.Restore} {
					front.Script(answer(fault.On(route)))
				}
				front.Script(fault.On(fault.Restore).CutAnswerAfter(10), answer(fault.On(fault.Restore)))
				c, restore := restoring(t, server, "task-1")
				c.URL, c.RecoveryKey = front.URL, key
				if diff := cmp.Diff(map[string]int{"task-1/n=1": 1, "task-1/m=2": 1}, restore()); diff != "" {
					t.Errorf("with the key %q: %s", key, diff)
				}
			}
		})
	}
}

func TestARestoreThatAlwaysBreaksOffAtTheSamePlaceIsAnError(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	first.add(strings.Repeat("k", 1000), 1)
	life, _ := first.run(t)
	takesPart(t, server, first, 1)
	life.stop()

	front := server.Front()
	front.Script(fault.On(fault.Restore).CutAnswerAfter(0).Always())
	second := newCounter(t, server, "task-1")
	second.URL, second.MaxBackoff = front.URL, time.Millisecond
	second.Restore = func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
		for _, err := range entries {
			_ = err // a callback that does not look at it
		}
		return nil
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("the worker ended with %v", err)
	}
}

func TestAPageThatIsNotTheServersIsNoFreshStart(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(fault.On(fault.Latest).Answer(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such page", http.StatusNotFound)
	}))
	c := newCounter(t, server, "task-1")
	c.URL = front.URL
	problem, is := errors.AsType[*worker.Problem](c.Run(t.Context()))
	if !is || problem.Status != http.StatusNotFound || problem.Code != "" || problem.Detail != "no such page" || len(c.restored) > 0 {
		t.Errorf("the worker ended with %v", problem)
	}
}

func TestAWorkerStopsWhereItsCheckpointWasCompletedByForceWithoutIt(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	life, _ := first.run(t)
	takesPart(t, server, first, 1)
	life.stop()
	forced := server.Trigger("task-1", "task-2")
	send(t, server, http.MethodPost, fmt.Sprintf("/checkpoints/%d/complete?force=true", forced.ID), "{}")
	err := newCounter(t, server, "task-1").Run(t.Context())
	if !errors.Is(err, worker.CodeTaskAbsent) || !strings.Contains(err.Error(), "completed by force") {
		t.Errorf("the worker ended with %v", err)
	}
}
