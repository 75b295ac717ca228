package handlers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// Every way into the server has the same way out: each knock must be answered with a
// whole problem and without a word of Go.
func TestEveryDoorAnswersAProblem(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{impatient: true, store: func(s coordinator.Store) coordinator.Store { return troubled{s} }})
	path := f.trigger("")
	for _, knock := range []struct {
		name, method, path, body string
		headers                  []string
		code                     coordinator.Code
	}{
		{"a path that is not there", "GET", "/nowhere", "", nil, coordinator.CodeNotFound},
		{"a slash at the end", "GET", "/checkpoints/", "", nil, coordinator.CodeNotFound},
		{"an empty key in the path", "GET", path + "/state/", "", nil, coordinator.CodeNotFound},
		{"a method that the path does not take", "PUT", path, "{}", nil, coordinator.CodeMethodNotAllowed},
		{"a method that nothing takes", "PURGE", path, "", nil, coordinator.CodeMethodNotAllowed},
		{"that method where there is nothing", "PURGE", "/nothing", "", nil, coordinator.CodeNotFound},
		{"a path parameter", "GET", "/checkpoints/007", "", nil, coordinator.CodeInvalidParameter},
		{"a query parameter of another type", "GET", "/checkpoints?limit=ten", "", nil, coordinator.CodeInvalidParameter},
		{"a query parameter in another spelling", "GET", "/checkpoints?limit=%2B10", "", nil, coordinator.CodeInvalidParameter},
		{"a query parameter out of range", "GET", "/checkpoints?limit=1001", "", nil, coordinator.CodeInvalidParameter},
		{"a query parameter that is required", "GET", path + "/entry", "", nil, coordinator.CodeInvalidParameter},
		{"a query parameter that is unknown", "GET", "/checkpoints?jbo=orders", "", nil, coordinator.CodeInvalidParameter},
		{"a query parameter given twice", "GET", "/checkpoints?job=a&job=b", "", nil, coordinator.CodeInvalidParameter},
		{"a query that cannot be read", "GET", "/checkpoints?job=%zz", "", nil, coordinator.CodeInvalidParameter},
		{"a semicolon in the query", "GET", "/checkpoints?job=a;limit=1", "", nil, coordinator.CodeInvalidParameter},
		{"a header", "POST", "/checkpoints", "", []string{"Idempotency-Key", "two words"}, coordinator.CodeInvalidParameter},
		{"an empty job", "GET", "/checkpoints?job=", "", nil, coordinator.CodeInvalidParameter},
		{"a body that is no JSON", "POST", "/checkpoints", "{", nil, coordinator.CodeInvalidJSON},
		{"a body of another form", "POST", "/checkpoints", "[]", nil, coordinator.CodeInvalidRequest},
		{"a body that is required", "POST", "/checkpoints/cleanup", "", nil, coordinator.CodeInvalidRequest},
		{"a body that is too large", "POST", path + "/acks", strings.Repeat(" ", coordinator.MaxAckBody+1), nil, coordinator.CodeTooLarge},
		{"another media type", "POST", "/checkpoints", "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, coordinator.CodeUnsupportedMediaType},
		{"another charset", "POST", "/checkpoints", "{}", []string{"Content-Type", "application/json; charset=latin1"}, coordinator.CodeUnsupportedMediaType},
		{"no media type", "POST", "/checkpoints", "{}", []string{"Content-Type", ""}, coordinator.CodeUnsupportedMediaType},
		{"a compressed body", "POST", "/checkpoints", "{}", []string{"Content-Encoding", "gzip"}, coordinator.CodeUnsupportedMediaType},
		{"a compressed upload", "PUT", path + "/tasks/a/state", "{}", []string{"Content-Encoding", "gzip"}, coordinator.CodeUnsupportedMediaType},
		{"an Accept that excludes everything", "GET", "/limits", "", []string{"Accept", "text/html"}, coordinator.CodeNotAcceptable},
		{"a page of another origin", "POST", "/checkpoints", "", []string{"Sec-Fetch-Site", "cross-site"}, coordinator.CodeForbidden},
		{"a refusal of the domain", "GET", "/checkpoints/1", "", nil, coordinator.CodeCheckpointNotFound},
		{"a store that is away", "GET", "/checkpoints?job=away", "", nil, coordinator.CodeStoreUnavailable},
		{"a store that is full", "POST", "/checkpoints?job=full", "", nil, coordinator.CodeStoreFull},
		{"a store that does not answer a read in time", "GET", "/checkpoints?job=slow", "", nil, coordinator.CodeStoreUnavailable},
		{"a store that does not answer a write in time", "POST", "/checkpoints?job=slow", "", nil, coordinator.CodeOutcomeUnknown},
		{"a store that fails", "GET", "/checkpoints?job=broken", "", nil, coordinator.CodeInternal},
		{"a panic", "GET", "/checkpoints?job=panic", "", nil, coordinator.CodeInternal},
	} {
		t.Run(knock.name, func(t *testing.T) {
			t.Parallel()
			a := f.on(t).do(knock.method, knock.path, knock.body, knock.headers...)
			a.refused(knock.code)
			for _, word := range []string{"json:", "jsontext", "strconv", "parsing", "Params", "goroutine", "secret", "nil", "int64"} {
				if strings.Contains(a.body, word) {
					t.Errorf("the problem says %q:\n%s", word, a.body)
				}
			}
		})
	}
}

