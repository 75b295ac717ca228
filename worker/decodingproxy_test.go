package worker_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"testing"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

// nginx decodes a path and joins its dots where its proxy_pass has one, even one of a single slash: a
// task's name in the path then is another one's, or none.
func TestAWorkerOfAnyNameWorksBehindAProxyThatDecodesAndJoinsPaths(t *testing.T) {
	t.Parallel()
	for _, task := range []string{"a/b", "x/../y", "ü ?&#"} {
		t.Run(task, func(t *testing.T) {
			t.Parallel()
			server := checkpointtest.Start(t)
			target, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(&httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) {
					r.SetURL(target)
					r.Out.URL.Path, r.Out.URL.RawPath = path.Clean(r.In.URL.Path), ""
				},
				Transport: &http.Transport{DisableKeepAlives: true},
			})
			t.Cleanup(proxy.Close)

			first := newCounter(t, server, task)
			first.URL = proxy.URL
			life, _ := first.run(t)
			first.add("words", 7)
			id := server.Trigger(task).ID
			if got := server.Ended(id); got.Status != "completed" {
				t.Fatalf("the checkpoint ended as %+v", got)
			}
			life.stop()
			second := newCounter(t, server, task)
			second.URL = proxy.URL
			if _, from := second.run(t); from.ID != id || second.counts["words"] != 7 {
				t.Errorf("it went on from %+v with %v", from, second.counts)
			}
		})
	}
}
