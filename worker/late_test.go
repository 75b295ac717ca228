package worker_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
)

func TestNoCutIsTakenForACheckpointThatEndedWhileTheAnswerThatNamedItWasUnderWay(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	c := newCounter(t, server, "task-1")
	c.URL = front.URL
	var cuts []int64
	snapshot := c.Snapshot
	c.Snapshot = func(ctx context.Context, checkpoint worker.Checkpoint) (worker.Entries, error) {
		cuts = append(cuts, checkpoint.ID)
		return snapshot(ctx, checkpoint)
	}
	front.Script(fault.On(fault.Events).Before(func() { // or it looks once only
		_, _ = front.Wait(t.Context(), func(r fault.Requests) bool { return len(r.Of(fault.List)) > 0 })
	}))
	life, _ := c.run(t)
	eventually(t, "it listens, and looked once more when it began to", func() bool {
		return len(front.Requests().Of(fault.List))-polls(front, fault.List) == 2
	})
	first := handedIn(t, server)

	read, release := make(chan struct{}), make(chan struct{})
	front.Script(fault.On(fault.List).Alter(func(answer *http.Response) error {
		text, err := io.ReadAll(answer.Body)
		answer.Body = io.NopCloser(bytes.NewReader(text))
		close(read)
		until(t, release)
		return err
	}))
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
	front := server.Front()
	front.Script(noStream(), fault.On(fault.Any).Rewrite(func(r *http.Request) {
		query := r.URL.Query()
		query.Del("wait")
		r.URL.RawQuery = query.Encode()
	}).Always())
	c := newCounter(t, server, "task-1")
	c.URL, c.PollWait = front.URL, 30*time.Second
	began := time.Now()
	c.run(t)
	id := handedIn(t, server)
	var lists, looks int
	eventually(t, "it is asked again and again", func() bool {
		lists, looks = polls(front, fault.List), polls(front, fault.Checkpoint)
		return lists >= 3 && looks >= 3
	})
	// Each of the two begins at once, and may go on at once when something was there.
	if most := int(time.Since(began)/time.Second) + 3; lists > most || looks > most {
		t.Errorf("after %v there were %d and %d polls", time.Since(began), lists, looks)
	}
	server.Abort(id)
	receive(t, c.aborted)
}
