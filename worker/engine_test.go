package worker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/engine"
	"github.com/checkpointd/checkpointd/worker"
)

// machine is an engine with a worker around it.
type machine struct {
	worker.Worker

	begun     chan struct{}
	completed chan int64
}

func newMachine(t *testing.T, url, task string) *machine {
	t.Helper()
	m := &machine{begun: make(chan struct{}), completed: make(chan int64, 1000)}
	m.Worker = worker.Worker{
		URL: url, TaskID: task, Engine: engine.NewCoordinator(nil),
		MaxBackoff: 200 * time.Millisecond, PollWait: time.Second,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Work: func(ctx context.Context) error {
			close(m.begun)
			<-ctx.Done()
			return context.Cause(ctx)
		},
		OnCompleted: func(_ context.Context, id int64) { m.completed <- id },
	}
	return m
}

// store is a keyed store of the machine's engine.
func store[K comparable, V any](t *testing.T, m *machine, name string) *engine.KeyedStore[K, V] {
	t.Helper()
	s, err := engine.NewKeyedStore[K, V](t.Context(), m.Engine, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put[K comparable, V any](t *testing.T, s *engine.KeyedStore[K, V], key K, value V) {
	t.Helper()
	if err := s.Set(engine.WithKey(t.Context(), key), value); err != nil {
		t.Fatal(err)
	}
}

// holds compares what a store has.
func holds[K comparable, V any](t *testing.T, s *engine.KeyedStore[K, V], want map[K]V) {
	t.Helper()
	all, err := s.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, maps.Collect(all)); diff != "" {
		t.Errorf("the store has (-want +got):\n%s", diff)
	}
}

// run starts the worker and waits until its state is back.
func (m *machine) run(t *testing.T) *life {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	l := &life{kill: kill, ended: make(chan error, 1)}
	go func() { l.ended <- m.Run(ctx) }()
	t.Cleanup(l.stop)
	select {
	case <-m.begun:
	case err := <-l.ended:
		l.ended <- err
		t.Fatalf("the worker ended before it had its state: %v", err)
	case <-time.After(patience):
		t.Fatal("the worker has no state yet")
	}
	return l
}

// complete takes a checkpoint of these tasks.
func complete(t *testing.T, server *checkpointtest.Server, tasks ...string) int64 {
	t.Helper()
	id := server.Trigger(tasks...).ID
	if got := server.Ended(id); got.Status != "completed" {
		t.Fatalf("the checkpoint ended as %+v", got)
	}
	return id
}

// lines are a checkpoint as the server gives it back.
func lines(t *testing.T, server *checkpointtest.Server) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/checkpoints/latest/restore", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request) //nolint:forbidigo // A test's own server.
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	return string(text)
}

// offsets is a source without keys.
type offsets struct {
	lock sync.Mutex
	at   map[string]int64
}

