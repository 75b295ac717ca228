package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/api/client"
)

// serving gives a client of a server that answers every request like this. seen gets
// the method, target and body of each request.
func serving(t *testing.T, status int, mediaType, body string, seen chan<- string) *client.ClientWithResponses {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen <- fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, sent)
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		if _, err := io.WriteString(w, body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.NewClientWithResponses(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAcknowledgeSendsItsBodyAndReadsEitherAnswer(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	c := serving(t, http.StatusOK, "application/json",
		`{"checkpointId":7,"status":"completed","acknowledgedTasks":1,"requiredTaskAcks":1,"results":[{"taskId":"a","status":"acknowledged"}]}`, seen)
	job := "orders"
	answer, err := c.AcknowledgeWithResponse(t.Context(), 7, &api.AcknowledgeParams{Job: &job}, api.AckBody{Acks: []api.AckRequest{{TaskID: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := <-seen, `POST /checkpoints/7/acks?job=orders {"acks":[{"taskId":"a"}]}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	want := api.AckAnswer{Bulk: &api.BulkAckResult{
		CheckpointID: 7, Status: api.CheckpointStatusCompleted, AcknowledgedTasks: 1, RequiredTaskAcks: 1,
		Results: []api.BulkAckItem{{TaskID: "a", Status: api.AckStatusAcknowledged}},
	}}
	if answer.JSON200 == nil {
		t.Fatalf("status %s has no answer", answer.Status())
	}
	if diff := cmp.Diff(want, *answer.JSON200); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestARefusalIsTheProblemOfItsStatus(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	c := serving(t, http.StatusConflict, "application/problem+json",
		`{"type":"a","title":"b","status":409,"detail":"c","instance":"d","code":"checkpoint_expired","current":8}`, seen)
	answer, err := c.ExtendCheckpointWithResponse(t.Context(), 7, nil, api.ExtendRequest{TimeoutMs: 1})
	if err != nil {
		t.Fatal(err)
	}
	<-seen
	problem := answer.ApplicationProblemJSON409
	if problem == nil || problem.Code != api.ProblemCodeCheckpointExpired || problem.Current == nil || *problem.Current != 8 {
		t.Errorf("got %+v", problem)
	}
}

func TestAwkwardNamesAreEscapedInPathsAndQueries(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	c := serving(t, http.StatusNoContent, "application/json", "", seen)
	for key, want := range map[string][2]string{
		"a/b":     {"/checkpoints/7/state/a%2Fb", "/checkpoints/7/entry?key=a%2Fb"},
		"%2F":     {"/checkpoints/7/state/%252F", "/checkpoints/7/entry?key=%252F"},
		"a b&c?d": {"/checkpoints/7/state/a%20b&c%3Fd", "/checkpoints/7/entry?key=a+b%26c%3Fd"},
		"e\u0301": {"/checkpoints/7/state/e%CC%81", "/checkpoints/7/entry?key=e%CC%81"},
	} {
		if _, err := c.DeleteSharedEntryWithResponse(t.Context(), 7, key, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(<-seen); got != "DELETE "+want[0] {
			t.Errorf("%q in a path is %s, want %s", key, got, want[0])
		}
		if _, err := c.DeleteSharedEntryByKeyWithResponse(t.Context(), 7, &api.DeleteSharedEntryByKeyParams{Key: key}); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(<-seen); got != "DELETE "+want[1] {
			t.Errorf("%q in a query is %s, want %s", key, got, want[1])
		}
	}
}

func TestAValueGivenAsAReaderGoesOutAsItIs(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	c := serving(t, http.StatusCreated, "application/json", "", seen)
	if _, err := c.PutSharedEntryWithBodyWithResponse(t.Context(), 7, "k", nil, "application/json", strings.NewReader(`{"b":"<&>","a":1.0}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-seen, `PUT /checkpoints/7/state/k {"b":"<&>","a":1.0}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}
