package worker_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/worker"
)

func TestNoCutIsTakenForACheckpointThatEndedWhileTheAnswerThatNamedItWasUnderWay(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	proxy := newProxy(t, server)
	c := newCounter(t, server, "task-1")
	c.URL = proxy.url
	var cuts []int64
	snapshot := c.Snapshot
	c.Snapshot = func(ctx context.Context, checkpoint worker.Checkpoint) (worker.Entries, error) {
		cuts = append(cuts, checkpoint.ID)
		return snapshot(ctx, checkpoint)
	}
	var looks atomic.Int64
	proxy.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if query := r.URL.Query(); query.Has("notAckedBy") && !query.Has("wait") {
			looks.Add(1)
		}
		return true
	})
	life, _ := c.run(t)
	eventually(t, "it listens, and looked once more when it began to", func() bool { return looks.Load() == 2 })
	first := handedIn(t, server)

	read, release := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("notAckedBy") == "" || held.Swap(true) {
			return true
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, server.URL+r.URL.RequestURI(), nil)
		if err != nil {
			t.Error(err)
			return true
		}
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Error(err)
			return true
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		close(read)
		<-release
		_, _ = w.Write(text)
		return false
	})
	late := server.Trigger("task-1").ID
	receive(t, read)
	server.Abort(late)
	server.Abort(first)
	receive(t, c.aborted) // the events come in their order, so the worker has heard of both
	close(release)
	takesPart(t, server, c, 1)
	life.stop()
	if diff := cmp.Diff([]int64{first, late + 1}, cuts); diff != "" {
		t.Errorf("cuts were taken for others: %s", diff)
	}
}

func TestPollsThatAreAnsweredAtOnceDoNotBecomeABusyLoop(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	proxy := newProxy(t, server)
	var lists, looks atomic.Int64
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/events" {
			w.WriteHeader(http.StatusNotFound)
			return false
		}
		query := r.URL.Query()
		if query.Has("wait") {
			query.Del("wait")
			r.URL.RawQuery = query.Encode()
			if strings.HasPrefix(r.URL.Path, "/checkpoints/") {
				looks.Add(1)
			} else {
				lists.Add(1)
			}
		}
		return true
	})
	c := newCounter(t, server, "task-1")
	c.URL, c.PollWait = proxy.url, 30*time.Second
	began := time.Now()
	c.run(t)
	id := handedIn(t, server)
	eventually(t, "it is asked again and again", func() bool { return lists.Load() >= 3 && looks.Load() >= 3 })
	// Each of the two begins at once, and may go on at once when something was there.
	if most := int64(time.Since(began)/time.Second) + 3; lists.Load() > most || looks.Load() > most {
		t.Errorf("after %v there were %d and %d polls", time.Since(began), lists.Load(), looks.Load())
	}
	server.Abort(id)
	receive(t, c.aborted)
}
