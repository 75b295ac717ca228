package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
	"github.com/checkpointd/checkpointd/internal/load"
)

// stalled is a store that does not answer the job hog until it is let go.
type stalled struct {
	coordinator.Store

	entered chan string
	let     chan struct{}
}

const hog = "hog"

func (s stalled) stall(ctx context.Context, job string) error {
	if job != hog {
		return nil
	}
	s.entered <- job
	select {
	case <-s.let:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s stalled) Trigger(ctx context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	if err := s.stall(ctx, call.Job); err != nil {
		return coordinator.TriggerResult{}, err
	}
	return s.Store.Trigger(ctx, call)
}

func (s stalled) SharedState(ctx context.Context, ref coordinator.Ref) (coordinator.SharedState, error) {
	if err := s.stall(ctx, ref.Job); err != nil {
		return coordinator.SharedState{}, err
	}
	return s.Store.SharedState(ctx, ref)
}

func (s stalled) BeginUpload(ctx context.Context, call coordinator.UploadCall) (coordinator.Upload, error) {
	if err := s.stall(ctx, call.Job); err != nil {
		return nil, err
	}
	return s.Store.BeginUpload(ctx, call)
}

func (s stalled) OpenRestore(ctx context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	if err := s.stall(ctx, call.Job); err != nil {
		return nil, err
	}
	return s.Store.OpenRestore(ctx, call)
}

func (s stalled) List(ctx context.Context, call coordinator.ListCall) (coordinator.ListResult, error) {
	if err := s.stall(ctx, call.Job); err != nil {
		return coordinator.ListResult{}, err
	}
	return s.Store.List(ctx, call)
}

func (s stalled) WriteShared(ctx context.Context, write coordinator.SharedWrite) (coordinator.SharedWritten, error) {
	if err := s.stall(ctx, write.Job); err != nil {
		return coordinator.SharedWritten{}, err
	}
	return s.Store.WriteShared(ctx, write)
}

// crowded is a server whose bounds are few, and whose job hog does not get on.
type crowded struct {
	*fixture

	load    *load.Load
	entered chan string
	let     func()
}

func serveCrowded(t *testing.T, limits func(*load.Limits)) crowded {
	t.Helper()
	l := load.DefaultLimits()
	l.Patience = 20 * time.Millisecond
	limits(&l)
	c := crowded{load: load.New(l), entered: make(chan string, 100)}
	let := make(chan struct{})
	c.let = func() { close(let) }
	c.fixture = serve(t, setup{
		options: handlers.Options{Load: c.load},
		store:   func(s coordinator.Store) coordinator.Store { return stalled{s, c.entered, let} },
	})
	return c
}

// occupy sends a request that stays, and waits until it is in the store.
func (c crowded) occupy(method, path, body string, headers ...string) {
	c.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.try(method, path, strings.NewReader(body), headers...) // what becomes of it is none of this
	}()
	select {
	case <-c.entered:
	case <-done:
		c.t.Fatalf("%s %s did not stay", method, path)
	}
	c.t.Cleanup(func() { <-done })
}

// nothingIsHeld waits until every bound is as it was at first.
func (c crowded) nothingIsHeld() {
	c.t.Helper()
	held := func() (all []string) {
		for _, class := range load.Classes() {
			if usage := c.load.Of(class).Usage(); usage.Used+usage.Waiting != 0 {
				all = append(all, fmt.Sprintf("%s %+v", class, usage))
			}
		}
		if usage := c.load.Buffered.Usage(); usage.Used+usage.Waiting != 0 {
			all = append(all, fmt.Sprintf("buffered %+v", usage))
		}
		return all
	}
	// The answer is out a moment before.
	eventually(c.t, func() bool { return len(held()) == 0 })
}

