package checkpointtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Checkpoint is what tests ask of a checkpoint of the default job.
type Checkpoint struct {
	ID int64 `json:"checkpointId"`
	// Status is pending, completed, expired or aborted.
	Status            string   `json:"status"`
	Epoch             int64    `json:"epoch"`
	AcknowledgedTasks int      `json:"acknowledgedTasks"`
	MissingTasks      []string `json:"missingTasks"`
	Failure           struct {
		// Reason is expired, declined, aborted, superseded or evicted.
		Reason string `json:"reason"`
		// TaskID is the task that declined.
		TaskID  string `json:"taskId"`
		Message string `json:"message"`
	} `json:"failure"`
}

// Trigger starts a checkpoint of the default job that these tasks must acknowledge; without
// any, as many as the settings say, whoever they are.
func (s *Server) Trigger(tasks ...string) Checkpoint {
	s.t.Helper()
	var body struct {
		Tasks []string `json:"tasks,omitempty"`
	}
	body.Tasks = tasks
	var triggered Checkpoint
	s.call(http.MethodPost, "/checkpoints", body, &triggered)
	return triggered
}

// Checkpoint is a checkpoint of the default job as it is now.
func (s *Server) Checkpoint(id int64) Checkpoint {
	s.t.Helper()
	var got Checkpoint
	s.call(http.MethodGet, fmt.Sprintf("/checkpoints/%d", id), nil, &got)
	return got
}

// Ended waits until a checkpoint has ended, for at most a minute.
func (s *Server) Ended(id int64) Checkpoint {
	s.t.Helper()
	var got Checkpoint
	s.call(http.MethodGet, fmt.Sprintf("/checkpoints/%d?until=ended&wait=60", id), nil, &got)
	if got.Status == "pending" {
		s.t.Fatalf("checkpointtest: checkpoint %d is still pending after a minute, tasks %q are missing", id, got.MissingTasks)
	}
	return got
}

// Recover raises the epoch of the default job, as after a crash of the whole fleet.
func (s *Server) Recover() {
	s.t.Helper()
	s.call(http.MethodPost, "/checkpoints/recover", nil, nil)
}

// Abort ends a pending checkpoint of the default job by hand.
func (s *Server) Abort(id int64) {
	s.t.Helper()
	s.call(http.MethodPost, fmt.Sprintf("/checkpoints/%d/abort", id), nil, nil)
}

// Delete removes a checkpoint of the default job, as retention does some day.
func (s *Server) Delete(id int64) {
	s.t.Helper()
	s.call(http.MethodDelete, fmt.Sprintf("/checkpoints/%d", id), nil, nil)
}

// Damage makes a completed checkpoint of the default job one whose parts were lost: restoring it is refused with
// snapshot_damaged, and the latest is an older one.
func (s *Server) Damage(id int64) {
	s.t.Helper()
	if err := s.running.MarkDamaged(context.Background(), "default", id); err != nil {
		s.t.Fatalf("checkpointtest: %v", err)
	}
}

// call sends a request, which must succeed. Its connection is not kept: it would outlive the test.
func (s *Server) call(method, path string, body, into any) {
	s.t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			s.t.Fatalf("checkpointtest: %v", err)
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, reader)
	if err != nil {
		s.t.Fatalf("checkpointtest: %v", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Prefer", "wait=60") // there is no proxy that would not bear it
	if s.settings.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.settings.token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 90 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		s.t.Fatalf("checkpointtest: %v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		s.t.Fatalf("checkpointtest: %s %s answered %s (%v)\n%s", method, path, response.Status, err, text)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(text, into); err != nil {
		s.t.Fatalf("checkpointtest: %s %s: %v", method, path, err)
	}
}
