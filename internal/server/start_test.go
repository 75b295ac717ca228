package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/internal/server"
)

// After many failed dials go-redis looks once a second whether Redis is back, in a goroutine
// that notices up to a second late that its client was closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// embedded is a configuration on a fresh folder and a free port.
func embedded(t *testing.T) server.Config {
	t.Helper()
	return server.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(), KeyPrefix: "checkpoint:",
		RequiredTaskAcks: 1, CheckpointTimeout: time.Minute, CheckpointsToKeep: 5, MaxConcurrentCheckpoints: 16, EventsToKeep: 100,
		MaxPart: 4 << 30, IdleTimeout: 2 * time.Minute, DrainTimeout: 10 * time.Second, LogLevel: "info", LogFormat: "json", MetricsJobs: 100,
		Bounds: server.DefaultBounds(),
	}
}

// start runs a server until the test ends.
func start(t *testing.T, config server.Config) *server.Server {
	t.Helper()
	s, err := server.New(config, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// client keeps no idle connections: they would outlive the test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

// answer is what a call brought.
type answer struct {
	status int
	header http.Header
	text   string
}

// call sends a request and reads its whole answer.
func call(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return do(t, client, request)
}

func do(t *testing.T, client *http.Client, request *http.Request) answer {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: response.StatusCode, header: response.Header, text: string(text)}
}
