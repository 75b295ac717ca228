package worker_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

// proxy stands between a worker and its server and interferes.
type proxy struct {
	url string
	// meddle may answer a request itself; true passes it on.
	meddle atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	// What arrived.
	events, polls, extensions, uploads atomic.Int64
}

func newProxy(t *testing.T, server *checkpointtest.Server) *proxy {
	t.Helper()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	transport := &http.Transport{DisableKeepAlives: true}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/events":
			p.events.Add(1)
		case r.URL.Query().Get("notAckedBy") != "" && r.URL.Query().Get("wait") != "":
			p.polls.Add(1)
		case strings.HasSuffix(r.URL.Path, "/extend"):
			p.extensions.Add(1)
		case r.Method == http.MethodPut:
			p.uploads.Add(1)
		}
		if meddle := p.meddle.Load(); meddle != nil && !(*meddle)(w, r) {
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	p.url = front.URL
	return p
}

func (p *proxy) set(meddle func(http.ResponseWriter, *http.Request) bool) { p.meddle.Store(&meddle) }

// breakOff drops the connection of a request.
func breakOff(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// relayCut passes a request on and only the first bytes of its answer back; with -1 not even
// the head.
func relayCut(t *testing.T, w http.ResponseWriter, r *http.Request, target string, most int64) {
	t.Helper()
	defer breakOff(w)
	request, err := http.NewRequestWithContext(r.Context(), r.Method, target+r.URL.RequestURI(), r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	request.Header = r.Header.Clone()
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return // the client went first
	}
	defer response.Body.Close()
	if most < 0 {
		_, _ = io.Copy(io.Discard, response.Body)
		return
	}
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	_, _ = io.CopyN(w, response.Body, most)
	_ = http.NewResponseController(w).Flush()
}
