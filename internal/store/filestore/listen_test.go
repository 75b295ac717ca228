package filestore

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// woken is what a listener saw of a job when it was woken.
type woken struct {
	job      string
	position coordinator.EventID
}

// listen listens until stop is called, and reads the log's end each time it is woken.
func listen(t *testing.T, s *Store) (seen func() []woken, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var all []woken
	var done sync.WaitGroup
	before := s.listeners.count()
	done.Go(func() {
		s.Listen(ctx, func(job string) {
			log, err := s.Events(context.WithoutCancel(ctx), coordinator.EventsCall{Job: job, Limit: 1})
			if err != nil {
				t.Errorf("events of %q: %v", job, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, woken{job, log.Position})
		})
	})
	for deadline := time.Now().Add(10 * time.Second); s.listeners.count() == before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("nobody listens")
		}
	}
	seen = func() []woken {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(stop)
	return seen, stop
}

func (l *listeners) count() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.wakes)
}

func position(t testing.TB, s *Store, job string) coordinator.EventID {
	t.Helper()
	log, err := s.Events(t.Context(), coordinator.EventsCall{Job: job, Limit: 1})
	if err != nil {
		t.Fatalf("events: %v", err)
	}
	return log.Position
}

func TestListen(t *testing.T) {
	t.Parallel()

	t.Run("who is woken finds the events, and all who listen are woken before the answer", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		one, _ := listen(t, s)
		other, _ := listen(t, s)
		for n := 1; n <= 5; n++ {
			id := trigger(t, s, 1)
			want := woken{coordinator.DefaultJob, position(t, s, coordinator.DefaultJob)}
			for _, seen := range []func() []woken{one, other} {
				if got := seen(); len(got) != 2*n-1 || got[2*n-2] != want {
					t.Fatalf("after trigger %d: %v, want %v as number %d", id, got, want, 2*n-1)
				}
			}
			acknowledge(t, s, id, "task-1", nil)
			if got := one(); len(got) != 2*n {
				t.Fatalf("after the end of %d: %d wakes, want %d", id, len(got), 2*n)
			}
		}
	})

	t.Run("an event in a refused change wakes, and a change without one does not", func(t *testing.T) {
		t.Parallel()
		var now int64 = 1_000_000
		s := open(t, Options{Clock: func() int64 { return now }})
		call := coordinator.TriggerCall{Job: "orders", RequiredTaskAcks: 2, TimeoutMs: new(int64(10)), Defaults: coordinator.Settings{MaxConcurrent: 1}}
		triggered, err := s.Trigger(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		seen, _ := listen(t, s)
		ack := coordinator.AckCall{Job: "orders", ID: triggered.Checkpoint.ID, Items: []coordinator.AckItem{{TaskID: "a"}}}
		if _, err := s.Acknowledge(t.Context(), ack); err != nil {
			t.Fatal(err)
		}
		if got := seen(); len(got) != 0 {
			t.Errorf("woken by an acknowledgement that completes nothing: %v", got)
		}
		now += 11
		_, err = s.Complete(t.Context(), coordinator.CompleteCall{Job: ack.Job, ID: ack.ID, Force: true})
		if coordinator.CodeOf(err) != coordinator.CodeCheckpointExpired {
			t.Fatalf("complete what is overdue: %v", err)
		}
		want := woken{"orders", position(t, s, "orders")}
		if got := seen(); len(got) != 1 || got[0] != want || want.position.Seq < 2 {
			t.Errorf("woken %v, want once %v", got, want)
		}
	})

	t.Run("nobody is woken after the context has ended", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		seen, stop := listen(t, s)
		trigger(t, s, 1)
		stop()
		trigger(t, s, 1)
		if got := seen(); len(got) != 1 || s.listeners.count() != 0 {
			t.Errorf("%d wakes and %d listeners, want 1 and none", len(got), s.listeners.count())
		}
	})
}
