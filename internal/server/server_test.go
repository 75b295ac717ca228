package server_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/server"
)

func TestAnswersCarryTheRequestIDOfTheCallerOrANewOne(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	if got := call(t, http.MethodGet, s.URL()+"/healthz", "", "X-Request-Id", "mine-7").header.Get("X-Request-Id"); got != "mine-7" {
		t.Errorf("the caller's id became %q", got)
	}
	problem := call(t, http.MethodGet, s.URL()+"/nowhere", "", "X-Request-Id", "not visible")
	id := problem.header.Get("X-Request-Id")
	if id == "" || strings.Contains(id, " ") || !strings.Contains(problem.text, id) {
		t.Errorf("id %q is not in %s", id, problem.text)
	}
}

func TestMetricsCountByRoutePattern(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	call(t, http.MethodPost, s.URL()+"/checkpoints", `{"requiredTaskAcks":1}`)
	call(t, http.MethodPost, s.URL()+"/checkpoints/0/acks", `{"taskId":"task-1"}`)
	call(t, http.MethodGet, s.URL()+"/checkpoints/latest/restore", "")
	call(t, http.MethodGet, s.URL()+"/checkpoints/12345", "")
	call(t, http.MethodGet, s.URL()+"/no/such/path", "")
	metrics := call(t, http.MethodGet, s.URL()+"/metrics", "").text
	for _, line := range []string{
		`checkpointd_checkpoints_triggered_total{job="default"} 1`,
		`checkpointd_acks_total{job="default",outcome="acknowledged"} 1`,
		`checkpointd_checkpoints_ended_total{job="default",reason="",status="completed"} 1`,
		`checkpointd_checkpoint_duration_seconds_count{job="default",status="completed"} 1`,
		`checkpointd_ack_latency_seconds_count{job="default"} 1`,
		`checkpointd_pending_checkpoints{job="default"} 0`,
		`checkpointd_last_completed_id{job="default"} 0`,
		`checkpointd_job_never_completed{job="default"} 0`,
		`checkpointd_job_epoch{job="default"} 0`,
		`checkpointd_restores_total{job="default",outcome="finished"} 1`,
		`checkpointd_http_requests_total{method="GET",route="/checkpoints/{id}",status="404"} 1`,
		`checkpointd_http_requests_total{method="GET",route="unmatched",status="404"} 1`,
		`checkpointd_http_requests_total{method="POST",route="/checkpoints/{id}/acks",status="200"} 1`,
		`checkpointd_store_up 1`,
		`checkpointd_store_call_seconds_count{operation="acknowledge"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	if strings.Contains(metrics, "12345") {
		t.Error("an id became a label")
	}
}

func TestAJobThatComesBackIsCountedAnew(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	counted := func() bool {
		return strings.Contains(call(t, http.MethodGet, s.URL()+"/metrics", "").text, `checkpointd_acks_total{job="orders",outcome="acknowledged"} 1`+"\n")
	}
	acknowledge := func(id string) {
		t.Helper()
		call(t, http.MethodPost, s.URL()+"/checkpoints?job=orders", `{"requiredTaskAcks":1}`)
		call(t, http.MethodPost, s.URL()+"/checkpoints/"+id+"/acks?job=orders", `{"taskId":"task-1"}`)
	}
	acknowledge("0")
	if !counted() {
		t.Fatal("the acknowledgement is not counted")
	}
	call(t, http.MethodDelete, s.URL()+"/jobs/orders", "")
	if counted() {
		t.Error("the series of a deleted job is still there")
	}
	acknowledge("1")
	if !counted() {
		t.Error("the acknowledgement in the new job is not counted, or in the old series")
	}
}

func TestAMethodThatSomebodyMadeUpIsNoLabel(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	call(t, "BREW", s.URL()+"/checkpoints", "")
	metrics := call(t, http.MethodGet, s.URL()+"/metrics", "").text
	if strings.Contains(metrics, "BREW") || !strings.Contains(metrics, `checkpointd_http_requests_total{method="other"`) {
		t.Errorf("the metrics have\n%s", metrics)
	}
}

// lines is a log that another goroutine writes to.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startLogged starts a server that the test stops, and keeps what it logs.
func startLogged(t *testing.T, config server.Config) (*server.Server, *lines) {
	t.Helper()
	log := new(lines)
	s, err := server.New(config, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, log
}

func TestTheAccessLogHasRefusalsAndForThoseWhoDebugAllRequests(t *testing.T) {
	t.Parallel()
	for level, quick := range map[string]bool{"info": false, "debug": true} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			config := embedded(t)
			config.LogLevel = level
			s, log := startLogged(t, config)
			call(t, http.MethodGet, s.URL()+"/healthz", "", "X-Request-Id", "quick-1")
			call(t, http.MethodGet, s.URL()+"/nowhere", "", "X-Request-Id", "refused-1")
			if err := s.Stop(t.Context()); err != nil { // which waits for the requests and their lines
				t.Fatal(err)
			}
			text := log.String()
			if strings.Contains(text, `"requestId":"quick-1"`) != quick {
				t.Errorf("of a success the log has\n%s", text)
			}
			if !strings.Contains(text, `"requestId":"refused-1"`) || !strings.Contains(text, `"route":"unmatched"`) {
				t.Errorf("of a refusal the log has\n%s", text)
			}
		})
	}
}

func TestASecondServerOnTheSameFolderIsRefusedWithASentence(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	start(t, config)
	_, err := server.New(config, t.Output())
	if err == nil || !strings.Contains(err.Error(), config.Data) {
		t.Errorf("got %v", err)
	}
}

func TestTheLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	config.Redis = "redis://user:hunter2@127.0.0.1:1/0?protocol=3"
	var log strings.Builder
	s, err := server.New(config, &log)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	call(t, http.MethodGet, s.URL()+"/readyz", "")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, `"redis":"redis://user:xxxxx@127.0.0.1:1/0?redacted"`) {
		t.Errorf("the log is\n%s", text)
	}
}

func TestHealthIsAskedAtTheListenersAddress(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	if err := server.CheckHealth(t.Context(), s.Addr(), false); err != nil {
		t.Error(err)
	}
	if err := server.CheckHealth(t.Context(), "127.0.0.1:1", false); err == nil {
		t.Error("a closed port is healthy")
	}
}

func TestDrainingTurnsReadinessOffWhileServingOn(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	config.DrainDelay = 2 * time.Second
	s, err := server.New(config, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(t.Context()) }()
	status := http.StatusOK
	for status == http.StatusOK { // until Stop has begun
		status = call(t, http.MethodGet, s.URL()+"/readyz", "").status
	}
	if status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answered %d", status)
	}
	if alive := call(t, http.MethodGet, s.URL()+"/healthz", ""); alive.status != http.StatusOK {
		t.Errorf("/healthz answered %d", alive.status)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
