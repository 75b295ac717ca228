package handlers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

func TestAStreamOfEventsBeginsAtOnceAndSaysWhere(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true})
	s := f.follow("")
	s.says("retry: 1000\n: checkpointd\n\nid: 0-0\n\n")
	header := map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
	for name, want := range header {
		if got := s.response.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	f.trigger("")
	want := sse.Event{
		LastEventID: "0-1", Type: "checkpoint.triggered",
		Data: `{"id":"0-1","type":"checkpoint.triggered","job":"default","epoch":0,"at":1795977600000,"checkpointId":0,"status":"pending","requiredTaskAcks":1,"acknowledgedTasks":0,"deadline":1795977660000}`,
	}
	if diff := cmp.Diff(want, s.next()); diff != "" {
		t.Errorf("the event (-want +got):\n%s", diff)
	}
	f.follow("").says("id: 0-1\n\n")
}

// dataOf is the data of an event without what all have in common.
func dataOf(t *testing.T, event sse.Event) string {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal([]byte(event.Data), &data); err != nil {
		t.Fatal(err)
	}
	if data["type"] != event.Type || data["job"] != "default" {
		t.Errorf("event %s has the data %s", event.Type, event.Data)
	}
	if id, has := data["id"]; has && id != event.LastEventID {
		t.Errorf("event %s names itself %v", event.LastEventID, id)
	}
	delete(data, "id")
	delete(data, "type")
	delete(data, "job")
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return event.LastEventID + " " + event.Type + " " + string(text)
}