// Where one request occupies all of a class, others are refused, and when it ends they are
// not; nothing else is.
func TestWhatIsMoreThanTheServerTakesAtOnceIsRefusedByClass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit              api.LimitName
		one                func(*load.Limits)
		method, path, body string
		occupies           string
		headers            []string
	}{
		{"requests", func(l *load.Limits) { l.Requests = 1 }, "POST", "/checkpoints?job=", "{}", "", nil},
		{"lists", func(l *load.Limits) { l.Lists = 1 }, "GET", "/checkpoints?job=", "", "", nil},
		{"heavyRequests", func(l *load.Limits) { l.HeavyRequests = 1 }, "GET", "/checkpoints/0/state?job=", "", "", nil},
		{"uploads", func(l *load.Limits) { l.Uploads = 1 }, "PUT", "/checkpoints/0/tasks/a/state?job=", "", "", []string{"Content-Type", ndjson}},
		{"restores", func(l *load.Limits) { l.Restores = 1 }, "GET", "/checkpoints/0/restore?job=", "", "", nil},
		{"streams", func(l *load.Limits) { l.Streams = 1 }, "POST", "/checkpoints?wait=1&job=", "{}", "", nil},
		{
			"bufferedBytes", func(l *load.Limits) { l.BufferedBytes = 1 << 20 }, "PUT", "/checkpoints/0/state/k?job=",
			`"` + strings.Repeat("x", 100<<10) + `"`, `"` + strings.Repeat("x", 600<<10) + `"`, nil,
		},
	} {
		t.Run(string(c.limit), func(t *testing.T) {
			t.Parallel()
			f := serveCrowded(t, c.one)
			f.trigger("")
			other := f.do(c.method, c.path+"default", c.body, c.headers...)
			if other.status >= http.StatusTooManyRequests {
				t.Fatalf("%s is refused by a server at rest: %s", other.call, other.body)
			}
			occupies := c.body
			if c.occupies != "" {
				occupies = c.occupies
			}
			f.occupy(c.method, c.path+hog, occupies, c.headers...)
			a := f.do(c.method, c.path+"default", c.body, c.headers...)
			problem := a.refused(coordinator.CodeOverloaded)
			if problem.Limit == nil || *problem.Limit != c.limit || !strings.Contains(problem.Detail, string(c.limit)+" in GET /limits") {
				t.Errorf("the problem does not name the limit: %s", a.body)
			}
			if c.limit != "requests" && c.limit != "lists" {
				f.do("GET", "/checkpoints", "").want(http.StatusOK)
			}
			if c.limit != "requests" {
				f.do("POST", "/checkpoints/0/acks", `{"taskId":"t"}`).want(http.StatusOK)
			}
			f.do("GET", "/healthz", "").want(http.StatusOK)
			f.let()
			f.nothingIsHeld()
			if a := f.do(c.method, c.path+"default", c.body, c.headers...); a.status >= http.StatusTooManyRequests {
				t.Errorf("%s is still refused: %s", a.call, a.body)
			}
			f.nothingIsHeld()
		})
	}
}

func TestAPlainAcknowledgementThatIsRefusedCountsNothing(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(l *load.Limits) { l.Requests = 1 })
	path := f.trigger(`{"requiredTaskAcks":2}`)
	f.occupy("POST", "/checkpoints?job="+hog, "{}")
	f.do("POST", path+"/acks", `{"taskId":"t"}`).refused(coordinator.CodeOverloaded)
	f.let()
	f.nothingIsHeld()
	a := f.do("POST", path+"/acks", `{"taskId":"t"}`).want(http.StatusOK)
	if !strings.Contains(a.body, `"acknowledgedTasks":1`) || !strings.Contains(a.body, `"duplicate":false`) {
		t.Errorf("it was counted: %s", a.body)
	}
}

func TestAJobThatHasItsShareIsToldSoAndLeavesTheRestToOthers(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(l *load.Limits) { l.Uploads = 4 })
	f.trigger("")
	upload := func(job string) answer {
		return f.do("PUT", "/checkpoints/0/tasks/a/state?job="+job, `{"key":"k","value":1}`, "Content-Type", ndjson)
	}
	for range 2 {
		f.occupy("PUT", "/checkpoints/0/tasks/a/state?job="+hog, "", "Content-Type", ndjson)
	}
	a := upload(hog)
	problem := a.refused(coordinator.CodeTooManyRequests)
	if problem.Limit == nil || *problem.Limit != "jobShare" || !strings.Contains(problem.Detail, "uploads in GET /limits") {
		t.Errorf("the problem does not name the limit: %s", a.body)
	}
	upload("default").want(http.StatusOK)
	f.let()
	f.nothingIsHeld()
	f.do("GET", "/metrics", "").want(http.StatusOK)
}

