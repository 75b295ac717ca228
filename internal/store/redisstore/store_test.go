package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// open opens a store on a server, under the test's prefix.
func open(t testing.TB, server *redistest.Server) *Store {
	t.Helper()
	return openObserved(t, server, nil)
}

func openObserved(t testing.TB, server *redistest.Server, observer coordinator.Observer) *Store {
	t.Helper()
	return openAt(t, Options{URL: server.URL, KeyPrefix: server.Prefix, Observer: observer})
}

func openAt(t testing.TB, options Options) *Store {
	t.Helper()
	s, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// trigger triggers in the default job.
func trigger(t testing.TB, s *Store) coordinator.Checkpoint {
	t.Helper()
	result, err := s.Trigger(t.Context(), aTriggerCall())
	if err != nil {
		t.Fatalf("trigger: %v", err)
	}
	return result.Checkpoint
}

func aTriggerCall() coordinator.TriggerCall {
	return coordinator.TriggerCall{Job: coordinator.DefaultJob, RequiredTaskAcks: 1, TimeoutMs: new(int64(60_000)), Defaults: coordinator.Settings{MaxConcurrent: 1000, EventsToKeep: 10_000}}
}

// wantCode checks the code of an error.
func wantCode(t testing.TB, what string, err error, want coordinator.Code) {
	t.Helper()
	if got := coordinator.CodeOf(err); got != want {
		t.Errorf("%s: %v, want code %q", what, err, want)
	}
}

// soon checks that a call answers within two seconds.
func soon(t testing.TB, what string, call func()) {
	t.Helper()
	started := time.Now()
	call()
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("%s took %v", what, took)
	}
}

func TestNewRefusesOptionsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, options := range []Options{
		{URL: ""},
		{URL: "http://127.0.0.1"},
		{URL: "redis://user:s3cret@[::1"},
		{URL: "redis://127.0.0.1", KeyPrefix: "a{b:"},
		{URL: "redis://127.0.0.1", KeyPrefix: "a}b:"},
	} {
		if _, err := New(options); err == nil {
			t.Errorf("New(%+v) took it", options)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	for _, url := range []string{"redis://127.0.0.1:1/3", "rediss://user:password@127.0.0.1:1", "unix:///nowhere.sock"} {
		s, err := New(Options{URL: url})
		if err != nil {
			t.Errorf("New with %s: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestAStoreOutlivesItsRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Config: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	server.Stop(t)
	s := open(t, server)
	ref := coordinator.Ref{Job: coordinator.DefaultJob, ID: coordinator.Latest}

	soon(t, "a trigger without Redis", func() {
		_, err := s.Trigger(t.Context(), aTriggerCall())
		wantCode(t, "trigger", err, coordinator.CodeStoreUnavailable)
	})
	_, err := s.Get(t.Context(), ref)
	wantCode(t, "latest", err, coordinator.CodeStoreUnavailable)
	_, err = s.Health(t.Context())
	wantCode(t, "health", err, coordinator.CodeStoreUnavailable)

	server.Start(t)
	if cp := trigger(t, s); cp.ID != 0 {
		t.Errorf("the first id is %d", cp.ID)
	}
	_, err = s.Get(t.Context(), ref)
	wantCode(t, "latest", err, coordinator.CodeNoCompletedCheckpoint)

	server.Kill(t)
	soon(t, "a trigger after Redis was killed", func() {
		_, err := s.Trigger(t.Context(), aTriggerCall())
		if code := coordinator.CodeOf(err); code != coordinator.CodeStoreUnavailable && code != coordinator.CodeOutcomeUnknown {
			t.Errorf("trigger: %v", err)
		}
	})
	server.Start(t)
	// Another run_id: the server cannot tell that it lost nothing.
	if cp := trigger(t, s); cp.ID != 1001 {
		t.Errorf("the id after a restart is %d, want 1001", cp.ID)
	}
}

func TestIdsGoOnAboveWhatAnEmptiedRedisHasForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	a, b := open(t, server), open(t, server)
	for range 3 {
		trigger(t, a)
	}
	// b has seen nothing but the list of jobs.
	if _, err := b.Jobs(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if cp := trigger(t, b); cp.ID != 1003 {
		t.Errorf("id %d, want 1003", cp.ID)
	}
	if cp := trigger(t, a); cp.ID != 1004 {
		t.Errorf("id %d, want 1004", cp.ID)
	}
}

// A server that takes commands and does not answer: what was sent may have run, what
// could not even be sent has not.
func TestASilentRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	id := trigger(t, open(t, server)).ID
	calls := map[string]func(ctx context.Context, s *Store) error{
		"trigger": func(ctx context.Context, s *Store) error { _, err := s.Trigger(ctx, aTriggerCall()); return err },
		"delete": func(ctx context.Context, s *Store) error {
			return s.Delete(ctx, coordinator.DeleteCall{Job: coordinator.DefaultJob, ID: id})
		},
		"get": func(ctx context.Context, s *Store) error {
			_, err := s.Get(ctx, coordinator.Ref{Job: coordinator.DefaultJob, ID: id})
			return err
		},
	}
	connected, fresh := map[string]*Store{}, map[string]*Store{}
	for what := range calls {
		connected[what], fresh[what] = open(t, server), open(t, server)
		if _, err := connected[what].Job(t.Context(), coordinator.DefaultJob); err != nil {
			t.Fatal(err)
		}
	}
	server.Pause(t)
	t.Cleanup(func() { server.Resume(t) })

	for what, call := range calls {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			want := coordinator.CodeOutcomeUnknown
			if what == "get" {
				want = coordinator.CodeStoreUnavailable
			}
			soon(t, what, func() { wantCode(t, what, call(t.Context(), connected[what]), want) })
			soon(t, what, func() {
				wantCode(t, what+" without a connection", call(t.Context(), fresh[what]), coordinator.CodeStoreUnavailable)
			})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := call(ctx, fresh[what]); !errors.Is(err, context.Canceled) {
				t.Errorf("with a caller that went away: %v, want context.Canceled", err)
			}
		})
	}
}

func TestALongListOfNamesIsStagedAndAdopted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server)
	call := aTriggerCall()
	call.Job = "orders"
	for i := range coordinator.MaxTasks {
		call.Tasks = append(call.Tasks, "task-"+decimal(int64(i)))
	}
	result, err := s.Trigger(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Checkpoint; got.RequiredTaskAcks != coordinator.MaxTasks || len(got.MissingTasks) != coordinator.MissingTasksShown {
		t.Errorf("required %d, %d missing names shown", got.RequiredTaskAcks, len(got.MissingTasks))
	}
	if left := leftovers(t, server.Client(t), server.Prefix); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server)
	for _, job := range []string{"b", "a"} {
		call := aTriggerCall()
		call.Job = job
		if _, err := s.Trigger(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	// Named by somebody, but never written to; and what cannot be a job.
	if err := server.Client(t).SAdd(t.Context(), jobsKey(server.Prefix), "nobody", "not{a}job").Err(); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, job := range jobs {
		names = append(names, job.Job)
	}
	if got := strings.Join(names, " "); got != "a b default" {
		t.Errorf("jobs %q, want a b default", got)
	}
}
