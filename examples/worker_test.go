// Package examples_test runs the example workers against a real server.
package examples_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

// awkward is a task whose name must be percent-encoded, in a path otherwise than in a form.
const awkward = "täsk/1 & more+?#%"

func TestAWorkerThatIsKilledAndWhoseServerRestartsTakesPartInEveryCheckpoint(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t, checkpointtest.Timeout(0))
		worker := t.start(server.URL, awkward)
		kills := 0
		for round := range t.checkpoints {
			id := server.Trigger(awkward).ID
			switch round % 5 {
			case 1:
				<-time.After(rand.N(100 * time.Millisecond)) // a random moment
				worker.kill()
				kills++
				worker = t.start(server.URL, awkward)
			case 3:
				server.Restart()
			}
			if got := server.Ended(id); got.Status != "completed" {
				t.Fatalf("checkpoint %d ended as %+v", id, got)
			}
		}
		// Its state went through the kills. Each may cost one: the part that a dead worker had
		// sent can arrive, and complete a checkpoint, after its successor has read an older one.
		if got := count(t.T, server); got < t.checkpoints-kills {
			t.Errorf("after %d checkpoints and %d kills the worker's count is %d", t.checkpoints, kills, got)
		}
	})
}

func TestAWorkerComesBackToItsStateThroughAnswersThatAreLostAndCutOff(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t, checkpointtest.Timeout(0))
		before := []entry{{Key: "count", Value: json.RawMessage("41")}}
		if t.carries != "" {
			before = append(before, entry{Key: "é\" \\ \t", Value: json.RawMessage(t.carries)})
		}
		upload(t.T, server, awkward, before)
		away := refuse(http.StatusServiceUnavailable, "store_unavailable", "The store does not answer.")
		between := meddle(t.T, server, map[string][]meddling{
			asksJob:     {away, drop, cut},
			asksRestore: {away, refuse(http.StatusBadGateway, "", ""), drop, cut},
			asksPending: {away, drop, page, cut},
			uploads:     {away, drop, lose},
		})
		t.start(between.URL, awkward)
		if got := server.Ended(server.Trigger(awkward).ID); got.Status != "completed" {
			t.Fatalf("the checkpoint ended as %+v", got)
		}
		// The reply to the upload was lost: the worker learns that it has counted, and goes on.
		if got := server.Ended(server.Trigger(awkward).ID); got.Status != "completed" {
			t.Fatalf("the next checkpoint ended as %+v", got)
		}
		if left := between.left(); left != "" {
			t.Errorf("the worker did not ask for %s", left)
		}
		before[0].Value = json.RawMessage("43")
		if diff := cmp.Diff(values(t.T, before), values(t.T, restore(t.T, server))); diff != "" {
			t.Errorf("what the worker came back to, and handed in (-want +got):\n%s", diff)
		}
	})
}

func TestAWorkerShowsTheTokenOfItsEnvironment(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t, checkpointtest.Token("sesame"))
		stranger := t.start(server.URL, awkward)
		if code, said := stranger.ended(t.T); code != 1 || !strings.Contains(said, "token") {
			t.Errorf("without a token it ended with %d and said %s", code, said)
		}
		t.environment = []string{"CHECKPOINTD_TOKEN=sesame"}
		t.start(server.URL, awkward)
		if got := server.Ended(server.Trigger(awkward).ID); got.Status != "completed" {
			t.Errorf("the checkpoint ended as %+v", got)
		}
	})
}

func TestAWorkerDeclinesWhenItsSnapshotFailsAndGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t)
		t.startFailing(server.URL, awkward)
		got := server.Ended(server.Trigger(awkward).ID)
		if got.Failure.Reason != "declined" || got.Failure.TaskID != awkward || !strings.Contains(got.Failure.Message, "disk is full") {
			t.Errorf("the checkpoint ended as %+v", got)
		}
		if got := server.Ended(server.Trigger(awkward).ID); got.Status != "completed" {
			t.Errorf("the next checkpoint ended as %+v", got)
		}
	})
}

