package handlers_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to hold")
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // It waits for a condition.
	}
}

// looked is a store that tells when it has answered a read.
type looked struct {
	coordinator.Store
	reads chan struct{}
}

func (s looked) told() {
	select {
	case s.reads <- struct{}{}:
	default:
	}
}

func (s looked) List(ctx context.Context, call coordinator.ListCall) (coordinator.ListResult, error) {
	defer s.told()
	return s.Store.List(ctx, call)
}

func (s looked) Get(ctx context.Context, ref coordinator.Ref) (coordinator.CheckpointDetail, error) {
	defer s.told()
	return s.Store.Get(ctx, ref)
}

// waiting starts a call and returns once it has seen that there is nothing to answer yet.
func waiting(t *testing.T, method, path, body string, prepare func(*fixture)) (f *fixture, answered <-chan answer) {
	t.Helper()
	reads := make(chan struct{}, 1)
	f = serve(t, setup{live: true, store: func(s coordinator.Store) coordinator.Store { return looked{s, reads} }})
	prepare(f)
	select {
	case <-reads:
	default:
	}
	done := make(chan answer, 1)
	go func() {
		a, err := f.try(method, path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	select {
	case <-reads:
	case a := <-done:
		t.Fatalf("%s did not wait: %d %s", a.call, a.status, a.body)
	}
	return f, done
}

func TestAListWaitsUntilItHasSomething(t *testing.T) {
	t.Parallel()
	f, answered := waiting(t, "GET", "/checkpoints?status=pending&notAckedBy=task-1&wait=60", "", func(*fixture) {})
	f.trigger(`{"tasks":["task-2"]}`) // nothing for task-1
	f.trigger(`{"tasks":["task-1"]}`)
	var list api.CheckpointList
	(<-answered).want(http.StatusOK).into(&list)
	if len(list.Checkpoints) != 1 || list.Checkpoints[0].CheckpointID != 1 {
		t.Errorf("the list is %+v", list)
	}
}

func TestTheLatestWaitsForTheNextOne(t *testing.T) {
	t.Parallel()
	f, answered := waiting(t, "GET", "/checkpoints/latest?after=0&wait=60", "", func(f *fixture) { f.completed(`{}`) })
	f.completed(`{"a":1}`)
	a := (<-answered).want(http.StatusOK)
	if a.header.Get("Checkpoint-Id") != "1" {
		t.Errorf("the latest is %s", a.body)
	}
}

func TestACheckpointWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	f, answered := waiting(t, "GET", "/checkpoints/0?wait=60&until=ended", "", func(f *fixture) { f.trigger(`{"requiredTaskAcks":2}`) })
	f.do("POST", "/checkpoints/0/acks", `{"taskId":"task-1"}`).want(http.StatusOK)
	f.do("POST", "/checkpoints/0/abort", `{"reason":"by hand"}`).want(http.StatusOK)
	var details api.CheckpointDetails
	(<-answered).want(http.StatusOK).into(&details)
	if details.Status != api.CheckpointStatusAborted || details.AcknowledgedTasks != 1 {
		t.Errorf("the checkpoint is %+v", details)
	}
}

func TestATriggerWaitsForTheEndOfItsCheckpoint(t *testing.T) {
	t.Parallel()
	f, answered := waiting(t, "POST", "/checkpoints?wait=60", `{"requiredTaskAcks":1}`, func(*fixture) {})
	tag := f.do("POST", "/checkpoints/0/acks", `{"taskId":"task-1"}`).want(http.StatusOK)
	a := (<-answered).want(http.StatusCreated)
	var checkpoint api.Checkpoint
	a.into(&checkpoint)
	if checkpoint.Status != api.CheckpointStatusCompleted || a.header.Get("Location") != "/checkpoints/0" {
		t.Errorf("%s answered %s at %s (%s)", a.call, a.body, a.header.Get("Location"), tag.body)
	}
	if got := f.do("GET", "/checkpoints/0", "").header.Get("ETag"); got != a.header.Get("ETag") {
		t.Errorf("the tag is %s, and of the ended checkpoint %s", a.header.Get("ETag"), got)
	}
}

func TestATriggerWhoseEndCannotBeSeenIsAnsweredAllTheSame(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{store: func(s coordinator.Store) coordinator.Store { return blind{s} }})
	var checkpoint api.Checkpoint
	f.do("POST", "/checkpoints?wait=60", "").want(http.StatusCreated).into(&checkpoint)
	if checkpoint.Status != api.CheckpointStatusPending {
		t.Errorf("the checkpoint is %+v", checkpoint)
	}
}

// blind is a store whose log cannot be read.
type blind struct{ coordinator.Store }

func (blind) Events(context.Context, coordinator.EventsCall) (coordinator.EventsResult, error) {
	return coordinator.EventsResult{}, coordinator.ErrStoreUnavailable(errSecret)
}

