package server_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/doors/doorstest"
	"github.com/checkpointd/checkpointd/internal/server"
)

func TestBeyondLoopbackAServerNeedsTokensOrAWordThatItDoesNot(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.org:80"} {
		config := embedded(t)
		config.Listen = listen
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "--tokens FILE, or --insecure") {
			t.Errorf("%s: %v", listen, err)
		}
		config.Insecure = true
		if err := config.Validate(); err != nil {
			t.Errorf("%s with --insecure: %v", listen, err)
		}
		config.Insecure, config.Tokens = false, "tokens.json"
		if err := config.Validate(); err != nil {
			t.Errorf("%s with --tokens: %v", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		config := embedded(t)
		config.Listen = listen
		if err := config.Validate(); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestProfilesBeyondLoopbackNeedAWordWithOrWithoutTokens(t *testing.T) {
	t.Parallel()
	for _, tokens := range []string{"", "tokens.json"} {
		for _, address := range []string{":6060", "0.0.0.0:6060", "[::]:6060", "192.0.2.1:6060", "example.org:6060"} {
			config := embedded(t)
			config.Pprof, config.Tokens = address, tokens
			if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "--pprof "+address) || !strings.Contains(err.Error(), "--insecure") {
				t.Errorf("%s: %v", address, err)
			}
			config.Insecure = true
			if err := config.Validate(); err != nil {
				t.Errorf("%s with --insecure: %v", address, err)
			}
		}
		for _, address := range []string{"", "127.0.0.1:0", "[::1]:0", "localhost:0"} {
			config := embedded(t)
			config.Pprof, config.Tokens = address, tokens
			if err := config.Validate(); err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

func TestTheNameOfATokenIsInTheLogAndItsSecretNowhere(t *testing.T) {
	t.Parallel()
	const secret = "cpd_hunter2hunter2"
	path := filepath.Join(t.TempDir(), "tokens.json")
	doorstest.WriteTokens(t, path, doorstest.Entry("ops", secret, `"roles":["trigger","read"]`))
	config := embedded(t)
	config.Tokens, config.Public, config.LogLevel = path, []string{"readyz"}, "debug"
	s, log := startLogged(t, config)
	var seen strings.Builder
	for _, token := range []string{secret, secret + "x"} {
		for _, path := range []string{"/checkpoints", "/limits", "/metrics", "/jobs", "/readyz", "/nowhere"} {
			got := call(t, http.MethodGet, s.URL()+path, "", "Authorization", "Bearer "+token)
			seen.WriteString(got.text)
		}
		seen.WriteString(call(t, http.MethodPost, s.URL()+"/checkpoints", "{}", "Authorization", "Bearer "+token).text)
	}
	// Somebody writes the secret where its hash belongs.
	doorstest.Write(t, path, []byte(`{"tokens":[{"name":"ops","sha256":"`+secret+`","roles":["trigger","read"]}]}`))
	until(t, "the bad file is noticed", func() bool {
		text := call(t, http.MethodGet, s.URL()+"/readyz", "").text
		seen.WriteString(text)
		return strings.Contains(text, "tokens_files")
	})
	if got := call(t, http.MethodGet, s.URL()+"/metrics", "", "Authorization", "Bearer "+secret).text; !strings.Contains(got, `checkpointd_credentials_valid{files="tokens"} 0`) {
		t.Error("the metric does not tell of a bad file, or the old token does not hold")
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := log.String() + seen.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "tokens_files") {
		t.Errorf("written was\n%s", text)
	}
	if !strings.Contains(log.String(), `"token":"ops"`) {
		t.Errorf("the log is\n%s", log.String())
	}
}

// What is logged is said by the role that the contract demands, so that a new operation of the
// same kind is logged without a word.
func TestWhoChangedWhatIsLoggedAndWhatWorkersSendAllTheTimeIsNot(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	config.Tokens = filepath.Join(t.TempDir(), "tokens.json")
	doorstest.WriteTokens(t, config.Tokens, doorstest.Entry("ops", "secret", `"roles":["trigger","ack","state","read","admin","events"]`))
	s, log := startLogged(t, config)
	calls := []struct {
		method, path, body string
		logged             bool
	}{
		{"POST", "/checkpoints", `{"requiredTaskAcks":9}`, true},
		{"PUT", "/checkpoints/0/state/k", `1`, true},
		{"POST", "/checkpoints/0/acks", `{"taskId":"a"}`, false},                                              // the door for plain ones
		{"POST", "/checkpoints/0/acks", `{"acks":[{"taskId":"b","digest":"\u0073ha256:` + "x" + `"}]}`, true}, // refused
		{"POST", "/checkpoints/0/acks?job=def%61ult", `{"taskId":"c"}`, false},                                // the general door
		{"PUT", "/checkpoints/0/tasks/d/state?ack=true", `{"k":1}`, false},
		{"POST", "/checkpoints/0/extend", `{"timeoutMs":60000}`, false},
		{"GET", "/checkpoints/0", "", false},
		{"HEAD", "/checkpoints", "", false},
		{"PATCH", "/checkpoints/0", `{"pinned":true}`, true},
		{"POST", "/checkpoints/0/abort", `{"taskId":"a"}`, true},
		{"POST", "/checkpoints/recover", ``, true},
		{"PUT", "/jobs/default", `{}`, true},
		{"DELETE", "/jobs/default/tasks/a", ``, true},
		{"DELETE", "/jobs/default?force=true", ``, true},
		{"GET", "/jobs", "", false},
	}

	for i, c := range calls {
		got := call(t, c.method, s.URL()+c.path, c.body, "Authorization", "Bearer secret", "X-Request-Id", fmt.Sprintf("call-%d-", i))
		if got.status >= http.StatusInternalServerError {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.text)
		}
	}
	if err := s.Stop(t.Context()); err != nil { // and its last line is there
		t.Fatal(err)
	}
	for i, c := range calls {
		if logged := strings.Contains(log.String(), fmt.Sprintf(`"token":"ops","requestId":"call-%d-"`, i)); logged != c.logged {
			t.Errorf("%s %s is logged: %v", c.method, c.path, logged)
		}
	}
}

func TestSecretsOfTheServersOwnAreNowhere(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	b, config := newBehindTLS(t)
	config.TLSClientCA, config.LogLevel = "", "debug"
	config.Redis = "redis://user:" + secret + "@127.0.0.1:1/0" // where nobody answers
	doorstest.WriteTokens(t, config.Tokens, doorstest.Entry("ops", secret, `"roles":["trigger","ack","state","read","admin","events"]`))
	config.Public = []string{"healthz"}
	s, log := startLogged(t, config)
	client := b.dial(b.shown)
	var seen strings.Builder
	for _, path := range []string{"/limits", "/metrics", "/readyz?verbose", "/readyz", "/jobs", "/checkpoints", "/openapi.yaml", "/nowhere", "/healthz"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+secret)
		got := do(t, client, request)
		seen.WriteString(got.text + fmt.Sprint(got.header))
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := strings.Split(string(b.shown.KeyPEM), "\n")[1]
	text := log.String() + seen.String()
	for _, canary := range []string{secret, key} {
		if strings.Contains(text, canary) {
			t.Errorf("%s was written:\n%s", canary, text)
		}
	}
	if !strings.Contains(text, "127.0.0.1:1") || !strings.Contains(text, "store_unavailable") {
		t.Error("the log does not tell which Redis is away, so the test shows nothing")
	}
}

func TestFilesThatCannotBeReadToTheEndHoldUpNeitherReadinessNorTheEnd(t *testing.T) {
	t.Parallel()
	s, err := server.New(embedded(t), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	reading, release := make(chan struct{}, 1), make(chan struct{})
	defer close(release)
	s.LookAgainEvery(time.Millisecond)
	s.WatchHeldUp(reading, release)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-reading
	if got := call(t, http.MethodGet, s.URL()+"/readyz", ""); got.status != http.StatusOK {
		t.Errorf("readiness: %d %s", got.status, got.text)
	}
	ended := make(chan error)
	go func() { ended <- s.Stop(t.Context()) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not end while a file is being read")
	}
}

func TestAPipeInThePlaceOfTheTokensFileIsAWarning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	doorstest.WriteTokens(t, path, doorstest.Entry("ops", "secret", `"roles":["read"]`))
	config := embedded(t)
	config.Tokens, config.Public = path, []string{"readyz"}
	s := start(t, config)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the pipe is noticed", func() bool {
		return strings.Contains(call(t, http.MethodGet, s.URL()+"/readyz", "").text, "tokens_files")
	})
	if got := call(t, http.MethodGet, s.URL()+"/jobs", "", "Authorization", "Bearer secret"); got.status != http.StatusOK {
		t.Errorf("the token of before: %d %s", got.status, got.text)
	}
}

func TestCallersByCertificateWithoutAuthoritiesForThemAreAWarning(t *testing.T) {
	t.Parallel()
	const warning = "without --tls-client-ca"
	path := filepath.Join(t.TempDir(), "tokens.json")
	ops := doorstest.Entry("ops", "secret", `"roles":["read"]`)
	doorstest.WriteTokens(t, path, ops, `{"name":"worker","certificate":"worker.example","roles":["ack"]}`)
	config := embedded(t)
	config.Tokens, config.Public = path, []string{"readyz"}
	s, log := startLogged(t, config)
	if got := call(t, http.MethodGet, s.URL()+"/readyz", ""); got.status != http.StatusOK || !strings.Contains(got.text, "tokens_certificates") || !strings.Contains(got.text, warning) {
		t.Errorf("readiness: %d %s", got.status, got.text)
	}
	doorstest.WriteTokens(t, path, ops)
	until(t, "the warning is over", func() bool {
		return !strings.Contains(call(t, http.MethodGet, s.URL()+"/readyz", "").text, warning)
	})
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), warning); n != 1 {
		t.Errorf("the log has the warning %d times:\n%s", n, log.String())
	}
}