func TestALongLineOfAnUploadIsCountedAsBuffered(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(l *load.Limits) { l.BufferedBytes = 1 << 20 })
	f.trigger("")
	f.occupy("PUT", "/checkpoints/0/state/k?job="+hog, `"`+strings.Repeat("x", 500<<10)+`"`)
	upload := func(value int) answer {
		line := `{"key":"k","value":"` + strings.Repeat("x", value) + `"}`
		return f.do("PUT", "/checkpoints/0/tasks/a/state", line, "Content-Type", ndjson)
	}
	upload(10 << 10).want(http.StatusOK)
	upload(300 << 10).refused(coordinator.CodeTooManyRequests) // all come from one address, which has its share
	f.let()
	f.nothingIsHeld()
	upload(300 << 10).want(http.StatusOK)
	f.nothingIsHeld()
}

// The door for plain acknowledgements asks for the memory of a large body, and leaves both to the
// general one where the body turns out to be unusual.
func TestALargeAcknowledgementIsCountedOnceWhicheverDoorTakesIt(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(l *load.Limits) { l.BufferedBytes, l.JobShare, l.ClientShare = 300<<10, 100, 100 })
	path := f.trigger(`{"requiredTaskAcks":9,"timeoutMs":0}`)
	state := `"state":{"k":"` + strings.Repeat("x", 100<<10) + `"}}`
	for i, body := range []string{
		`{"taskId":"plain",` + state,
		`{"taskId":"unusu\u0061l",` + state,
		`{"taskId":"a","attempt":1,"taskId":"a",` + state,
		`{"acks":[{"taskId":"unusu\u0061l too",` + state + `]}`,
	} {
		a := f.do("POST", path+"/acks", body)
		if i == 2 {
			a.refused(coordinator.CodeInvalidJSON)
		} else {
			a.want(http.StatusOK)
		}
		f.nothingIsHeld()
	}
	if got := f.do("GET", path+"/tasks/unusual", "").want(http.StatusOK).body; !strings.Contains(got, `"entries":1`) {
		t.Errorf("what the general door read is %s", got)
	}
	// Where it is refused it has waited once.
	f.occupy("PUT", "/checkpoints/0/state/k?job="+hog, `"`+strings.Repeat("x", 100<<10)+`"`)
	began := time.Now()
	f.do("POST", path+"/acks", `{"taskId":"late",`+state).refused(coordinator.CodeOverloaded)
	t.Logf("it was refused after %s", time.Since(began))
	if u := f.load.Buffered.Usage(); u.Full+u.Unfair != 1 {
		t.Errorf("one refusal was counted as %+v", u)
	}
	f.let()
	f.nothingIsHeld()
}

// askForMuch asks for an answer of 15 MiB and reads nothing of it.
func (f *fixture) askForMuch() net.Conn {
	f.t.Helper()
	f.do("PUT", "/checkpoints/0/state/k", `"`+strings.Repeat("x", 15<<20)+`"`).want(http.StatusCreated)
	connection, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = connection.Close() })
	if _, err := io.WriteString(connection, "GET /checkpoints/0/state/k HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		f.t.Fatal(err)
	}
	return connection
}

// A client that does not read a large answer holds its memory, and nothing else; when it has
// gone that comes back.
func TestAnAnswerThatIsNotReadIsCountedAsBuffered(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(l *load.Limits) { l.BufferedBytes, l.HeavyRequests = 40<<20, 1 })
	f.trigger("")
	connection := f.askForMuch()
	eventually(t, func() bool { return f.load.Buffered.Usage().Used >= 15<<20 })
	f.do("PUT", "/checkpoints/0/state/l", `"`+strings.Repeat("x", 15<<20)+`"`).refused(coordinator.CodeOverloaded)
	f.do("GET", "/checkpoints/0/state/nothing", "").refused(coordinator.CodeKeyNotFound)
	connection.Close()
	f.nothingIsHeld()
}

func TestAReaderThatStopsIsGivenUp(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{options: handlers.Options{RestoreIdle: 100 * time.Millisecond}})
	f.trigger("")
	connection := f.askForMuch()
	eventually(t, func() bool { return f.log.breaks() > 0 })
	if n, err := io.Copy(io.Discard, connection); n >= 15<<20 || errors.Is(err, net.ErrClosed) {
		t.Errorf("it got %d bytes (%v)", n, err)
	}
}

