package worker_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

// takesPart has the worker go through some checkpoints, of which it must be told.
func takesPart(t *testing.T, server *checkpointtest.Server, c *counter, times int) {
	t.Helper()
	for range times {
		c.add("n", 1)
		id := server.Trigger(c.TaskID).ID
		if got := server.Ended(id); got.Status != "completed" {
			t.Fatalf("the checkpoint ended as %+v", got)
		}
		if told := receive(t, c.completed); told != id {
			t.Errorf("the worker was told of %d, not of %d", told, id)
		}
	}
}

// eventually waits for a condition that no event tells of.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not yet: %s", what)
		}
	}
}

func TestAWorkerListensToTheStreamAndDoesNotPollBesideIt(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	proxy := newProxy(t, server)
	c := newCounter(t, server, "task-1")
	c.URL = proxy.url
	c.run(t)
	takesPart(t, server, c, 1) // by then the stream may have begun, or not
	eventually(t, "the stream is asked for", func() bool { return proxy.events.Load() == 1 })
	takesPart(t, server, c, 2)
	before := proxy.polls.Load()
	takesPart(t, server, c, 10)
	if polls, streams := proxy.polls.Load(), proxy.events.Load(); polls != before || streams != 1 {
		t.Errorf("beside %d streams the worker polled %d times", streams, polls-before)
	}
}

func TestAWorkerPollsWhereTheStreamIsRefusedHangsOrIsAnotherPage(t *testing.T) {
	t.Parallel()
	for name, meddle := range map[string]func(http.ResponseWriter, *http.Request){
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"hangs":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"head only": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"another page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t)
			proxy := newProxy(t, server)
			proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/events" {
					meddle(w, r)
					return false
				}
				return true
			})
			c := newCounter(t, server, "task-1")
			c.URL, c.StreamTimeout = proxy.url, 200*time.Millisecond
			c.run(t)
			takesPart(t, server, c, 5)
			if proxy.polls.Load() == 0 {
				t.Error("nothing was polled")
			}
			eventually(t, "the stream is asked for again", func() bool { return proxy.events.Load() > 1 })
			// A checkpoint that another task ends is heard of without a stream, too.
			id := server.Trigger("task-1", "task-2").ID
			eventually(t, "the part is in", func() bool { return server.Checkpoint(id).AcknowledgedTasks == 1 })
			server.Recover()
			if ended := receive(t, c.aborted); ended.ID != id || ended.Reason != "superseded" {
				t.Errorf("the worker was told %+v", ended)
			}
		})
	}
}

func TestAWorkerGoesOverToTheStreamOnceThereIsOne(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	proxy := newProxy(t, server)
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/events" {
			return true
		}
		w.WriteHeader(http.StatusBadGateway)
		return false
	})
	c := newCounter(t, server, "task-1")
	c.URL, c.PollWait = proxy.url, time.Minute // too long for a poll to end by itself
	c.run(t)
	takesPart(t, server, c, 2)
	id := server.Trigger("task-1", "task-2").ID
	eventually(t, "the part is in", func() bool { return server.Checkpoint(id).AcknowledgedTasks == 1 })
	refused := proxy.events.Load()
	proxy.set(func(http.ResponseWriter, *http.Request) bool { return true })
	eventually(t, "the stream is asked for again", func() bool { return proxy.events.Load() > refused })
	takesPart(t, server, c, 1)
	polls := proxy.polls.Load()
	takesPart(t, server, c, 3)
	if proxy.polls.Load() > polls+1 { // the first of the three may have come before the stream
		t.Errorf("the worker polled %d times beside the stream", proxy.polls.Load()-polls)
	}
}

func TestAWorkerMissesNothingWhileItsStreamsBreak(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	proxy := newProxy(t, server)
	proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/events" {
			return true
		}
		relayCut(t, w, r, server.URL, 700) // an event or two
		return false
	})
	c := newCounter(t, server, "task-1")
	c.URL = proxy.url
	c.run(t)
	takesPart(t, server, c, 20)
}
