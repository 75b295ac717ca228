package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
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

// all is what a store has.
func all[K comparable, V any](t *testing.T, s *engine.KeyedStore[K, V]) map[K]V {
	t.Helper()
	entries, err := s.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return maps.Collect(entries)
}

func holds[K comparable, V any](t *testing.T, s *engine.KeyedStore[K, V], want map[K]V) {
	t.Helper()
	if diff := cmp.Diff(want, all(t, s)); diff != "" {
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

func TestAShareOfAnEngineIsSplitByTheKeysWithinItsSources(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	group := func(user string) string { user, _, _ = strings.Cut(user, ":"); return user }
	want := map[string]int{}
	for _, task := range []string{"task-0", "task-1", "task-2"} {
		m := newMachine(t, server.URL, task)
		counts, seen := store[string, int](t, m, "counts"), store[string, bool](t, m, "a/seen")
		store[string, bool](t, m, "empty")
		at := &offsets{at: map[string]int64{task: 7}}
		at.register(t, m, "offsets")
		m.run(t)
		for n := range 40 {
			user := fmt.Sprintf("%s-user-%d", task, n)
			want[user+":clicks"], want[user+":buys"] = n, -n
			put(t, counts, user+":clicks", n)
			put(t, counts, user+":buys", -n)
			put(t, seen, user, true)
		}
	}
	complete(t, server, "task-0", "task-1", "task-2")

	got, workers := map[string]int{}, []string{"task-1", "task-2", "task-3", "task-4", "task-5"}
	for n, task := range workers {
		m := newMachine(t, server.URL, task)
		m.RecoveryKey = "rescaled"
		m.Share = worker.Share{Index: n, Of: len(workers), Group: group}
		counts, seen := store[string, int](t, m, "counts"), store[string, bool](t, m, "a/seen")
		empty, at := store[string, bool](t, m, "empty"), &offsets{}
		at.register(t, m, "offsets")
		m.run(t)
		users := map[string]bool{}
		for key, n := range all(t, counts) {
			if _, twice := got[key]; twice {
				t.Errorf("%s came to two workers", key)
			}
			got[key], users[group(key)] = n, true
		}
		holds(t, seen, users)
		holds(t, empty, map[string]bool{})
		switch task { // state without keys stays with its task
		case "task-1", "task-2":
			at.hold(t, map[string]int64{task: 7})
		default:
			at.hold(t, nil)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the shares together are (-want +got):\n%s", diff)
	}
}

func TestAKeyThatTwoTasksHaveIsNotTakenFromOneOfThem(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	for _, task := range []string{"task-0", "task-1"} {
		m := newMachine(t, server.URL, task)
		counts := store[string, int](t, m, "counts")
		m.run(t)
		put(t, counts, "tea", 1)
	}
	complete(t, server, "task-0", "task-1")
	m := newMachine(t, server.URL, "task-0")
	m.RecoveryKey, m.Share.Of = "rescaled", 1
	store[string, int](t, m, "counts")
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"counts": decode: the key "tea" is there twice`) {
		t.Errorf("Run answered %v", err)
	}
}

func TestAnUploadOfAnEngineThatIsRepeatedIsTheSameCut(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	m := newMachine(t, front.URL, "task-1")
	counts := store[int, int](t, m, "counts")
	front.Script(fault.On(fault.Upload).Times(2).Answer(func(w http.ResponseWriter, r *http.Request) {
		for n := range 1000 { // the state changes before the part is read
			put(t, counts, n, -n)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusBadGateway)
	}))
	m.run(t)
	for n := range 1000 {
		put(t, counts, n, n)
	}
	complete(t, server, "task-1")
	uploads := front.Requests().Of(fault.Upload)
	if len(uploads) != 3 {
		t.Fatalf("there were %d uploads", len(uploads))
	}
	for _, upload := range uploads {
		if upload.BodyDigest == "" || upload.BodyDigest != uploads[0].BodyDigest {
			t.Errorf("the uploads were not the same: %v", uploads)
		}
	}
	if bytes.Contains(uploads[2].Body, []byte("-")) {
		t.Error("the cut has what was written after it")
	}
}