// Memory is waited for without a turn: those who have it need one to give it back.
func TestUploadsThatWaitForMemoryDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(l *load.Limits) {
		l.BufferedBytes, l.JobShare, l.ClientShare, l.Patience = 1<<20, 100, 100, time.Minute
	})
	f.trigger(`{"requiredTaskAcks":99,"timeoutMs":0}`)
	f.occupy("PUT", "/checkpoints/0/state/k?job="+hog, `"`+strings.Repeat("x", 500<<10)+`"`)
	long := `"k":"` + strings.Repeat("x", 300<<10) + `"}`
	const each = 2
	waiting := int64(0)
	for i := range runtime.GOMAXPROCS(0) + 1 {
		for how, body := range map[string]string{ndjson: `{"key":"k","value":{` + long + "}", "application/json": "{" + long} {
			waiting++
			go func() {
				_, _ = f.try("PUT", fmt.Sprintf("/checkpoints/0/tasks/%d/state", each*i+len(how)%each), strings.NewReader(body), "Content-Type", how)
			}()
		}
	}
	eventually(t, func() bool { return f.load.Buffered.Usage().Waiting == waiting })
	f.do("PUT", "/checkpoints/0/tasks/a/state", strings.Repeat(" ", 10<<10)+`{"key":"k","value":1}`, "Content-Type", ndjson).want(http.StatusOK)
	if now := f.load.Buffered.Usage().Waiting; now != waiting {
		t.Errorf("%d of %d wait still: the other one may have waited for them", now, waiting)
	}
	f.let()
	f.nothingIsHeld()
}

// A length is a word of the client's, for which no memory is taken.
func TestABodyIsRefusedByItsLengthBeforeThereIsRoomForIt(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(*load.Limits) {})
	f.trigger("")
	for _, line := range []string{
		"PUT /checkpoints/0/tasks/a/state", "PUT /checkpoints/0/state/k", "PATCH /checkpoints/0/state", "POST /checkpoints", "POST /checkpoints/0/acks", "PUT /jobs/x",
	} {
		// As much as no machine has.
		connection, reader := f.rawRequest(line+" HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: 9000000000000000000", "{")
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		connection.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "The body has 9000000000000000000 bytes: the limit is") {
			t.Errorf("%s answers %d %s", line, response.StatusCode, text)
		}
	}
	f.nothingIsHeld()
}

// Those who compute over an upload take turns; one that waits for its client has none, or a
// few that dawdle would stop all.
func TestUploadsThatDawdleDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.trigger("")
	for i := range runtime.GOMAXPROCS(0) + 1 {
		connection, _ := f.rawRequest(fmt.Sprintf("PUT /checkpoints/0/tasks/slow-%d/state HTTP/1.1\nHost: x\nContent-Type: %s\nContent-Length: 1000", i, ndjson), `{"key":"k",`)
		defer connection.Close()
	}
	f.do("PUT", "/checkpoints/0/tasks/a/state", strings.Repeat(" ", 300<<10)+`{"key":"k","value":1}`, "Content-Type", ndjson).want(http.StatusOK)
}

// Whatever an operation answers is counted until its client has read it.
func TestLongAnswersOfEveryKindAreCountedAsBuffered(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(l *load.Limits) { l.BufferedBytes, l.JobShare, l.ClientShare = 1<<20, 100, 100 })
	labels := make([]string, coordinator.MaxLabels)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"label-%d":"%s"`, i, strings.Repeat("x", coordinator.MaxLabelValueBytes))
	}
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf(`"%s-%04d"`, strings.Repeat("t", 100), i)
	}
	named := `"tasks":[` + strings.Join(names, ",") + `]`
	path := f.trigger(`{"labels":{` + strings.Join(labels, ",") + `},` + named + `}`)
	f.do("PUT", "/jobs/named", `{`+named+`}`).want(http.StatusCreated)
	f.nothingIsHeld()
	f.occupy("PUT", "/checkpoints/0/state/k?job="+hog, `"`+strings.Repeat("x", 490<<10)+`"`)
	for _, long := range []string{"/checkpoints", path, path + "/tasks?limit=1000", "/jobs/named"} {
		f.do("GET", long, "").refused(coordinator.CodeOverloaded)
	}
	f.do("PATCH", "/jobs/named", `{"description":"what has happened is told"}`).want(http.StatusOK)
	f.let()
	f.nothingIsHeld()
	for _, long := range []string{"/checkpoints", path, path + "/tasks?limit=1000", "/jobs/named"} {
		f.do("GET", long, "").want(http.StatusOK)
	}
	f.nothingIsHeld()
}
