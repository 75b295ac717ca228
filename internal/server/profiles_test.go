package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/checkpointd/checkpointd/internal/server"
)

// logged collects a server's log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// address is that of the first line with the message, or "".
func (l *logged) address(t *testing.T, message string) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var entry struct{ Message, Address string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Message == message {
			return entry.Address
		}
	}
	return ""
}

func TestProfilesAreServedOnAListenerOfTheirOwnUntilTheServerStops(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	config.Pprof = "127.0.0.1:0"
	var log logged
	s, err := server.New(config, &log)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	profiles := "http://" + log.address(t, "profiles are served")
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
		if got := call(t, http.MethodGet, profiles+path, ""); got.status != http.StatusOK || got.text == "" {
			t.Errorf("%s answered %d with %d bytes", path, got.status, len(got.text))
		}
	}
	if got := call(t, http.MethodGet, s.URL()+"/debug/pprof/", ""); got.status != http.StatusNotFound {
		t.Errorf("the API's listener answered %d", got.status)
	}
	if got := call(t, http.MethodGet, profiles+"/healthz", ""); got.status != http.StatusNotFound {
		t.Errorf("the profiles' listener answered %d for the API", got.status)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, profiles+"/debug/pprof/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client.Do(request); err == nil {
		_ = response.Body.Close()
		t.Error("profiles are served after the stop")
	}
}

func TestProfilesAreOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	var log logged
	s, err := server.New(embedded(t), &log)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at := log.address(t, "profiles are served"); at != "" {
		t.Errorf("they are served at %s", at)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAServerDoesNotStartWhereItsProfilesCannotListen(t *testing.T) {
	t.Parallel()
	other := start(t, embedded(t))
	config := embedded(t)
	config.Pprof = other.Addr()
	s, err := server.New(config, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "--pprof") {
		t.Errorf("started with %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
