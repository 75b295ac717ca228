package redistest_test

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestSharedServer(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	if a.URL != b.URL {
		t.Errorf("two tests got two shared servers: %s and %s", a.URL, b.URL)
	}
	if a.Prefix == b.Prefix {
		t.Errorf("two tests got one key prefix: %s", a.Prefix)
	}
	if err := a.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("the shared server does not answer: %v", err)
	}
}

func TestOwnServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{Config: []string{"--appendonly", "yes", "--maxmemory", "64mb"}})
	client := s.Client(t)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	s.Stop(t)
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a stopped server answers")
	}
	s.Start(t)
	if got := client.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("after a stop and a start: got %q, want what was persisted", got)
	}
	s.Kill(t)
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answers")
	}
	s.Start(t)
	s.Pause(t)
	s.Resume(t)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a resumed server does not answer: %v", err)
	}
}
