package coordinator_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestEventIDsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, id := range []coordinator.EventID{{}, {Seq: 1}, {Epoch: 3, Seq: 17}, {Epoch: coordinator.MaxID, Seq: coordinator.MaxID}} {
		if got, err := coordinator.ParseEventID(id.String()); err != nil || got != id {
			t.Errorf("%s became %v, %v", id, got, err)
		}
	}
	for _, text := range []string{
		"", "-", "1", "1-", "-1", "1-2-3", "01-2", "1-02", "+1-2", " 1-2", "1-2\n", "1_2", "a-b", "1-2 ", "１-2",
		"0-9007199254740992", "9007199254740992-0", "0-99999999999999999999", strings.Repeat("9", 1000) + "-1",
	} {
		id, err := coordinator.ParseEventID(text)
		if err == nil {
			t.Errorf("%q was read as %v", text, id)
		} else if !strings.HasSuffix(err.Error(), ".") || len(err.Error()) > 200 {
			t.Errorf("%q was refused with %q", text, err)
		}
	}
}

func TestEventIDsAreOrderedByEpochAndThenByNumber(t *testing.T) {
	t.Parallel()
	ordered := []coordinator.EventID{{}, {Seq: 1}, {Seq: 10}, {Epoch: 1}, {Epoch: 1, Seq: 2}, {Epoch: 2, Seq: 1}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := a.Compare(b), compareInts(i, j); got != want {
				t.Errorf("%s to %s: %d", a, b, got)
			}
		}
	}
}

func compareInts(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestAnEventIsRenderedOnceForAllItsReaders(t *testing.T) {
	t.Parallel()
	const readers = 50
	store := newLogStore()
	c, _ := running(t, store, coordinator.Options{})
	var watchers []*coordinator.Watcher
	for range readers {
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		watchers = append(watchers, watcher)
	}
	store.change(coordinator.DefaultJob, func(j *logJob) { j.trigger() })
	var rendered atomic.Int64
	var all sync.WaitGroup
	for _, watcher := range watchers {
		all.Go(func() {
			batch, err := watcher.Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			text := batch.Events[0].Rendered(func(e *coordinator.Event) []byte {
				rendered.Add(1)
				return []byte(e.ID.String())
			})
			if string(text) != "0-1" {
				t.Errorf("rendered as %q", text)
			}
		})
	}
	all.Wait()
	if n := rendered.Load(); n != 1 {
		t.Errorf("rendered %d times for %d readers", n, readers)
	}
	alone := coordinator.Event{}
	if got := alone.Rendered(func(*coordinator.Event) []byte { return []byte("x") }); string(got) != "x" {
		t.Errorf("an event without readers was rendered as %q", got)
	}
}

func TestAPendingCheckpointIsToldOfAsItsTriggerWas(t *testing.T) {
	t.Parallel()
	checkpoint := coordinator.Checkpoint{
		Job: "orders", ID: 7, Epoch: 2, Status: coordinator.StatusPending, Start: 1000, TimeoutMs: 500,
		RequiredTaskAcks: 3, AcknowledgedTasks: 1, NamedTasks: true, MissingTasks: []string{"b", "c"}, ObservedAt: 1200,
	}
	want := coordinator.Event{
		ID: coordinator.EventID{Epoch: 2}, Type: coordinator.EventTriggered, Job: "orders", At: 1200, CheckpointID: 7,
		Status: coordinator.StatusPending, RequiredTaskAcks: 3, AcknowledgedTasks: 1, MissingTasks: []string{"b", "c"}, Deadline: 1500,
	}
	ignore := cmpopts.IgnoreUnexported(coordinator.Event{})
	if diff := cmp.Diff(want, coordinator.TriggeredEvent(&checkpoint), ignore); diff != "" {
		t.Error(diff)
	}
	checkpoint.TimeoutMs, want.Deadline = 0, 0
	if diff := cmp.Diff(want, coordinator.TriggeredEvent(&checkpoint), ignore); diff != "" {
		t.Error(diff)
	}
}

func TestEventTypesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[coordinator.EventType]bool{}
	for _, kind := range coordinator.EventTypes() {
		if seen[kind] || !strings.Contains(string(kind), ".") {
			t.Errorf("type %q", kind)
		}
		seen[kind] = true
	}
	if len(seen) != 12 {
		t.Errorf("%d types", len(seen))
	}
}

func FuzzParseEventID(f *testing.F) {
	for _, seed := range []string{"0-0", "1-17", "9007199254740991-9007199254740991", "9007199254740992-0", "01-1", "-1-1", "1", "1-", "1-1-1", "1-1\n", "é-1", "9999999999999999-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := coordinator.ParseEventID(text)
		if err == nil && (id.String() != text || coordinator.CheckCounter(id.Epoch) != nil || coordinator.CheckCounter(id.Seq) != nil) {
			t.Fatalf("%q is read as %+v", text, id)
		}
		if err != nil && (id != coordinator.EventID{} || len(err.Error()) > 400) {
			t.Fatalf("%q: %+v, %v", text, id, err)
		}
	})
}