func TestAWorkerDeclinesWhenItsPartIsRefusedAndGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t)
		between := meddle(t.T, server, map[string][]meddling{
			uploads: {refuse(http.StatusRequestEntityTooLarge, "too_large", "The part is over its limit.")},
		})
		t.start(between.URL, awkward)
		got := server.Ended(server.Trigger(awkward).ID)
		if got.Failure.Reason != "declined" || !strings.Contains(got.Failure.Message, "over its limit") {
			t.Errorf("the checkpoint ended as %+v", got)
		}
		if got := server.Ended(server.Trigger(awkward).ID); got.Status != "completed" {
			t.Errorf("the next checkpoint ended as %+v", got)
		}
	})
}

func TestAWorkerWhoseCheckpointIsAbortedUnderItGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t)
		id := server.Trigger(awkward).ID
		between := meddle(t.T, server, map[string][]meddling{
			uploads: {after(func(*http.Request) { server.Abort(id) })},
		})
		t.start(between.URL, awkward)
		if got := server.Ended(id); got.Failure.Reason != "aborted" {
			t.Errorf("the checkpoint ended as %+v", got)
		}
		if got := server.Ended(server.Trigger(awkward).ID); got.Status != "completed" {
			t.Errorf("the next checkpoint ended as %+v", got)
		}
	})
}

func TestAWorkerWhoseCheckpointExpiresUnderItGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		if t.extends {
			t.Skip("it asks for more time, so nothing expires under it")
		}
		server := checkpointtest.Start(t, checkpointtest.Timeout(3*time.Second))
		// The server, and not what it answers a test, tells that the checkpoint is over: its
		// calls here are not the test's.
		expired := make(chan string, 1)
		until := after(func(r *http.Request) {
			id := strings.Split(r.URL.Path, "/")[2]
			answer, err := client.Get(server.URL + "/checkpoints/" + id + "?until=ended&wait=60")
			if err != nil {
				expired <- err.Error()
				return
			}
			defer answer.Body.Close()
			var ended struct{ Status string }
			err = json.NewDecoder(answer.Body).Decode(&ended)
			expired <- fmt.Sprint(ended.Status, err)
		})
		between := meddle(t.T, server, map[string][]meddling{uploads: {until}})
		t.start(between.URL, awkward)
		// The first ones may expire before the worker has begun.
		for waiting := true; waiting; {
			server.Ended(server.Trigger(awkward).ID)
			select {
			case got := <-expired:
				if got != "expired<nil>" {
					t.Errorf("what was held up ended as %s", got)
				}
				waiting = false
			default:
			}
		}
		for range 20 { // it takes part within the time that a checkpoint has, if not on a machine that is slow
			if server.Ended(server.Trigger(awkward).ID).Status == "completed" {
				return
			}
		}
		t.Error("the worker does not take part any more")
	})
}

func TestAWorkerEndsWhenTheFleetHasRecoveredWithoutIt(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t)
		worker := t.start(server.URL, awkward)
		server.Ended(server.Trigger(awkward).ID)
		server.Recover()
		id := server.Trigger(awkward).ID
		if code, said := worker.ended(t.T); code != 1 || !strings.Contains(said, "epoch") {
			t.Errorf("it ended with %d and said %s", code, said)
		}
		if got := server.Checkpoint(id); got.Status != "pending" {
			t.Errorf("it left the checkpoint of the others as %+v", got)
		}
	})
}

// A decline would end the checkpoint for the whole fleet.
func TestAWorkerDeclinesNothingForALackOfPlacesOrForAProxysPage(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t)
		between := meddle(t.T, server, map[string][]meddling{uploads: {
			refuse(http.StatusTooManyRequests, "too_many_requests", "The job has its share."), html(http.StatusRequestEntityTooLarge),
			html(http.StatusBadGateway), html(http.StatusGatewayTimeout), drop,
		}})
		t.start(between.URL, awkward)
		if got := server.Ended(server.Trigger(awkward).ID); got.Status != "completed" {
			t.Errorf("the checkpoint ended as %+v", got)
		}
		if left := between.left(); left != "" {
			t.Errorf("the worker did not send %s", left)
		}
	})
}

