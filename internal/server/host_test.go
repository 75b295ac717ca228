package server_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/doors/doorstest"
	"github.com/checkpointd/checkpointd/internal/server"
)

// as sends a request under a name, as a page does whose name leads to this machine.
func as(t *testing.T, host, method, url, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return do(t, client, request)
}

// To a browser, a page whose name was made to lead to 127.0.0.1 is of the server's own origin.
func TestAServerOnLoopbackWithoutTokensIsCalledByNoOtherName(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	call(t, http.MethodPost, s.URL()+"/checkpoints", `{"requiredTaskAcks":9,"timeoutMs":0}`)
	standing := func() string {
		return call(t, http.MethodGet, s.URL()+"/checkpoints/0", "").text + call(t, http.MethodGet, s.URL()+"/jobs", "").text
	}
	before := standing()
	calls := []struct{ method, path, body string }{
		{"POST", "/checkpoints/0/acks", `{"taskId":"a"}`}, // the door for plain ones
		{"POST", "/checkpoints/0/acks", `{"acks":[{"taskId":"a"}]}`},
		{"POST", "/checkpoints", `{}`},
		{"POST", "/checkpoints/recover", ""},
		{"POST", "/checkpoints/0/abort", ""},
		{"PUT", "/checkpoints/0/tasks/a/state?ack=true", `{"k":1}`},
		{"PUT", "/jobs/x", `{}`},
		{"DELETE", "/checkpoints/0", ""},
		{"GET", "/checkpoints/0", ""},
		{"GET", "/jobs", ""},
		{"GET", "/events", ""},
		{"GET", "/healthz", ""},
		{"GET", "/readyz?verbose", ""},
		{"GET", "/metrics", ""},
		{"GET", "/openapi.yaml", ""},
		{"GET", "/nowhere", ""},
		{"OPTIONS", "/checkpoints", ""},
	}
	port := s.Addr()[strings.LastIndexByte(s.Addr(), ':'):]
	for _, host := range []string{
		"elsewhere.example", "elsewhere.example" + port, "127.0.0.1.elsewhere.example" + port, "localhost.elsewhere.example", "notlocalhost",
		"0.0.0.0" + port, "192.0.2.1" + port, "[2001:db8::1]" + port, "[::ffff:192.0.2.1]", "128.0.0.1", "checkpointd", "localhost:80:80", "[localhost",
	} {
		for _, c := range calls {
			// As a browser sends it, and as one does that says nothing of the page.
			got := as(t, host, c.method, s.URL()+c.path, c.body, "Origin", "http://"+host, "Sec-Fetch-Site", "same-origin")
			if got.status == http.StatusForbidden {
				got = as(t, host, c.method, s.URL()+c.path, c.body)
			}
			if got.status != http.StatusForbidden || !strings.Contains(got.text, `"code":"forbidden"`) || !strings.Contains(got.text, "--insecure") {
				t.Errorf("as %s, %s %s answers %d %s", host, c.method, c.path, got.status, got.text)
			}
		}
	}
	if got := as(t, "elsewhere.example", "HEAD", s.URL()+"/checkpoints", ""); got.status != http.StatusForbidden {
		t.Errorf("HEAD answers %d", got.status)
	}
	if after := standing(); after != before {
		t.Errorf("what was refused has changed\n%s\nto\n%s", before, after)
	}
	for _, host := range []string{
		"127.0.0.1" + port, "127.0.0.1", "127.1.2.3:9000", "localhost" + port, "LocalHost", "localhost.", "localhost.:80", "[::1]" + port, "[::1]", "[::ffff:127.0.0.1]" + port,
	} {
		if got := as(t, host, "GET", s.URL()+"/checkpoints/0", ""); got.status != http.StatusOK {
			t.Errorf("as %s it answers %d %s", host, got.status, got.text)
		}
		if got := as(t, host, "POST", s.URL()+"/checkpoints/0/acks", `{"taskId":"a"}`); got.status != http.StatusOK {
			t.Errorf("as %s an acknowledgement is answered %d %s", host, got.status, got.text)
		}
	}
	// What is no browser may say nothing at all.
	if got := sendRaw(t, s.Addr(), "GET /checkpoints/0 HTTP/1.0\r\n\r\n"); got.status != http.StatusOK {
		t.Errorf("without a host it answers %d %s", got.status, got.text)
	}
	// A target that names a host counts, and not the header beside it.
	if got := sendRaw(t, s.Addr(), "GET http://elsewhere.example/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); got.status != http.StatusForbidden {
		t.Errorf("with a host in its target it answers %d %s", got.status, got.text)
	}
}

