package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

func TestAWorkerWaitsForAServerAndNeverTakesItForAFreshStart(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first := newCounter(t, server, "task-1")
	life, _ := first.run(t)
	takesPart(t, server, first, 1)
	life.stop()

	proxy := newProxy(t, server)
	var refused atomic.Int64
	proxy.set(func(w http.ResponseWriter, _ *http.Request) bool {
		switch refused.Add(1) {
		case 1:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"store_unavailable","status":503}`))
		case 2:
			breakOff(w)
		case 4: // 3 asks for the epoch
			w.WriteHeader(http.StatusBadGateway)
		default:
			return true
		}
		return false
	})
	second := newCounter(t, server, "task-1")
	second.URL = proxy.url
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

	proxy := newProxy(t, server)
	var broken atomic.Int64
	target := server.URL
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/restore") {
			return true
		}
		connection := broken.Add(1)
		if wanted := fmt.Sprintf("bytes=%d-", (connection-1)*10_001); connection > 1 && r.Header.Get("Range") != wanted {
			t.Errorf("connection %d asks for %q, not %q", connection, r.Header.Get("Range"), wanted)
		}
		if connection > 4 {
			return true
		}
		relayCut(t, w, r, target, 10_001)
		return false
	})
	second := newCounter(t, server, "task-1")
	second.URL = proxy.url
	second.run(t)
	if diff := cmp.Diff(first.counts, second.counts); diff != "" || broken.Load() != 5 {
		t.Errorf("after %d connections: %s", broken.Load(), diff)
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

	proxy := newProxy(t, server)
	target := server.URL
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/restore") {
			return true
		}
		relayCut(t, w, r, target, 0)
		return false
	})
	second := newCounter(t, server, "task-1")
	second.URL, second.MaxBackoff = proxy.url, time.Millisecond
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
	proxy := newProxy(t, server)
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/checkpoints/latest" {
			return true
		}
		http.Error(w, "no such page", http.StatusNotFound)
		return false
	})
	c := newCounter(t, server, "task-1")
	c.URL = proxy.url
	problem, is := errors.AsType[*worker.Problem](c.Run(t.Context()))
	if !is || problem.Status != http.StatusNotFound || problem.Code != "" || problem.Detail != "no such page" || len(c.restored) > 0 {
		t.Errorf("the worker ended with %v", problem)
	}
}
