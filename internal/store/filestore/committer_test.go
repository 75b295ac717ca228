package filestore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func open(t testing.TB, options Options) *Store {
	t.Helper()
	return openIn(t, t.TempDir(), options)
}

func openIn(t testing.TB, dir string, options Options) *Store {
	t.Helper()
	s, err := Open(dir, options)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// note writes a key of its own outside of the layout.
func note(key string) func(*step) error {
	return func(s *step) error {
		s.put(s.tx.Bucket(bucketMeta), []byte(key), present)
		return nil
	}
}

func noted(t *testing.T, s *Store, key string) bool {
	t.Helper()
	found := false
	err := s.db.View(func(tx *bolt.Tx) error {
		found = tx.Bucket(bucketMeta).Get([]byte(key)) != nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// together queues the changes while the committer is busy, so that they share a batch,
// and gives their errors.
func together(t *testing.T, s *Store, changes ...func(*step) error) []error {
	t.Helper()
	busy, release := make(chan struct{}), make(chan struct{})
	var callers sync.WaitGroup
	callers.Go(func() {
		_, err := s.committer.do(t.Context(), false, func(*step) error {
			close(busy)
			<-release
			return nil
		})
		if err != nil {
			t.Errorf("the change that keeps the committer busy: %v", err)
		}
	})
	<-busy
	// They are queued here and not by callers of do, for the sake of their order.
	queued := make([]*change, len(changes))
	s.committer.mu.Lock()
	for i, apply := range changes {
		queued[i] = &change{ctx: t.Context(), apply: apply, done: make(chan struct{})}
	}
	s.committer.queue = append(s.committer.queue, queued...)
	s.committer.mu.Unlock()
	close(release)
	callers.Wait()
	errs := make([]error, len(changes))
	for i, ch := range queued {
		<-ch.done
		errs[i] = ch.err
	}
	return errs
}

func TestCommitter(t *testing.T) {
	t.Parallel()

	t.Run("changes that wait share one transaction and see each other", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		const n = 100
		transactions := map[int]bool{}
		changes := make([]func(*step) error, n)
		for i := range n {
			changes[i] = func(st *step) error {
				transactions[st.tx.ID()] = true
				if i > 0 && st.tx.Bucket(bucketMeta).Get(fmt.Appendf(nil, "note-%d", i-1)) == nil {
					return errors.New("the change before is not there")
				}
				return note(fmt.Sprintf("note-%d", i))(st)
			}
		}
		for i, err := range together(t, s, changes...) {
			if err != nil {
				t.Errorf("change %d: %v", i, err)
			}
		}
		if len(transactions) != 1 {
			t.Errorf("%d changes ran in %d transactions, want 1", n, len(transactions))
		}
	})

	t.Run("a panic fails its own change only", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		transactions := map[string]int{} // in which each note was written last
		in := func(key string) func(*step) error {
			return func(st *step) error {
				transactions[key] = st.tx.ID()
				return note(key)(st)
			}
		}
		errs := together(t, s,
			in("before"),
			func(st *step) error { _ = note("spoilt")(st); panic("a defect") },
			in("after"),
			func(st *step) error { _ = note("wrong")(st); return errors.New("no refusal") },
			in("last"))
		if transactions["before"] != transactions["after"] || transactions["after"] != transactions["last"] {
			t.Errorf("the others were not committed together: %v", transactions)
		}
		for i, want := range []coordinator.Code{"", coordinator.CodeInternal, "", coordinator.CodeInternal, ""} {
			if got := coordinator.CodeOf(errs[i]); got != want {
				t.Errorf("change %d: code %q (%v), want %q", i, got, errs[i], want)
			}
		}
		for key, want := range map[string]bool{"before": true, "spoilt": false, "after": true, "wrong": false, "last": true} {
			if got := noted(t, s, key); got != want {
				t.Errorf("note %q is there: %v, want %v", key, got, want)
			}
		}
	})

	t.Run("a refusal keeps what was written before it and disturbs nobody", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		errs := together(t, s,
			func(st *step) error { _ = note("expiry")(st); return coordinator.ErrPinned(1) },
			note("neighbour"))
		if coordinator.CodeOf(errs[0]) != coordinator.CodePinned || errs[1] != nil {
			t.Errorf("errors = %v", errs)
		}
		if !noted(t, s, "expiry") || !noted(t, s, "neighbour") {
			t.Error("a note is missing")
		}
	})

	t.Run("a batch without writes is not committed", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		id := func() (id int) {
			_ = s.db.View(func(tx *bolt.Tx) error { id = tx.ID(); return nil })
			return id
		}
		before := id()
		if _, err := s.committer.do(t.Context(), false, func(*step) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if after := id(); after != before {
			t.Errorf("the transaction went from %d to %d", before, after)
		}
	})

	t.Run("a call that was given up is not run", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.committer.do(ctx, false, note("given up"))
		if !errors.Is(err, context.Canceled) || coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
			t.Errorf("error = %v", err)
		}
		if noted(t, s, "given up") {
			t.Error("it ran")
		}
	})

	t.Run("no deadline passes for reads before the changes that came earlier are done", func(t *testing.T) {
		t.Parallel()
		var now atomic.Int64
		now.Store(1_000_000)
		s := open(t, Options{Clock: now.Load})
		triggered, err := s.Trigger(t.Context(), coordinator.TriggerCall{Job: coordinator.DefaultJob, RequiredTaskAcks: 1, TimeoutMs: new(int64(1000)), Defaults: coordinator.Settings{MaxConcurrent: 1, EventsToKeep: 10_000}})
		if err != nil {
			t.Fatal(err)
		}
		status := func() coordinator.Status {
			c, err := s.Get(t.Context(), ref(triggered.Checkpoint.ID))
			if err != nil {
				t.Fatal(err)
			}
			return c.Status
		}
		now.Add(1000)
		busy, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			_, err := s.committer.do(t.Context(), false, func(*step) error {
				close(busy)
				<-release
				return nil
			})
			done <- err
		}()
		<-busy
		now.Add(1)
		if got := status(); got != coordinator.StatusPending {
			t.Errorf("while a change from before the deadline runs: %s", got)
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := status(); got != coordinator.StatusExpired {
			t.Errorf("afterwards: %s", got)
		}
	})

	t.Run("closing answers what is queued and refuses the rest", func(t *testing.T) {
		t.Parallel()
		s, err := Open(t.TempDir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				_, err := s.committer.do(t.Context(), false, note(fmt.Sprint(i)))
				if code := coordinator.CodeOf(err); code != "" && code != coordinator.CodeStoreUnavailable {
					t.Errorf("change %d: %v", i, err)
				}
			})
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		callers.Wait()
		if _, err := s.committer.do(t.Context(), false, note("late")); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
			t.Errorf("after close: %v", err)
		}
		if _, err := s.Get(t.Context(), coordinator.Ref{Job: coordinator.DefaultJob}); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
			t.Errorf("reading after close: %v", err)
		}
	})
}
