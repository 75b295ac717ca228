package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// accessLine is a line of the access log, with all that it may have.
type accessLine struct {
	Level, Message, Time, RequestID, Token, Method, Route, Path, Job, Remote string
	Status, Bytes                                                            int
	Ms                                                                       float64
	BrokenOff                                                                bool
}

// lineOf finds the line of a request, and fails if it has a member that is none.
func lineOf(t *testing.T, log *lines, id string) (line accessLine, members []string) {
	t.Helper()
	for text := range strings.Lines(log.String()) {
		if !strings.Contains(text, `"requestId":"`+id+`"`) || !strings.Contains(text, `"message":"request"`) {
			continue
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		var all map[string]any
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		for name := range all {
			members = append(members, name)
		}
		slices.Sort(members)
		return line, members
	}
	t.Fatalf("the log has no line of %s:\n%s", id, log)
	return line, nil
}

func TestALineOfTheAccessLogSaysWhatWasAskedAndWhatCameOfIt(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	s, log := startLogged(t, config)
	refused := call(t, http.MethodGet, s.URL()+"/checkpoints/7?job=orders&more=hunter2", "", "X-Request-Id", "refused", "Cookie", "hunter2")
	slow := call(t, http.MethodPost, s.URL()+"/checkpoints?job=orders&wait=1", `{"labels":{"k":"hunter2"}}`, "X-Request-Id", "slow")
	key := call(t, http.MethodDelete, s.URL()+"/checkpoints/0/state/a%2Fb", "", "X-Request-Id", "escaped")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want accessLine
		got  answer
	}{
		{accessLine{RequestID: "refused", Method: "GET", Route: "/checkpoints/{id}", Path: "/checkpoints/7", Job: "orders"}, refused},
		{accessLine{RequestID: "slow", Method: "POST", Route: "/checkpoints", Path: "/checkpoints", Job: "orders"}, slow},
		{accessLine{RequestID: "escaped", Method: "DELETE", Route: "/checkpoints/{id}/state/{key}", Path: "/checkpoints/0/state/a%2Fb"}, key},
	} {
		got, members := lineOf(t, log, c.want.RequestID)
		c.want.Level, c.want.Message, c.want.Status, c.want.Bytes = "info", "request", c.got.status, len(c.got.text)
		if !strings.HasPrefix(got.Remote, "127.0.0.1:") || got.Time == "" || got.Ms <= 0 || (got.Ms >= 1000) != (c.want.RequestID == "slow") {
			t.Errorf("the line is %+v", got)
		}
		got.Remote, got.Time, got.Ms = "", "", 0
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if want := []string{"brokenOff", "bytes", "job", "level", "message", "method", "ms", "path", "remote", "requestId", "route", "status", "time"}; !slices.Equal(members, want) {
			t.Errorf("a line has %v, want %v", members, want)
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log has more than it should:\n%s", log)
	}
}

func TestTroubleIsAWarningInTheAccessLog(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	config.Redis = "redis://127.0.0.1:1/0" // where nobody answers
	s, log := startLogged(t, config)
	call(t, http.MethodGet, s.URL()+"/checkpoints", "", "X-Request-Id", "trouble")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := lineOf(t, log, "trouble"); got.Level != "warn" || got.Status != http.StatusServiceUnavailable || got.BrokenOff {
		t.Errorf("the line is %+v", got)
	}
}
