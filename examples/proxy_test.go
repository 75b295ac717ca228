package examples_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

// meddler stands between a worker and its server and has its way with some requests.
type meddler struct {
	*httptest.Server

	lock sync.Mutex
	// plans are what is done to the requests of a kind, one after the other; later ones get through.
	plans map[string][]meddling
	// seen are the requests that came, in order.
	seen []string
}

// meddling answers a request in its own way; forward asks the server.
type meddling func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// The kinds of requests that a worker sends.
const (
	asksJob     = "job"
	asksRestore = "restore"
	asksPending = "pending"
	asksEvents  = "events"
	uploads     = "upload"
	others      = "other"
)

func kind(r *http.Request) string {
	switch {
	case strings.HasPrefix(r.URL.Path, "/jobs/"):
		return asksJob
	case strings.HasSuffix(r.URL.Path, "/restore"):
		return asksRestore
	case r.URL.Path == "/checkpoints" && r.Method == http.MethodGet:
		return asksPending
	case r.URL.Path == "/events":
		return asksEvents
	case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/state"):
		return uploads
	default:
		return others
	}
}

func meddle(t *testing.T, server *checkpointtest.Server, plans map[string][]meddling) *meddler {
	t.Helper()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    &http.Transport{DisableKeepAlives: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	m := &meddler{plans: maps.Clone(plans)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if do := m.next(r); do != nil {
			do(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *meddler) next(r *http.Request) meddling {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.seen = append(m.seen, r.Method+" "+r.URL.RequestURI())
	plan := m.plans[kind(r)]
	if len(plan) == 0 {
		return nil
	}
	m.plans[kind(r)] = plan[1:]
	return plan[0]
}

// left is what was not done, since nobody asked.
func (m *meddler) left() string {
	m.lock.Lock()
	defer m.lock.Unlock()
	var left []string
	for kind, plan := range m.plans {
		if len(plan) > 0 {
			left = append(left, fmt.Sprintf("%d of %s", len(plan), kind))
		}
	}
	return strings.Join(left, ", ")
}

// refuse answers with a problem that the server could have.
func refuse(status int, code, detail string) meddling {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // the worker is to read the answer, not to see a reset
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"status":%d,"code":%q,"title":%q,"detail":%q}`, status, code, code, detail) // a worker that is gone
	}
}

// drop breaks the connection off before the server has heard anything.
func drop(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// page answers as a proxy does that has something to say to people.
func page(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<!doctype html>\n<title>Back soon</title>\n")
}

// lose lets the server do what is asked, and breaks the connection off before it is answered.
func lose(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// cut breaks the connection off in the middle of the answer.
func cut(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	answer := httptest.NewRecorder()
	forward.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2]) // it is broken off anyway
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// after holds a request up until something has happened.
func after(happen func(r *http.Request)) meddling {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		happen(r)
		forward.ServeHTTP(w, r)
	}
}

// html is how a proxy refuses.
func html(status int) meddling {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // as refuse does
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html><h1>"+http.StatusText(status)+"</h1></html>")
	}
}