func TestAWorkerIsNotFooledByA404ThatIsNotTheServers(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		server := checkpointtest.Start(t)
		upload(t.T, server, awkward, []entry{{Key: "count", Value: json.RawMessage("41")}})
		between := meddle(t.T, server, map[string][]meddling{
			asksRestore: {refuse(http.StatusNotFound, "not_found", "No resource has this path.")},
		})
		worker := t.start(between.URL, awkward)
		if code, said := worker.ended(t.T); code != 1 || !strings.Contains(said, "No resource") {
			t.Errorf("it ended with %d and said %s", code, said)
		}
	})
}

func TestANodeWorkerPollsWhileTheStreamIsHeldBack(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		if t.runtime != "node" {
			t.Skip("it has no stream, or is package worker, which has tests of its own")
		}
		server := checkpointtest.Start(t)
		held := func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush() // as if it had begun
			<-r.Context().Done()
		}
		between := meddle(t.T, server, map[string][]meddling{asksEvents: {held}})
		t.start(between.URL, awkward)
		began := time.Now()
		for range 3 {
			if got := server.Ended(server.Trigger(awkward).ID); got.Status != "completed" {
				t.Fatalf("the checkpoint ended as %+v", got)
			}
		}
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("it took %v, so it was woken when the stream was given up, and did not poll", took)
		}
		if left := between.left(); left != "" {
			t.Errorf("the worker did not ask for %s", left)
		}
	})
}

func TestTheWorkersFitOnAPage(t *testing.T) {
	t.Parallel()
	for name, l := range languages {
		text, err := os.ReadFile(l.file)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); l.lines > 0 && lines > l.lines {
			t.Errorf("the worker in %s has %d lines, more than %d", name, lines, l.lines)
		}
	}
}

// client keeps no connection, which would outlive its test.
var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 90 * time.Second}

type entry struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// upload completes a checkpoint with this part of the task.
func upload(t *testing.T, server *checkpointtest.Server, task string, part []entry) {
	t.Helper()
	id := server.Trigger(task).ID
	var lines strings.Builder
	for _, entry := range part {
		if err := json.NewEncoder(&lines).Encode(entry); err != nil {
			t.Fatal(err)
		}
	}
	path := fmt.Sprintf("%s/checkpoints/%d/task/state?taskId=%s&ack=true", server.URL, id, url.QueryEscape(task))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, path, strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %v\n%s", answer.Status, err, text)
	}
}

// restore reads the latest checkpoint.
func restore(t *testing.T, server *checkpointtest.Server) []entry {
	t.Helper()
	answer, err := client.Get(server.URL + "/checkpoints/latest/restore")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var entries []entry
	for decoder := json.NewDecoder(answer.Body); ; {
		var entry entry
		switch err := decoder.Decode(&entry); {
		case err == io.EOF:
			return entries
		case err != nil:
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
}

// values are the entries in Go's values, with numbers as they are spelled: languages spell
// strings in different ways.
func values(t *testing.T, entries []entry) map[string]any {
	t.Helper()
	values := map[string]any{}
	for _, entry := range entries {
		var value any
		decoder := json.NewDecoder(strings.NewReader(string(entry.Value)))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		values[entry.Key] = value
	}
	return values
}

// count is the only entry of the latest checkpoint.
func count(t *testing.T, server *checkpointtest.Server) int {
	t.Helper()
	entries := restore(t, server)
	if len(entries) != 1 || entries[0].Key != "count" {
		t.Fatalf("the worker's state is %v", entries)
	}
	count := 0
	if err := json.Unmarshal(entries[0].Value, &count); err != nil {
		t.Fatal(err)
	}
	return count
}