// troubled is a store whose jobs are each in another trouble.
type troubled struct{ coordinator.Store }

var errSecret = errors.New("secret")

func (s troubled) trouble(ctx context.Context, job string) error {
	switch job {
	case "away":
		return coordinator.ErrStoreUnavailable(errSecret)
	case "full":
		return coordinator.ErrStoreFull(errSecret)
	case "slow":
		<-ctx.Done()
		return fmt.Errorf("secret: %w", ctx.Err())
	case "broken":
		return errSecret
	case "panic":
		panic(errSecret)
	}
	return nil
}

func (s troubled) List(ctx context.Context, call coordinator.ListCall) (coordinator.ListResult, error) {
	if err := s.trouble(ctx, call.Job); err != nil {
		return coordinator.ListResult{}, err
	}
	return s.Store.List(ctx, call)
}

func (s troubled) Trigger(ctx context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	if err := s.trouble(ctx, call.Job); err != nil {
		return coordinator.TriggerResult{}, err
	}
	return s.Store.Trigger(ctx, call)
}

func TestTheCauseOfAHiddenErrorIsLoggedOnce(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{impatient: true, store: func(s coordinator.Store) coordinator.Store { return troubled{s} }})
	f.do("GET", "/checkpoints?job=nobody", "").refused(coordinator.CodeJobNotFound)
	if causes := f.log.read(); len(causes) != 0 {
		t.Errorf("a refusal that hides nothing was logged: %v", causes)
	}
	for i, job := range []string{"broken", "away", "panic"} {
		f.do("GET", "/checkpoints?job="+job, "")
		if causes := f.log.read(); len(causes) != i+1 || !strings.Contains(causes[i].Error(), "secret") {
			t.Errorf("after job %s the log has %v", job, causes)
		}
	}
}

func TestAnUnknownParameterIsNamedWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	problem := serve(t).do("GET", "/checkpoints?limits=5&job=default", "").refused(coordinator.CodeInvalidParameter)
	if !strings.Contains(problem.Detail, "job, status, limit, before, notAckedBy") {
		t.Errorf("the detail does not list the parameters: %s", problem.Detail)
	}
	name := "limits"
	if diff := cmp.Diff([]api.ProblemError{{Parameter: &name, Detail: "It is not known here."}}, problem.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestMethodNotAllowedNamesTheAllowedOnes(t *testing.T) {
	t.Parallel()
	f := serve(t)
	for path, want := range map[string]string{
		"/checkpoints":               "GET, HEAD, POST",
		"/checkpoints/3":             "GET, HEAD, PATCH, DELETE",
		"/checkpoints/3/state":       "GET, HEAD, PATCH, DELETE",
		"/checkpoints/3/state/a%2Fb": "GET, HEAD, PUT, DELETE",
		"/checkpoints/3/acks":        "POST",
		"/limits":                    "GET, HEAD",
	} {
		a := f.do("OPTIONS", path, "")
		a.refused(coordinator.CodeMethodNotAllowed)
		if got := a.header.Get("Allow"); got != want {
			t.Errorf("%s allows %q, want %q", path, got, want)
		}
	}
}

func TestHeadIsAnsweredWhereverGetIs(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.completed(`{}`)
	for _, path := range []string{"/checkpoints", "/checkpoints/latest", path, path + "/manifest", path + "/restore", "/limits", "/healthz", "/readyz", "/metrics", "/openapi.yaml"} {
		if a := f.do("HEAD", path, ""); a.status != http.StatusOK || a.body != "" {
			t.Errorf("HEAD %s answered %d and %q", path, a.status, a.body)
		}
	}
	if a := f.do("HEAD", "/checkpoints/99", ""); a.status != http.StatusNotFound || a.body != "" {
		t.Errorf("HEAD of what is not there answered %d and %q", a.status, a.body)
	}
}

func TestAcceptRefusesOnlyWhatItExcludes(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.completed(`{}`)
	for _, test := range []struct {
		path, accept string
		status       int
	}{
		{"/limits", "", 200},
		{"/limits", "*/*", 200},
		{"/limits", "application/json", 200},
		{"/limits", "Application/JSON; charset=utf-8", 200},
		{"/limits", "application/problem+json", 200},
		{"/limits", "text/html, application/*;q=0.1", 200},
		{"/limits", "not a media range", 200},
		{"/limits", "text/html", 406},
		{"/limits", "application/json;q=0, */*;q=0.5, application/problem+json;q=0", 406},
		{"/limits", "application/x-ndjson", 406},
		{path + "/restore", "application/x-ndjson", 200},
		{path + "/restore", "application/json", 406},
		{path + "/manifest", "text/*", 200},
		{path + "/manifest", "application/json", 406},
		{"/openapi.yaml", "application/yaml", 200},
		{"/metrics", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", 200},
	} {
		if a := f.do("GET", test.path, "", "Accept", test.accept); a.status != test.status {
			t.Errorf("GET %s with Accept %q answered %d, want %d", test.path, test.accept, a.status, test.status)
		}
	}
	if a := f.do("POST", "/checkpoints", "", "Accept", "text/html"); a.status != 406 {
		t.Errorf("a trigger with Accept text/html answered %d", a.status)
	}
	if a := f.do("GET", "/checkpoints?status=pending", ""); strings.Contains(a.body, "checkpointId") {
		t.Errorf("the refused trigger left something behind: %s", a.body)
	}
}

func TestPagesOfOtherOriginsChangeNothing(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://elsewhere.example"},
		{"Origin", "null"},
	} {
		f.do("POST", path+"/abort", "", headers...).refused(coordinator.CodeForbidden)
		f.do("DELETE", path, "", headers...).refused(coordinator.CodeForbidden)
		f.do("GET", path, "", headers...).want(http.StatusOK)
	}
	f.do("POST", path+"/abort", "", "Sec-Fetch-Site", "same-origin").want(http.StatusOK)
	f.do("DELETE", path, "", "Origin", f.server.URL).want(http.StatusNoContent)
}

func TestATriggerWithTheStoreAwayIsAnsweredWithinTwoSeconds(t *testing.T) { //nolint:paralleltest // It looks at the clock.
	f := serve(t, setup{impatient: true, store: func(s coordinator.Store) coordinator.Store { return troubled{s} }})
	began := time.Now()
	f.do("POST", "/checkpoints?job=slow", "").refused(coordinator.CodeOutcomeUnknown)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAReadOfABodyThatNeverComesIsGivenUp(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{options: handlers.Options{BodyTimeout: 50 * time.Millisecond}})
	for name, begun := range map[string]string{"before its first byte": "", "after its first byte": "{"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", f.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = connection.Close() }()
			head := "POST /checkpoints HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n"
			if _, err := io.WriteString(connection, head+begun); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			answer{t: t, status: response.StatusCode, header: response.Header, body: string(text)}.refused(coordinator.CodeInvalidRequest)
		})
	}
}