func TestWhereSomethingElseKeepsStrangersOutAServerHasAnyName(t *testing.T) {
	t.Parallel()
	insecure := embedded(t)
	insecure.Insecure = true
	withTokens := embedded(t)
	withTokens.Tokens = filepath.Join(t.TempDir(), "tokens.json")
	doorstest.WriteTokens(t, withTokens.Tokens, doorstest.Entry("ops", "secret", `"roles":["trigger","ack","read"]`))
	for name, config := range map[string]server.Config{"--insecure": insecure, "--tokens": withTokens} {
		s := start(t, config)
		token := []string{"Authorization", "Bearer secret"}
		if got := as(t, "checkpointd.example:8080", "POST", s.URL()+"/checkpoints", `{}`, token...); got.status != http.StatusCreated {
			t.Errorf("%s: a trigger is answered %d %s", name, got.status, got.text)
		}
		if got := as(t, "checkpointd.example:8080", "POST", s.URL()+"/checkpoints/0/acks", `{"taskId":"a"}`, token...); got.status != http.StatusOK {
			t.Errorf("%s: an acknowledgement is answered %d %s", name, got.status, got.text)
		}
	}
}

func TestProfilesOnLoopbackAreCalledByNoOtherName(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	config.Pprof, config.Insecure = "127.0.0.1:0", true
	var log logged
	s, err := server.New(config, &log)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	profiles := "http://" + log.address(t, "profiles are served")
	for host, want := range map[string]int{"elsewhere.example": http.StatusForbidden, "localhost": http.StatusOK} {
		if got := as(t, host, http.MethodGet, profiles+"/debug/pprof/cmdline", ""); got.status != want {
			t.Errorf("as %s they answer %d", host, got.status)
		}
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A form of another site has neither a body nor, in old browsers, an Origin; by Sec-Fetch-Site it
// is known all the same. What is no browser sends neither.
func TestACallWithoutABodyIsNotTakenFromAnotherSite(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	call(t, http.MethodPost, s.URL()+"/checkpoints", `{"timeoutMs":0}`)
	for _, path := range []string{"/checkpoints/0/abort", "/checkpoints/recover", "/checkpoints/cleanup", "/checkpoints", "/checkpoints/0/complete"} {
		for _, site := range []string{"cross-site", "same-site"} {
			for _, headers := range [][]string{{}, {"Content-Type", "application/x-www-form-urlencoded"}} {
				got := call(t, http.MethodPost, s.URL()+path, "", append(headers, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate")...)
				if got.status != http.StatusForbidden || !strings.Contains(got.text, "another origin") {
					t.Errorf("%s from %s answers %d %s", path, site, got.status, got.text)
				}
			}
		}
	}
	if got := call(t, http.MethodGet, s.URL()+"/checkpoints/0", ""); !strings.Contains(got.text, `"status":"pending"`) || !strings.Contains(got.text, `"epoch":0`) {
		t.Errorf("the checkpoint is %s", got.text)
	}
	for site, headers := range map[string][]string{"curl": nil, "its own page": {"Sec-Fetch-Site", "same-origin"}, "the address bar": {"Sec-Fetch-Site", "none"}} {
		if got := call(t, http.MethodPost, s.URL()+"/checkpoints/recover", "", headers...); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", site, got.status, got.text)
		}
	}
}