func TestAWaitThatRunsOutAnswersWhatThereIs(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true, impatient: true, options: handlers.Options{Budget: 900 * time.Millisecond}}) // less than the wait
	same(t, f.do("GET", "/checkpoints?wait=1", "").want(http.StatusOK), `{"checkpoints":[]}`)
	if a := f.do("GET", "/checkpoints/latest?wait=1", "").want(http.StatusNoContent); a.body != "" || a.header.Get("Content-Type") != "" {
		t.Errorf("%s answered %q as %s", a.call, a.body, a.header.Get("Content-Type"))
	}
	var checkpoint api.Checkpoint
	f.do("POST", "/checkpoints?wait=1", "").want(http.StatusCreated).into(&checkpoint)
	if checkpoint.Status != api.CheckpointStatusPending {
		t.Errorf("the checkpoint is %+v", checkpoint)
	}
	f.do("GET", "/checkpoints/0?wait=1", "").want(http.StatusOK).into(&checkpoint)
	if checkpoint.Status != api.CheckpointStatusPending {
		t.Errorf("the checkpoint is %+v", checkpoint)
	}
}

func TestTheLatestAboveAnIDIsNothingRatherThanNotFound(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do("GET", "/checkpoints/latest", "").refused(coordinator.CodeNoCompletedCheckpoint)
	f.do("GET", "/checkpoints/latest?wait=0", "").refused(coordinator.CodeNoCompletedCheckpoint)
	f.do("GET", "/checkpoints/latest?after=0", "").want(http.StatusNoContent)
	f.completed(`{}`)
	f.do("GET", "/checkpoints/latest?after=0", "").want(http.StatusNoContent)
	f.completed(`{}`)
	tag := f.do("GET", "/checkpoints/latest?after=0", "").want(http.StatusOK).header.Get("ETag")
	f.do("GET", "/checkpoints/latest?after=0&wait=60", "", "If-None-Match", tag).want(http.StatusNotModified)
	f.do("GET", "/checkpoints/latest?job=orders&wait=60", "").refused(coordinator.CodeJobNotFound)
}

func TestWaitsAndTheirKinHaveOneSpelling(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.trigger("")
	for _, call := range []string{
		"POST /checkpoints?wait=61", "GET /checkpoints?wait=-1", "GET /checkpoints?wait=1.5", "GET /checkpoints?wait=", "GET /checkpoints?wait=+1",
		"GET /checkpoints/latest?wait=61", "GET /checkpoints/latest?after=-1", "GET /checkpoints/latest?after=9007199254740992",
		"GET /checkpoints/0?wait=100", "GET /checkpoints/0?until=completed", "GET /checkpoints/0?wait=1&wait=1",
	} {
		method, path, _ := strings.Cut(call, " ")
		problem := f.do(method, path, "").refused(coordinator.CodeInvalidParameter)
		if len(problem.Errors) != 1 || problem.Errors[0].Parameter == nil || len(problem.Errors[0].Detail) < 10 {
			t.Errorf("%s: errors are %+v", call, problem.Errors)
		}
	}
}

func TestATriggerThatWaitsDoesNotWaitForAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{
		impatient: true, options: handlers.Options{Budget: 50 * time.Millisecond},
		store: func(s coordinator.Store) coordinator.Store { return troubled{s} },
	})
	began := time.Now()
	f.do("POST", "/checkpoints?job=slow&wait=60", "").refused(coordinator.CodeOutcomeUnknown)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestWhoWaitsIsToldHowACheckpointEndedThatIsGone(t *testing.T) {
	t.Parallel()
	remove := map[string]struct {
		by     func(*fixture)
		reason api.FailureReason
	}{
		"a cleanup":  {func(f *fixture) { f.do("POST", "/checkpoints/cleanup", `{"keep":0}`).want(http.StatusOK) }, "evicted"},
		"a deletion": {func(f *fixture) { f.do("DELETE", "/checkpoints/0", "").want(http.StatusNoContent) }, "aborted"},
	}
	for name, removal := range remove {
		for call, status := range map[string]int{"POST /checkpoints?wait=60": http.StatusCreated, "GET /checkpoints/0?wait=60&until=ended": http.StatusOK} {
			t.Run(name+" "+call, func(t *testing.T) {
				t.Parallel()
				method, path, _ := strings.Cut(call, " ")
				f, answered := waiting(t, method, path, "", func(f *fixture) {
					if method == "GET" {
						f.trigger("")
					}
				})
				removal.by(f)
				var checkpoint api.Checkpoint
				(<-answered).want(status).into(&checkpoint)
				if checkpoint.Status != api.CheckpointStatusAborted || checkpoint.Failure == nil || checkpoint.Failure.Reason != removal.reason || checkpoint.EndedAt == nil {
					t.Errorf("it was told %+v with failure %+v", checkpoint, checkpoint.Failure)
				}
			})
		}
	}
}
