package processtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Media types of bodies.
const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
)

// client is used for whole answers. Streams are read with a context of the test.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// answer is what a server said.
type answer struct {
	status int
	header http.Header
	body   string
}

// message is the part of an answer that tests look at, of whatever kind it is.
type message struct {
	CheckpointID      int64     `json:"checkpointId"`
	Status            any       `json:"status"` // a word, or the number of a problem
	Completed         bool      `json:"completed"`
	Deadline          int64     `json:"deadline"`
	EndedAt           int64     `json:"endedAt"`
	AcknowledgedTasks int       `json:"acknowledgedTasks"`
	Duplicate         bool      `json:"duplicate"`
	Digest            string    `json:"digest"`
	Epoch             int64     `json:"epoch"`
	Checkpoint        *message  `json:"checkpoint"`
	Checkpoints       []message `json:"checkpoints"`
	Next              string    `json:"next"`
	Deleted           []int64   `json:"deleted"`
	Skipped           []int64   `json:"skipped"`
	Code              string    `json:"code"`
	Detail            string    `json:"detail"`
	Limit             string    `json:"limit"`
	Current           *int64    `json:"current"`
	Latest            *int64    `json:"latest"`
}

func (a answer) String() string { return fmt.Sprintf("%d %.1000s", a.status, a.body) }

// message decodes the body; the zero value is what is no JSON.
func (a answer) message() message {
	var m message
	_ = json.Unmarshal([]byte(a.body), &m)
	return m
}

// code is the code of a problem, "" for anything else.
func (a answer) code() string {
	if a.header.Get("Content-Type") != "application/problem+json" {
		return ""
	}
	return a.message().Code
}

// request is a call to make. A body without a type is JSON.
type request struct {
	method, url string
	body        io.Reader
	header      map[string]string
}

func (r request) open(ctx context.Context) (*http.Response, error) {
	call, err := http.NewRequestWithContext(ctx, r.method, r.url, r.body)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		call.Header.Set("Content-Type", typeJSON)
	}
	for name, value := range r.header {
		call.Header.Set(name, value)
	}
	return client.Do(call)
}

// send makes a call and reads its whole answer.
func (r request) send(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	response, err := r.open(ctx)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: string(body)}, err
}

// newRequest takes pairs of header names and values. An empty body is none.
func newRequest(method, url, body string, headers ...string) request {
	r := request{method: method, url: url, header: map[string]string{}}
	if body != "" {
		r.body = strings.NewReader(body)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.header[headers[i]] = headers[i+1]
	}
	return r
}

// call makes a call that must be answered.
func (p *process) call(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	got, err := newRequest(method, p.url+path, body, headers...).send(t.Context())
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

// must makes a call that must be answered with this status. It is made again when a busy
// machine kept the store from doing anything in time, as the answer then says.
func (p *process) must(t *testing.T, status int, method, path, body string, headers ...string) answer {
	t.Helper()
	got := p.call(t, method, path, body, headers...)
	for began := time.Now(); status != got.status && got.code() == "store_unavailable" && time.Since(began) < patience; {
		t.Logf("%s %s is made again after %s", method, path, got)
		got = p.call(t, method, path, body, headers...)
	}
	if got.status != status {
		t.Fatalf("%s %s %.200s: want %d, got %s", method, path, body, status, got)
	}
	return got
}

// refused makes a call that must be answered with this status and code.
func (p *process) refused(t *testing.T, status int, code, method, path, body string, headers ...string) answer {
	t.Helper()
	got := p.must(t, status, method, path, body, headers...)
	if got.code() != code {
		t.Fatalf("%s %s %.200s: want %s, got %s", method, path, body, code, got)
	}
	return got
}

// trigger gives the id of a new checkpoint; body is "{}" or says more.
func (p *process) trigger(t *testing.T, body string) int64 {
	t.Helper()
	return p.must(t, http.StatusCreated, "POST", "/checkpoints", body).message().CheckpointID
}

// acknowledge gives the answer to an acknowledgement that must be taken.
func (p *process) acknowledge(t *testing.T, id int64, task string) message {
	t.Helper()
	return p.must(t, http.StatusOK, "POST", at(id, "/acks"), fmt.Sprintf(`{"taskId":%q}`, task)).message()
}

// complete triggers a checkpoint of one task and gives its id when it is completed.
func (p *process) complete(t *testing.T) int64 {
	t.Helper()
	id := p.trigger(t, `{"requiredTaskAcks":1}`)
	if got := p.acknowledge(t, id, "task-1"); got.Status != "completed" {
		t.Fatalf("checkpoint %d is %v after its only acknowledgement", id, got.Status)
	}
	return id
}

// at is a path below a checkpoint.
func at(id int64, path string) string { return fmt.Sprintf("/checkpoints/%d%s", id, path) }

// same fails when two texts differ, and shows where.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	place := 0
	for place < min(len(got), len(want)) && got[place] == want[place] {
		place++
	}
	from := max(0, place-40)
	t.Errorf("%s differs at byte %d of %d (want %d bytes)\ngot  …%.200q\nwant …%.200q", what, place, len(got), len(want), got[from:], want[from:])
}

// eventually polls a condition that no event announces.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-t.Context().Done():
			t.Fatalf("the test ended before: %s", what)
		}
	}
}
