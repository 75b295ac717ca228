package worker_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
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
	front := server.Front()
	c := newCounter(t, server, "task-1")
	c.URL = front.URL
	c.run(t)
	takesPart(t, server, c, 1) // by then the stream may have begun, or not
	arrived(t, front, fault.Events, 1)
	takesPart(t, server, c, 2)
	before := polls(front, fault.List)
	takesPart(t, server, c, 10)
	if polls, streams := polls(front, fault.List), len(front.Requests().Of(fault.Events)); polls != before || streams != 1 {
		t.Errorf("beside %d streams the worker polled %d times", streams, polls-before)
	}
}

func TestAWorkerPollsWhereTheStreamIsRefusedHangsOrIsAnotherPage(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]fault.Rule{
		"refused": noStream(),
		"hangs":   fault.On(fault.Events).Hang(),
		"head only": fault.On(fault.Events).Answer(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}),
		"another page": fault.On(fault.Events).Garbage(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t)
			front := server.Front()
			front.Script(rule.Always())
			c := newCounter(t, server, "task-1")
			c.URL, c.StreamTimeout = front.URL, 200*time.Millisecond
			c.run(t)
			takesPart(t, server, c, 5)
			if polls(front, fault.List) == 0 {
				t.Error("nothing was polled")
			}
			arrived(t, front, fault.Events, 2)
			// A checkpoint that another task ends is heard of without a stream, too.
			id := server.Trigger("task-1", "task-2").ID
			eventually(t, "the part is in", func() bool { return server.Checkpoint(id).AcknowledgedTasks == 1 })
			server.Abort(id) // a recovery would race with its news: it ends the worker, too
			if ended := receive(t, c.aborted); ended.ID != id || ended.Reason != worker.ReasonAborted {
				t.Errorf("the worker was told %+v", ended)
			}
		})
	}
}

func TestAWorkerGoesOverToTheStreamOnceThereIsOne(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(noStream())
	c := newCounter(t, server, "task-1")
	c.URL, c.PollWait = front.URL, time.Minute // too long for a poll to end by itself
	c.run(t)
	takesPart(t, server, c, 2)
	id := server.Trigger("task-1", "task-2").ID
	eventually(t, "the part is in", func() bool { return server.Checkpoint(id).AcknowledgedTasks == 1 })
	refused := len(front.Requests().Of(fault.Events))
	front.Clear()
	arrived(t, front, fault.Events, refused+1)
	takesPart(t, server, c, 1)
	before := polls(front, fault.List)
	takesPart(t, server, c, 3)
	if after := polls(front, fault.List); after > before+1 { // the first of the three may have come before the stream
		t.Errorf("the worker polled %d times beside the stream", after-before)
	}
}

func TestAWorkerMissesNothingWhileItsStreamsBreak(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(fault.On(fault.Events).CutAnswerAfter(700).Always()) // an event or two
	c := newCounter(t, server, "task-1")
	c.URL = front.URL
	c.run(t)
	for len(front.Requests().Of(fault.Events)) < 5 {
		takesPart(t, server, c, 1)
	}
}
