package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// byHand are calls that change something in every way that has an event, each with the token
// that makes it.
func byHand(f *fixture, headers func(token string) []string) {
	for _, call := range []struct{ token, method, path, body string }{
		{"ann", "PUT", "/jobs/default", `{"paused":true}`},
		{"ann", "PATCH", "/jobs/default", `{"paused":false}`},
		{"ben", "POST", "/checkpoints", `{}`},
		{"worker", "POST", "/checkpoints/0/acks", `{"taskId":"task-1"}`},
		{"ann", "PATCH", "/checkpoints/0", `{"pinned":true}`},
		{"ann", "GET", "/checkpoints/0/restore", ""},
		{"ann", "GET", "/checkpoints/0/snapshot", ""},
		{"ben", "POST", "/checkpoints", `{}`},
		{"ann", "POST", "/checkpoints/1/complete?force=true", `{}`},
		{"ann", "POST", "/checkpoints", `{}`},
		{"worker", "POST", "/checkpoints/2/abort", `{"taskId":"task-1"}`},
		{"ann", "DELETE", "/checkpoints/1", ""},
		{"ben", "POST", "/checkpoints", `{}`},
		{"ben", "POST", "/checkpoints/recover", ""},
		{"ben", "POST", "/checkpoints/cleanup", `{"keep":0}`},
		{"ann", "DELETE", "/jobs/default?force=true", ""},
	} {
		if got := f.do(call.method, call.path, call.body, headers(call.token)...); got.status >= http.StatusBadRequest {
			f.t.Fatalf("%s %s as %s: %d %s", call.method, call.path, call.token, got.status, got.body)
		}
	}
}

func TestEveryEventNamesTheTokenInWhichItWasAskedFor(t *testing.T) {
	t.Parallel()
	every := `"roles":["trigger","read","admin","events"]`
	known := tokens(t, map[string]string{"ann": every, "ben": every, "worker": `"roles":["ack"]`})
	f := serve(t, setup{live: true, options: handlers.Options{Caller: known.Caller}})
	var stats api.Stats
	byHand(f, func(token string) []string {
		if token == "ben" { // the job's deletion forgets the restores
			f.do("GET", "/checkpoints/stats", "", as("ann")...).want(http.StatusOK).into(&stats)
		}
		return as(token)
	})
	var got []string
	s := f.follow("?lastEventId=0-0", as("ann")...)
	for range 18 {
		var event api.Event
		if err := json.Unmarshal([]byte(s.next().Data), &event); err != nil {
			t.Fatal(err)
		}
		about := ""
		if event.CheckpointID != nil {
			about = fmt.Sprintf(" %d", *event.CheckpointID)
		}
		if event.Pinned != nil && *event.Pinned {
			about += " pinned"
		}
		by := "nobody"
		if event.By != nil {
			by = *event.By
		}
		got = append(got, fmt.Sprintf("%s%s by %s", event.Type, about, by))
	}
	want := []string{
		"job.configured by ann", "job.configured by ann",
		"checkpoint.triggered 0 by ben", "checkpoint.completed 0 by nobody", "checkpoint.updated 0 pinned by ann",
		"checkpoint.triggered 1 by ben", "checkpoint.completed 1 by ann",
		"checkpoint.triggered 2 by ann", "checkpoint.aborted 2 by worker", "job.failing 2 by nobody",
		"checkpoint.deleted 1 by ann",
		"checkpoint.triggered 3 by ben", "checkpoint.aborted 3 by ben", "job.recovered_epoch 0 by ben",
		"checkpoint.deleted 2 by ben", "checkpoint.deleted 3 by ben", "checkpoint.deleted 0 by ann", "job.deleted by ann",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(stats.Restores) != 2 {
		t.Errorf("%d restores are recorded", len(stats.Restores))
	}
	for _, restore := range stats.Restores {
		if !strings.HasPrefix(*restore.By, "ann 127.0.0.1 Go") {
			t.Errorf("a restore is by %q", *restore.By)
		}
	}
}

func TestWithoutTokensNoEventNamesAnybody(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true})
	byHand(f, func(string) []string { return nil })
	s := f.follow("?lastEventId=0-0")
	for range 18 {
		if event := s.next(); strings.Contains(event.Data, `"by"`) {
			t.Errorf("the event %s", event.Data)
		}
	}
}
