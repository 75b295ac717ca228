package engine_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/engine"
)

// patience is how long a test waits for what has to happen.
const patience = 20 * time.Second

func store[K comparable, V any](t *testing.T, c *engine.Coordinator, name string) *engine.KeyedStore[K, V] {
	t.Helper()
	s, err := engine.NewKeyedStore[K, V](t.Context(), c, name, nil)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func set[K comparable, V any](t *testing.T, s *engine.KeyedStore[K, V], key K, value V) {
	t.Helper()
	must(t, s.Set(engine.WithKey(t.Context(), key), value))
}

// trigger gives up after a while and says why, for whoever breaks the engine so that the
// fence is held by what it should not be.
func trigger(t *testing.T, c *engine.Coordinator) *engine.Checkpoint {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errHeld)
	defer cancel()
	cp, err := c.Trigger(ctx)
	must(t, err)
	return cp
}

var errHeld = fmt.Errorf("somebody held it for %v, such as a stream that waits for its source", patience)

func read[P any](t *testing.T, cp *engine.Checkpoint, source string) P {
	t.Helper()
	value, err := engine.Read[P](cp, source)
	must(t, err)
	return value
}

// contents is what a store holds now.
func contents[K comparable, V any](t *testing.T, s *engine.KeyedStore[K, V]) map[K]V {
	t.Helper()
	all, err := s.All(t.Context())
	must(t, err)
	return maps.Collect(all)
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// happens waits until something is done.
func happens(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
}

// begin runs do in a goroutine and tells when it is through.
func begin(t *testing.T, do func(ctx context.Context) error) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		if err := do(ctx); err != nil && ctx.Err() == nil { // else the test has failed already
			t.Error(err)
		}
	}()
	return done
}

// waits fails when done is done already, or gets done within a moment in which a
// goroutine that does not wait would have run.
func waits(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
		t.Fatalf("%s did not wait", what)
	case <-time.After(20 * time.Millisecond):
	}
}