func TestEachEventHasWhatAWorkerNeeds(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true})
	s := f.follow("?lastEventId=0-0")
	first := f.trigger(`{"tasks":["task-1","<task-2>"],"timeoutMs":0}`)
	f.clock.advance(100 * time.Millisecond)
	f.do("POST", first+"/acks", `{"acks":[{"taskId":"task-1","state":{"a":1}},{"taskId":"<task-2>"}]}`).want(http.StatusOK)
	f.do("DELETE", first, "").want(http.StatusNoContent)
	second := f.trigger(`{"requiredTaskAcks":2,"timeoutMs":1000}`)
	f.do("POST", second+"/abort", `{"taskId":"task-1","reason":"disk is full"}`).want(http.StatusOK)
	f.completed(`{}`)
	f.trigger(`{"timeoutMs":1000}`)
	f.do("POST", "/checkpoints/recover", "").want(http.StatusOK)
	want := []string{
		`0-1 checkpoint.triggered {"acknowledgedTasks":0,"at":1795977600000,"checkpointId":0,"epoch":0,"missingTasks":["\u003ctask-2\u003e","task-1"],"requiredTaskAcks":2,"status":"pending"}`,
		`0-2 checkpoint.completed {"acknowledgedTasks":2,"at":1795977600100,"bytes":40,"checkpointId":0,"durationMs":100,"entries":1,"epoch":0,"requiredTaskAcks":2,"status":"completed"}`,
		`0-3 checkpoint.deleted {"acknowledgedTasks":2,"at":1795977600100,"bytes":40,"checkpointId":0,"durationMs":100,"entries":1,"epoch":0,"requiredTaskAcks":2,"status":"completed","why":"request"}`,
		`0-4 checkpoint.triggered {"acknowledgedTasks":0,"at":1795977600100,"checkpointId":1,"deadline":1795977601100,"epoch":0,"requiredTaskAcks":2,"status":"pending"}`,
		`0-5 checkpoint.aborted {"acknowledgedTasks":0,"at":1795977600100,"checkpointId":1,"durationMs":0,"epoch":0,"failure":{"message":"disk is full","reason":"declined","taskId":"task-1"},"requiredTaskAcks":2,"status":"aborted"}`,
		`0-6 job.failing {"at":1795977600100,"checkpointId":1,"consecutiveFailures":1,"epoch":0,"failure":{"message":"disk is full","reason":"declined","taskId":"task-1"}}`,
		`0-7 checkpoint.triggered {"acknowledgedTasks":0,"at":1795977600100,"checkpointId":2,"deadline":1795977660100,"epoch":0,"requiredTaskAcks":1,"status":"pending"}`,
		`0-8 checkpoint.completed {"acknowledgedTasks":1,"at":1795977600100,"bytes":0,"checkpointId":2,"durationMs":0,"entries":0,"epoch":0,"requiredTaskAcks":1,"status":"completed"}`,
		`0-9 job.healthy {"at":1795977600100,"checkpointId":2,"epoch":0}`,
		`0-10 checkpoint.triggered {"acknowledgedTasks":0,"at":1795977600100,"checkpointId":3,"deadline":1795977601100,"epoch":0,"requiredTaskAcks":1,"status":"pending"}`,
		`0-11 checkpoint.aborted {"acknowledgedTasks":0,"at":1795977600100,"checkpointId":3,"durationMs":0,"epoch":0,"failure":{"reason":"superseded"},"requiredTaskAcks":1,"status":"aborted"}`,
		`1-12 job.recovered_epoch {"at":1795977600100,"checkpointId":2,"epoch":1}`,
	}
	for _, want := range want {
		if got := dataOf(t, s.next()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f.trigger(`{"timeoutMs":1000}`)
	f.clock.advance(2 * time.Second) // the sweeper notices
	s.next()
	if got, want := dataOf(t, s.next()), `1-14 checkpoint.expired {"acknowledgedTasks":0,"at":1795977602100,"checkpointId":4,"durationMs":1000,"epoch":1,"failure":{"reason":"expired"},"requiredTaskAcks":1,"status":"expired"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if strings.Contains(s.raw.text(), `\u003c`) {
		t.Error("names are escaped as for a page of HTML")
	}
}

func TestAStreamIsResumedExactly(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true})
	for range 3 {
		f.completed(`{}`)
	}
	for _, way := range [][]string{
		{"", "Last-Event-ID", "0-2"},
		{"?lastEventId=0-2"},
		{"?lastEventId=0-4", "Last-Event-ID", "0-2"}, // an EventSource keeps its address
		{"?lastEventId=0-2", "Last-Event-ID", ""},
	} {
		s := f.follow(way[0], way[1:]...)
		var ids []string
		for range 4 {
			ids = append(ids, s.next().LastEventID)
		}
		if diff := cmp.Diff([]string{"0-3", "0-4", "0-5", "0-6"}, ids); diff != "" {
			t.Errorf("%v (-want +got):\n%s", way, diff)
		}
		if text := s.raw.text(); !strings.HasPrefix(text, "retry: 1000\n: checkpointd\n\nid: 0-3\nevent: ") {
			t.Errorf("%v began with %.100q", way, text)
		}
		s.close()
	}
	s := f.follow("?lastEventId=0-6")
	f.trigger("")
	if got := s.next().LastEventID; got != "0-7" {
		t.Errorf("resumed at the end, the next event is %s", got)
	}
}

func TestAGapIsToldWithWhatIsPending(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true})
	f.trigger(`{"tasks":["task-1"]}`)
	f.completed(`{}`)
	f.trigger("")
	s := f.follow("?lastEventId=3-99")
	s.says(`

id: 0-4
event: gap
data: {"job":"default","lastEventId":"3-99","position":"0-4"}

event: checkpoint.triggered
data: {"type":"checkpoint.triggered","job":"default","epoch":0,"at":1795977600000,"checkpointId":0,"status":"pending","requiredTaskAcks":1,"acknowledgedTasks":0,"missingTasks":["task-1"],"deadline":1795977660000}

event: checkpoint.triggered
data: {"type":"checkpoint.triggered","job":"default","epoch":0,"at":1795977600000,"checkpointId":2,"status":"pending","requiredTaskAcks":1,"acknowledgedTasks":0,"deadline":1795977660000}

`)
	f.trigger("")
	if diff := cmp.Diff([]string{"gap", "checkpoint.triggered", "checkpoint.triggered", "checkpoint.triggered"}, s.names(4)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	s = f.follow("?lastEventId=3-99&type=checkpoint.completed&type=job.failing")
	f.completed(`{}`)
	if diff := cmp.Diff([]string{"gap", "checkpoint.completed"}, s.names(2)); diff != "" {
		t.Errorf("filtered events (-want +got):\n%s", diff)
	}
}

func TestAFilteredStreamIsToldItsPlaceWithTheHeartbeat(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true, options: handlers.Options{Heartbeat: 20 * time.Millisecond}})
	s := f.follow("?type=checkpoint.completed")
	s.says("id: 0-0\n\n: heartbeat\n\n: heartbeat\n\n") // nothing new, no id
	f.trigger("")
	s.says(": heartbeat\n\nid: 0-1\n\n: heartbeat\n\n: heartbeat\n\n")
	f.do("POST", "/checkpoints/0/acks", `{"taskId":"task-1"}`).want(http.StatusOK)
	if got := s.next(); got.Type != "checkpoint.completed" || got.LastEventID != "0-2" {
		t.Errorf("the event is %+v", got)
	}
}

// narrow is the API to clients whose connections take little, with what it dropped.
func narrow(t *testing.T) (f *fixture, dropped chan string) {
	t.Helper()
	dropped = make(chan string, 10)
	return serve(t, setup{
		live:    true,
		options: handlers.Options{EventsIdle: time.Second, OnDropped: func(job string) { dropped <- job }},
		listen: func(server *httptest.Server) {
			server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				if err := c.(*net.TCPConn).SetWriteBuffer(4 << 10); err != nil {
					t.Error(err)
				}
				return ctx
			}
		},
	}), dropped
}

// followIdly opens a stream and reads no more of it than its beginning.
func (f *fixture) followIdly(query string) {
	f.t.Helper()
	client, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = client.Close() })
	if err := client.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		f.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(client, "GET /events%s HTTP/1.1\r\nHost: x\r\n\r\n", query); err != nil {
		f.t.Fatal(err)
	}
	reader := bufio.NewReaderSize(client, 16)
	for line := ""; !strings.HasPrefix(line, ": checkpointd"); {
		if line, err = reader.ReadString('\n'); err != nil {
			f.t.Fatal(err)
		}
	}
}

// namedTasks is a trigger with as many names as an event shows.
func namedTasks(bytes int) string {
	var names []string
	for i := range coordinator.MissingTasksShown {
		names = append(names, fmt.Sprintf(`"%02d-%s"`, i, long(bytes)))
	}
	return `{"tasks":[` + strings.Join(names, ",") + `]}`
}

// comeAndGo makes three events.
func (f *fixture) comeAndGo(body string) {
	f.t.Helper()
	f.do("POST", "/checkpoints", body).want(http.StatusCreated)
	f.do("POST", "/checkpoints/cleanup", `{"keep":0}`).want(http.StatusOK)
}

func TestAReaderThatDoesNotReadIsDropped(t *testing.T) {
	t.Parallel()
	f, dropped := narrow(t)
	for range 30 {
		f.comeAndGo(namedTasks(1000)) // 20 KB an event
	}
	f.followIdly("?lastEventId=0-0")
	select {
	case job := <-dropped:
		if job != "default" {
			t.Errorf("a reader of %s was dropped", job)
		}
	case <-time.After(patience):
		t.Fatal("the reader was not dropped")
	}
	eventually(t, func() bool { return f.log.breaks() == 1 })
	// One that reads gets all of it, however much it is.
	s := f.follow("?lastEventId=0-0")
	for range 90 {
		s.next()
	}
	if len(dropped) > 0 {
		t.Error("a reader that reads was dropped, too")
	}
}

func TestStreamsEndCleanlyWhenTheServerDrains(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true, options: handlers.Options{OnDropped: func(string) { t.Error("a reader was dropped") }}})
	s := f.follow("")
	f.trigger("")
	s.next()
	f.drain()
	if rest, err := s.ended(); err != nil || len(rest) > 0 {
		t.Errorf("the stream ended with %v and %v", rest, err)
	}
	if breaks, errs := f.log.breaks(), f.log.read(); breaks > 0 || len(errs) > 0 {
		t.Errorf("%d were broken off, errors: %v", breaks, errs)
	}
}

func TestAReaderThatLeavesIsNoTrouble(t *testing.T) {
	t.Parallel()
	served := make(chan struct{}, 1)
	f := serve(t, setup{
		live:    true,
		options: handlers.Options{OnDropped: func(string) { t.Error("a reader was dropped") }},
		listen: func(server *httptest.Server) {
			next := server.Config.Handler
			server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				served <- struct{}{}
			})
		},
	})
	f.follow("").close()
	select {
	case <-served:
	case <-time.After(patience):
		t.Fatal("the server did not notice")
	}
	if breaks, errs := f.log.breaks(), f.log.read(); breaks > 0 || len(errs) > 0 {
		t.Errorf("%d were broken off, errors: %v", breaks, errs)
	}
}

// forgetful is a store whose log can be read so many times.
type forgetful struct {
	coordinator.Store
	mu   *sync.Mutex
	left *int
}

func (s forgetful) Events(ctx context.Context, call coordinator.EventsCall) (coordinator.EventsResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *s.left--; *s.left < 0 {
		return coordinator.EventsResult{}, coordinator.ErrStoreUnavailable(errSecret)
	}
	return s.Store.Events(ctx, call)
}

func TestAStreamEndsWhenTheStoreFailsItAndGoesOnByItsID(t *testing.T) {
	t.Parallel()
	left, mu := 1, new(sync.Mutex)
	f := serve(t, setup{store: func(s coordinator.Store) coordinator.Store { return forgetful{s, mu, &left} }})
	f.completed(`{}`)
	s := f.follow("?lastEventId=0-0")
	if rest, err := s.ended(); err != nil || len(rest) > 0 {
		t.Errorf("the stream ended with %v and %v", rest, err)
	}
	if errs := f.log.read(); len(errs) != 1 || coordinator.CodeOf(errs[0]) != coordinator.CodeStoreUnavailable {
		t.Errorf("the log has %v", errs)
	}
	f.do("GET", "/events?job=orders", "").refused(coordinator.CodeStoreUnavailable)
	mu.Lock()
	left = 1000
	mu.Unlock()
	if got := f.follow("?lastEventId=0-0").names(2); got[1] != "checkpoint.completed" {
		t.Errorf("the events are %v", got)
	}
}

func TestAStreamEndsWithItsJob(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true})
	f.do("POST", "/checkpoints?job=orders", "").want(http.StatusCreated)
	s := f.follow("?job=orders")
	f.do("DELETE", "/jobs/orders?force=true", "").want(http.StatusNoContent)
	if _, err := s.ended(); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	if errs := f.log.read(); len(errs) > 0 {
		t.Errorf("the log has %v", errs)
	}
}

func TestEventsComeThroughAProxy(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true, options: handlers.Options{Heartbeat: 20 * time.Millisecond}})
	target, err := url.Parse(f.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	t.Cleanup(proxy.Close)
	s := f.followAt(proxy.URL, "")
	s.says("id: 0-0\n\n")
	for range 3 {
		f.trigger("")
		s.next()
	}
	s.says(": heartbeat\n\n")
}

func TestAStreamThatCannotBeginIsRefused(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.client.Timeout = patience // one that began would have no end
	f.do("GET", "/events?job=orders", "").refused(coordinator.CodeJobNotFound)
	for call, parameter := range map[string]string{
		"?lastEventId=":             "lastEventId",
		"?lastEventId=7":            "lastEventId",
		"?lastEventId=0-01":         "lastEventId",
		"?type=checkpoint":          "type",
		"?type=job.failing&type=":   "type",
		"?type=job.failing,job.new": "type",
		"?types=job.failing":        "types",
		"?job=-":                    "job",
	} {
		problem := f.do("GET", "/events"+call, "").refused(coordinator.CodeInvalidParameter)
		if len(problem.Errors) != 1 || problem.Errors[0].Parameter == nil || *problem.Errors[0].Parameter != parameter {
			t.Errorf("%s: errors are %+v, want %s", call, problem.Errors, parameter)
		}
	}
	problem := f.do("GET", "/events?lastEventId=0-0", "", "Last-Event-ID", "x").refused(coordinator.CodeInvalidParameter)
	if *problem.Errors[0].Parameter != "Last-Event-ID" {
		t.Errorf("errors are %+v", problem.Errors)
	}
	f.do("GET", "/events", "", "Accept", "application/json").refused(coordinator.CodeNotAcceptable)
	f.do("POST", "/events", "{}").refused(coordinator.CodeMethodNotAllowed)
}

func TestTheHeadOfAStreamIsNoStream(t *testing.T) {
	t.Parallel()
	f := serve(t)
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := fmt.Fprint(client, "HEAD /events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	head, err := io.ReadAll(client) // until the server is done with it
	if err != nil || !strings.Contains(string(head), "Content-Type: text/event-stream\r\n") || !strings.HasSuffix(string(head), "\r\n\r\n") {
		t.Errorf("HEAD is answered %q, %v", head, err)
	}
}