func (o *offsets) register(t *testing.T, m *machine, name string) {
	t.Helper()
	err := engine.Register(t.Context(), m.Engine, name,
		func(context.Context) (map[string]int64, error) {
			o.lock.Lock()
			defer o.lock.Unlock()
			return maps.Clone(o.at), nil
		},
		func(_ context.Context, at map[string]int64) error {
			o.lock.Lock()
			defer o.lock.Unlock()
			o.at = maps.Clone(at)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

func (o *offsets) hold(t *testing.T, want map[string]int64) {
	t.Helper()
	o.lock.Lock()
	defer o.lock.Unlock()
	if diff := cmp.Diff(want, o.at); diff != "" {
		t.Errorf("the offsets are (-want +got):\n%s", diff)
	}
}

func TestAnEngineComesBackWhetherItsStoresAreRegisteredBeforeOrAfter(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newMachine(t, server.URL, "task-1")
	words, numbers := store[string, int](t, first, "a/b%2F"), store[int, string](t, first, "numbers")
	store[string, int](t, first, "empty/store")
	at := &offsets{at: map[string]int64{"p0": 9007199254740993}}
	at.register(t, first, "offsets")
	life := first.run(t)
	for word, n := range map[string]int{"tea": 2, "": 1, "/": 3, "a/b": 4, "%2F": 5} {
		put(t, words, word, n)
	}
	put(t, numbers, -7, "<seven>")
	if told := complete(t, server, "task-1"); told != receive(t, first.completed) {
		t.Errorf("the worker was not told of %d", told)
	}
	put(t, words, "tea", 100) // is lost
	life.stop()
	if diff := cmp.Diff(`{"taskId":"task-1","key":"a%2Fb%252F/","value":1}
{"taskId":"task-1","key":"a%2Fb%252F/%2F","value":5}
{"taskId":"task-1","key":"a%2Fb%252F//","value":3}
{"taskId":"task-1","key":"a%2Fb%252F/a/b","value":4}
{"taskId":"task-1","key":"a%2Fb%252F/tea","value":2}
{"taskId":"task-1","key":"numbers/-7","value":"\u003cseven\u003e"}
{"taskId":"task-1","key":"/empty%2Fstore","value":null}
{"taskId":"task-1","key":"offsets","value":{"p0":9007199254740993}}
`, lines(t, server)); diff != "" {
		t.Errorf("the server has (-want +got):\n%s", diff)
	}

	for _, before := range []bool{true, false} {
		second := newMachine(t, server.URL, "task-1")
		if !before {
			second.run(t)
		}
		words, numbers := store[string, int](t, second, "a/b%2F"), store[int, string](t, second, "numbers")
		empty := store[string, int](t, second, "empty/store")
		at := &offsets{}
		at.register(t, second, "offsets")
		if before {
			second.run(t)
		}
		holds(t, words, map[string]int{"tea": 2, "": 1, "/": 3, "a/b": 4, "%2F": 5})
		holds(t, numbers, map[int]string{-7: "<seven>"})
		holds(t, empty, map[string]int{})
		at.hold(t, map[string]int64{"p0": 9007199254740993})
	}
}

func TestAKeyThatIsTooLongDeclinesTheCheckpoint(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	m := newMachine(t, server.URL, "task-1")
	words := store[string, int](t, m, "counts/total") // counts%2Ftotal/ are 15 bytes
	m.run(t)
	put(t, words, strings.Repeat("x", 1009), 1)
	complete(t, server, "task-1")
	put(t, words, strings.Repeat("y", 1010), 1)
	got := server.Ended(server.Trigger("task-1").ID)
	want := `the key "` + strings.Repeat("y", 40) + `" (its first 40 bytes) of "counts/total" is too long: with the name of its source it has 1025 bytes, and 1024 are possible`
	if got.Failure.Reason != "declined" || got.Failure.Message != want {
		t.Errorf("the checkpoint ended as %+v", got)
	}
}

func TestAnEngineThatHasHadALifeIsTakenBackWhollyOrNotAtAll(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	m := newMachine(t, server.URL, "task-1")
	counts := store[string, int](t, m, "counts")
	store[string, bool](t, m, "seen")
	life := m.run(t)
	put(t, counts, "tea", 1)
	life.stop()
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `its sources ["counts" "seen"]`) {
		t.Errorf("a fresh start of a used engine ended with %v", err)
	}

	m = newMachine(t, server.URL, "task-1")
	counts = store[string, int](t, m, "counts")
	seen := store[string, bool](t, m, "seen")
	life = m.run(t)
	put(t, counts, "tea", 1)
	complete(t, server, "task-1")
	put(t, seen, "tea", true) // the store was empty in the checkpoint
	life.stop()
	m.begun = make(chan struct{})
	life = m.run(t)
	holds(t, counts, map[string]int{"tea": 1})
	holds(t, seen, map[string]bool{})
	life.stop()
	store[string, int](t, m, "new")
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `its sources ["new"]`) {
		t.Errorf("a store that the checkpoint does not have ended the next life with %v", err)
	}
}

func TestAnEngineTakesThePlaceOfSnapshotAndRestore(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*worker.Worker){
		"Restore and Snapshot must be nil": func(w *worker.Worker) {
			w.Restore = func(context.Context, worker.Checkpoint, worker.Entries) error { return nil }
		},
		"no place for shared state":           func(w *worker.Worker) { w.Shared = true },
		"Restore and Snapshot, or an Engine,": func(w *worker.Worker) { w.Engine = nil },
	} {
		w := worker.Worker{URL: "http://127.0.0.1:1", TaskID: "task-1", Engine: engine.NewCoordinator(nil)}
		spoil(&w)
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Run answered %v, not %q", err, name)
		}
	}
}

func TestAnEngineThatCannotTakeTheCutDeclines(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	m := newMachine(t, server.URL, "task-1")
	err := engine.Register(t.Context(), m.Engine, "offsets",
		func(context.Context) (int, error) { return 0, errors.New("the reader is gone") },
		func(context.Context, int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	m.run(t)
	got := server.Ended(server.Trigger("task-1").ID)
	if got.Failure.Reason != "declined" || !strings.Contains(got.Failure.Message, "the reader is gone") {
		t.Errorf("the checkpoint ended as %+v", got)
	}
}
