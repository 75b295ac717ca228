package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
	"github.com/checkpointd/checkpointd/internal/store/filestore"
)

// fixture is the whole API over a real store on a real connection.
type fixture struct {
	t      *testing.T
	server *httptest.Server
	client *http.Client
	// clock is the store's, in Unix milliseconds.
	clock *clock
	log   *causes
	// drain ends what waits, as a server that shuts down does.
	drain func()
}

// on is the fixture for a subtest.
func (f *fixture) on(t *testing.T) *fixture {
	t.Helper()
	g := *f
	g.t = t
	return &g
}

// causes is what a server would log, and how many transfers were broken off.
type causes struct {
	mu        sync.Mutex
	all       []error
	brokenOff int
}

// watch counts what a handler gives up by panicking, as net/http has it.
func (c *causes) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := true
		defer func() {
			if given {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.brokenOff++
			}
		}()
		next.ServeHTTP(w, r)
		given = false
	})
}

func (c *causes) breaks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brokenOff
}

func (c *causes) note(_ *http.Request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, err)
}

func (c *causes) read() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// clock is the time of a store under test.
type clock struct {
	mu  sync.Mutex
	now int64
}

func (c *clock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d.Milliseconds()
}

// setup says what is out of the ordinary.
type setup struct {
	options  handlers.Options
	settings func(*coordinator.Settings)
	pace     coordinator.Pace
	// impatient keeps the ordinary budget of a request; a busy machine may exceed it.
	impatient bool
	// live lets the coordinator do its work in the background, which is what wakes those who
	// wait.
	live bool
	// listen changes the listener's server before it starts.
	listen func(*httptest.Server)
	// store wraps the real one.
	store func(coordinator.Store) coordinator.Store
}

// serve starts the API on a new store, with at most one setup.
func serve(t *testing.T, with ...setup) *fixture {
	t.Helper()
	var s setup
	if len(with) > 0 {
		s = with[0]
	}
	f := &fixture{t: t, clock: &clock{now: 1_795_977_600_000}, log: new(causes)}
	embedded, err := filestore.Open(t.TempDir(), filestore.Options{Clock: f.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	var store coordinator.Store = embedded
	if s.store != nil {
		store = s.store(embedded)
	}
	settings := coordinator.DefaultSettings()
	if s.settings != nil {
		s.settings(&settings)
	}
	s.options.OnError = f.log.note
	if !s.impatient {
		s.options.Budget = time.Minute
	}
	if s.options.TempDir == "" {
		s.options.TempDir = t.TempDir()
	}
	draining := make(chan struct{})
	f.drain = sync.OnceFunc(func() { close(draining) })
	c := coordinator.New(store, coordinator.Options{Settings: settings, Pace: s.pace, Draining: draining})
	f.server = httptest.NewUnstartedServer(f.log.watch(handlers.New(c, s.options)))
	if s.listen != nil {
		s.listen(f.server)
	}
	f.server.Start()
	f.client = f.server.Client()
	background, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	if s.live {
		work.Go(func() { c.Run(background) })
	}
	t.Cleanup(func() {
		f.server.Close()
		stop()
		work.Wait()
		if err := embedded.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return f
}

// answer is a response that was read to its end.
type answer struct {
	t      *testing.T
	call   string
	status int
	header http.Header
	body   string
}

// do sends a request; headers are pairs of name and value. A body is JSON unless a
// Content-Type says otherwise.
func (f *fixture) do(method, path, body string, headers ...string) answer {
	f.t.Helper()
	return f.send(method, path, strings.NewReader(body), headers...)
}

func (f *fixture) send(method, path string, body io.Reader, headers ...string) answer {
	f.t.Helper()
	a, err := f.try(method, path, body, headers...)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// try is send for other goroutines than the test's.
func (f *fixture) try(method, path string, body io.Reader, headers ...string) (answer, error) {
	a := answer{t: f.t, call: method + " " + path}
	request, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+path, body)
	if err != nil {
		return a, err
	}
	if request.ContentLength != 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := f.client.Do(request)
	if err != nil {
		return a, fmt.Errorf("%s: %w", a.call, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, fmt.Errorf("%s: reading the answer: %w", a.call, err)
	}
	a.status, a.header, a.body = response.StatusCode, response.Header, string(text)
	return a, nil
}

// want ends the test unless the answer has the status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s answered %d, want %d\n%s", a.call, a.status, status, a.body)
	}
	return a
}

// into decodes a JSON answer.
func (a answer) into(target any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), target); err != nil {
		a.t.Fatalf("%s: %v\n%s", a.call, err, a.body)
	}
}

// refused ends the test unless the answer is a whole problem with the code.
func (a answer) refused(code coordinator.Code) api.Problem {
	a.t.Helper()
	presentation, known := handlers.Present(code)
	if !known {
		a.t.Fatalf("no such code: %s", code)
	}
	if a.status != presentation.Status || a.header.Get("Content-Type") != "application/problem+json" {
		a.t.Fatalf("%s answered %d %s, want the problem %s\n%s", a.call, a.status, a.header.Get("Content-Type"), code, a.body)
	}
	var problem api.Problem
	a.into(&problem)
	if problem.Code != api.ProblemCode(code) || problem.Status != a.status || problem.Title != presentation.Title ||
		problem.Type != handlers.ErrorDocs+"#"+string(code) || !strings.HasPrefix(problem.Instance, "urn:checkpointd:request:") ||
		!strings.HasSuffix(problem.Detail, ".") {
		a.t.Fatalf("%s answered a problem that is not well made, want %s\n%s", a.call, code, a.body)
	}
	if presentation.Retryable != (a.header.Get("Retry-After") != "") {
		a.t.Errorf("%s answered %s with Retry-After %q", a.call, code, a.header.Get("Retry-After"))
	}
	return problem
}

// trigger starts a checkpoint and gives its path.
func (f *fixture) trigger(body string) string {
	f.t.Helper()
	return f.do(http.MethodPost, "/checkpoints", body).want(http.StatusCreated).header.Get("Location")
}

// completed starts a checkpoint, lets one task acknowledge it with a state, and gives its
// path.
func (f *fixture) completed(state string) string {
	f.t.Helper()
	path := f.trigger(`{"requiredTaskAcks":1}`)
	f.do(http.MethodPost, path+"/acks", `{"taskId":"task-1","state":`+state+`}`).want(http.StatusOK)
	return path
}

// standing is what a call that changes nothing leaves as it is: checkpoint 0, its shared state and the jobs.
func (f *fixture) standing() string {
	f.t.Helper()
	return f.do("GET", "/checkpoints/0", "").body + f.do("GET", "/jobs", "").body + f.do("GET", "/checkpoints/0/state", "").body
}