func TestDrainingTurnsReadinessOffAndNothingElse(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{options: handlers.Options{Draining: func() bool { return true }}})
	f.do("GET", "/readyz", "").refused(coordinator.CodeShuttingDown)
	f.do("GET", "/healthz", "").want(http.StatusOK)
	f.do("POST", "/checkpoints", "").want(http.StatusCreated)
}

// lame is a store that only a new start can mend.
type lame struct{ coordinator.Store }

func (lame) Alive() error {
	return &coordinator.Cause{Says: "writing to the data directory has failed", Restart: true, Err: errSecret}
}

func TestLivenessFailsWhereOnlyANewStartHelps(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{store: func(s coordinator.Store) coordinator.Store { return lame{s} }, options: handlers.Options{
		Ready: func(context.Context) ([]coordinator.Warning, error) {
			return nil, coordinator.ErrStoreUnavailable(lame{}.Alive())
		},
	}})
	for _, path := range []string{"/healthz", "/readyz"} {
		if said := f.do("GET", path, "").refused(coordinator.CodeStoreUnavailable).Detail; !strings.Contains(said, "writing to the data directory has failed. Start the server again") {
			t.Errorf("%s says %s", path, said)
		}
	}
}

func TestReadinessTellsWarningsAndThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	warnings := []coordinator.Warning{{Code: "eviction_policy", Detail: "Redis may evict keys."}}
	var away error
	f := serve(t, setup{options: handlers.Options{Ready: func(context.Context) ([]coordinator.Warning, error) { return warnings, away }}})
	var ready api.Readiness
	f.do("GET", "/readyz", "").want(http.StatusOK).into(&ready)
	want := api.Readiness{Status: api.ReadinessStatusReady, Warnings: []api.Warning{{Code: "eviction_policy", Detail: "Redis may evict keys."}}}
	if diff := cmp.Diff(want, ready); diff != "" {
		t.Errorf("readiness (-want +got):\n%s", diff)
	}
	away = coordinator.ErrStoreUnavailable(errSecret)
	f.do("GET", "/readyz", "").refused(coordinator.CodeStoreUnavailable)
	f.do("GET", "/healthz", "").want(http.StatusOK)
	away = coordinator.ErrStoreUnavailable(&coordinator.Cause{Says: "Redis refuses: it is a read-only replica", Err: errSecret})
	if said := f.do("GET", "/readyz", "").refused(coordinator.CodeStoreUnavailable).Detail; !strings.Contains(said, "Redis refuses: it is a read-only replica. ") {
		t.Errorf("it does not say why: %s", said)
	}
}
