package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/api/apitest"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// The token of one worker. What it may is written down here by hand, so that what the contract
// adds is refused until somebody says otherwise.
func TestATokenForTheAcksOfOneTaskInOneJobCanDoNothingElse(t *testing.T) {
	t.Parallel()
	may := map[string]bool{"acknowledge": true, "uploadPart": true, "uploadPartByQuery": true, "abortCheckpoint": true, "extendCheckpoint": true}
	mayAnybody := map[string]bool{"getHealth": true, "getLimits": true, "getContract": true}
	bodies := map[string]string{"acknowledge": `{"taskId":"task-1"}`, "abortCheckpoint": `{"taskId":"task-1"}`}
	examples, err := apitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	f := guarded(t, map[string]string{
		"worker": `"roles":["ack"],"jobs":["mine"],"tasks":["task-1"]`,
		"ops":    `"roles":["trigger","ack","state","read","admin","events"]`,
	})
	jobs := []string{"mine", "other", coordinator.DefaultJob}
	for _, job := range jobs {
		f.do("POST", "/checkpoints?job="+job, `{"requiredTaskAcks":50}`, as("ops")...).want(http.StatusCreated)
	}
	standing := func(jobs ...string) (text string) {
		for _, path := range []string{"/checkpoints?job=%s", "/checkpoints/0?job=%s", "/checkpoints/0/state?job=%s", "/checkpoints/stats?job=%s", "/jobs/%s", "/jobs?limit=%.0s"} {
			for _, job := range jobs {
				text += f.do("GET", strings.TrimSuffix(fmt.Sprintf(path, job), "?limit="), "", as("ops")...).body + "\n"
			}
		}
		return text
	}
	foreign, all := standing("other", coordinator.DefaultJob), standing(jobs...)
	before := foreign
	for _, mine := range []bool{false, true} { // what is refused comes first, and changes nothing
		for _, example := range examples {
			for _, job := range append(jobs, "mine-2", "MINE", "mine.") {
				for _, task := range []string{"task-1", "task-2", "TASK-1", "task-11"} {
					allowed := mayAnybody[example.OperationID] || may[example.OperationID] && job == "mine" &&
						(task == "task-1" || example.OperationID == "extendCheckpoint")
					if allowed != mine {
						continue
					}
					path := strings.ReplaceAll(example.Request.Path, "example-"+example.OperationID, job)
					if job == coordinator.DefaultJob { // which need not be named
						path = strings.ReplaceAll(strings.ReplaceAll(path, "job=default&", ""), "?job=default", "")
					}
					body := string(example.Request.Body)
					if other, has := bodies[example.OperationID]; has {
						body = other
					} else if example.Request.Text != nil {
						body = *example.Request.Text
					}
					headers := as("worker")
					for name, value := range example.Request.Headers {
						headers = append(headers, name, value)
					}
					got := f.do(example.Request.Method, strings.ReplaceAll(path, "task-1", task), strings.ReplaceAll(body, "task-1", task), headers...)
					if refused := got.status == http.StatusForbidden; refused == allowed || got.status == http.StatusUnauthorized {
						t.Errorf("%s in %s for %s: status %d, allowed should be %v", example.OperationID, job, task, got.status, allowed)
					}
				}
			}
		}
		if !mine {
			if got := standing(jobs...); got != all {
				t.Errorf("what was refused has changed something, from\n%s\nto\n%s", all, got)
			}
		}
	}
	if got := standing("other", coordinator.DefaultJob); withoutMine(got) != withoutMine(before) {
		t.Errorf("other jobs have changed, from\n%s\nto\n%s", before, got)
	}
}

// withoutMine leaves out the lines about all jobs, in which the token's own stands.
func withoutMine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, `{"jobs":`) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestAnIDOfAnotherJobIsNoneInATokensOwn(t *testing.T) {
	t.Parallel()
	f := guarded(t, map[string]string{
		"worker": `"roles":["ack","read","admin"],"jobs":["mine"]`,
		"ops":    `"roles":["trigger","read"]`,
	})
	f.do("POST", "/checkpoints?job=mine", "", as("ops")...).want(http.StatusCreated)
	for range 3 {
		f.do("POST", "/checkpoints?job=other", `{"requiredTaskAcks":2}`, as("ops")...).want(http.StatusCreated)
	}
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/checkpoints/2/acks?job=mine", `{"taskId":"task-1"}`},
		{"POST", "/checkpoints/2/acks?job=m%69ne", `{"acks":[{"taskId":"task-1"}]}`},
		{"PUT", "/checkpoints/2/tasks/task-1/state?job=mine", `{}`},
		{"GET", "/checkpoints/2?job=mine", ""},
		{"GET", "/checkpoints/2/restore?job=mine", ""},
		{"DELETE", "/checkpoints/2?job=mine", ""},
	} {
		f.do(call.method, call.path, call.body, as("worker")...).refused(coordinator.CodeCheckpointNotFound)
	}
	// Two jobs in one call are none, and the path's is the one that counts.
	for _, path := range []string{"/checkpoints/2/acks?job=mine&job=other", "/checkpoints/2/acks?job=other&job=mine"} {
		if got := f.do("POST", path, `{"taskId":"task-1"}`, as("worker")...); got.status != http.StatusBadRequest && got.status != http.StatusForbidden {
			t.Errorf("POST %s is answered %d", path, got.status)
		}
	}
	f.do("DELETE", "/jobs/other?job=mine&force=true", "", as("worker")...).refused(coordinator.CodeForbidden)
	var seen api.Checkpoint
	f.do("GET", "/checkpoints/2?job=other", "", as("ops")...).want(http.StatusOK).into(&seen)
	if seen.AcknowledgedTasks != 0 || seen.Status != api.CheckpointStatusPending {
		t.Errorf("the checkpoint of the other job is %+v", seen)
	}
}
