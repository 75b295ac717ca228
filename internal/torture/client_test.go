package torture

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// certainty is how much a client knows of what came of a call.
type certainty string

const (
	answered  certainty = "answered"
	unknown   certainty = "unknown"
	unchanged certainty = "nothing changed" // by promise, or since nothing was sent
)

// door is an address that clients call.
type door struct {
	url string

	mu      sync.Mutex
	shunned time.Time // nobody tries before, because the last call broke off
	closed  bool      // nobody is behind it
}

func (d *door) set(closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = closed
}

func (d *door) shun() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shunned = time.Now().Add(200 * time.Millisecond)
}

func (d *door) open() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.closed && time.Now().After(d.shunned)
}

// patience is how long a client waits for an answer. It is longer than a server takes to
// give up on its store, so that most answers of a server in trouble are heard.
const patience = 3 * time.Second

// newHTTPClient keeps connections, so that half-open ones are used again.
func newHTTPClient() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

// caller makes the calls of one history.
type caller struct {
	http  *http.Client
	doors []*door
	job   string

	mu    sync.Mutex
	parts map[string]string // digest → value of every part that was ever sent
}

func newCaller(client *http.Client, doors []*door, job string) *caller {
	return &caller{http: client, doors: doors, job: job, parts: map[string]string{digest(""): ""}}
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// request is how a call looks in HTTP.
func (c *caller) request(in input) (method, path, body string, header map[string]string) {
	header = map[string]string{}
	at := fmt.Sprintf("/checkpoints/%d", in.ID)
	query := "?job=" + c.job
	entry := at + "/state/" + in.Key + query
	value := fmt.Sprintf("%q", in.Value)
	if in.Name != "" {
		header["Idempotency-Key"] = in.Name
	}
	force := query
	if in.Force {
		force += "&force=true"
	}
	switch in.Verb {
	case trigger:
		return "POST", "/checkpoints" + query, fmt.Sprintf(`{"requiredTaskAcks":%d,"timeoutMs":%d}`, required, in.TimeoutMs), header
	case recovery:
		return "POST", "/checkpoints/recover" + query, "{}", header
	case ack:
		members := fmt.Sprintf(`{"taskId":%q`, in.Task)
		if in.Value != "" {
			members += fmt.Sprintf(`,"state":{"first":%[1]q,"second":%[1]q}`, in.Value)
		}
		if in.Epoch >= 0 {
			members += fmt.Sprintf(`,"epoch":%d`, in.Epoch)
		}
		return "POST", at + "/acks" + query, members + "}", header
	case upload:
		header["Content-Type"] = "application/x-ndjson"
		if in.Epoch >= 0 {
			query += fmt.Sprintf("&epoch=%d", in.Epoch)
		}
		return "PUT", at + "/tasks/" + in.Task + "/state" + query, part(in.Task, in.Value), header
	case complete:
		return "POST", at + "/complete" + force, "{}", header
	case abort:
		return "POST", at + "/abort" + query, "{}", header
	case extend:
		return "POST", at + "/extend" + query, fmt.Sprintf(`{"timeoutMs":%d}`, in.TimeoutMs), header
	case remove:
		return "DELETE", at + force, "", header
	case pin, unpin:
		return "PATCH", at + query, fmt.Sprintf(`{"pinned":%t}`, in.Verb == pin), header
	case cleanup:
		return "POST", "/checkpoints/cleanup" + query, fmt.Sprintf(`{"keep":%d}`, in.Keep), header
	case create:
		header["If-None-Match"] = "*"
		return "PUT", entry, value, header
	case put:
		return "PUT", entry, value, header
	case patch:
		return "PATCH", at + "/state" + query, fmt.Sprintf(`{"state":{%q:%[3]s,%[2]q:%[3]s}}`, keys[0], keys[1], value), header
	case erase:
		return "DELETE", entry, "", header
	case get:
		return "GET", at + query, "", header
	case latest:
		return "GET", "/checkpoints/latest" + query, "", header
	case list:
		return "GET", "/checkpoints" + query + "&limit=1000", "", header
	case shared:
		return "GET", at + "/state" + query, "", header
	default: // restore
		if in.ID == newest {
			at = "/checkpoints/latest"
		}
		return "GET", at + "/restore" + query, "", header
	}
}

// do makes a call at one of the doors.
func (c *caller) do(ctx context.Context, r *rand.Rand, in input) (output, certainty) {
	if in.Value != "" && (in.Verb == ack || in.Verb == upload) {
		c.mu.Lock()
		c.parts[digest(part(in.Task, in.Value))] = in.Value
		c.mu.Unlock()
	}
	at := c.pick(ctx, r)
	method, path, body, header := c.request(in)
	heard, err := c.send(ctx, method, at.url+path, body, header)
	if err != nil {
		at.shun()
		if dial, ok := errors.AsType[*net.OpError](err); !in.Verb.changes() || ok && dial.Op == "dial" {
			return output{}, unchanged
		}
		return output{Unknown: true}, unknown
	}
	return c.read(in, heard)
}

// pick waits for an open door, for as long as it would for an answer, and then takes any.
func (c *caller) pick(ctx context.Context, r *rand.Rand) *door {
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < patience; {
		open := slices.DeleteFunc(slices.Clone(c.doors), func(d *door) bool { return !d.open() })
		if len(open) > 0 {
			return open[r.IntN(len(open))]
		}
		rest(ctx, 20*time.Millisecond)
	}
	return c.doors[r.IntN(len(c.doors))]
}

// reply is an HTTP answer that arrived whole.
type reply struct {
	status int
	header http.Header
	body   string
}

func (c *caller) send(ctx context.Context, method, url, body string, header map[string]string) (reply, error) {
	call, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		// Of a body that is just a reader net/http makes no second try behind our back.
		call.Body, call.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		call.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		call.Header.Set(name, value)
	}
	response, err := c.http.Do(call)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text)}, err
}

// promises are the codes of answers that say that nothing was changed.
var promises = []string{"store_unavailable", "overloaded", "shutting_down", "too_many_requests"}

// doubts are the codes of answers that leave open whether it will turn out to have happened.
var doubts = []string{"outcome_unknown", "not_replicated"}

// answer has the members of all answers that the model speaks of.
type answer struct {
	CheckpointID      int64    `json:"checkpointId"`
	Epoch             int64    `json:"epoch"`
	Status            any      `json:"status"`
	AcknowledgedTasks int      `json:"acknowledgedTasks"`
	Duplicate         bool     `json:"duplicate"`
	Pinned            bool     `json:"pinned"`
	Checkpoint        *answer  `json:"checkpoint"`
	Checkpoints       []answer `json:"checkpoints"`
	Acks              []struct {
		TaskID string `json:"taskId"`
		Digest string `json:"digest"`
	} `json:"acks"`
	State   map[string]string `json:"state"`
	Deleted []int64           `json:"deleted"`
	Skipped []int64           `json:"skipped"`
	Kept    int               `json:"kept"`
	Code    string            `json:"code"`
}

// read makes of an HTTP answer what the model knows.
func (c *caller) read(in input, heard reply) (output, certainty) {
	var a answer
	strange := refused(fmt.Sprintf("%d %.100q", heard.status, heard.body))
	if in.Verb != restore || heard.status >= http.StatusBadRequest {
		if err := json.Unmarshal([]byte(heard.body), &a); err != nil && heard.body != "" {
			return strange, answered
		}
	}
	switch {
	case slices.Contains(promises, a.Code):
		return output{}, unchanged
	case slices.Contains(doubts, a.Code) && in.Verb.changes():
		return output{Unknown: true}, unknown
	case heard.status >= http.StatusBadRequest && a.Code != "":
		return output{Code: a.Code, ID: a.CheckpointID}, answered // an id is with what a key stood for
	case heard.status >= http.StatusMultipleChoices:
		return strange, answered
	}
	status, _ := a.Status.(string)
	out := output{ID: a.CheckpointID, Epoch: a.Epoch, Status: status, Acks: a.AcknowledgedTasks}
	switch in.Verb {
	case trigger:
		out.Again = heard.status == http.StatusOK
	case ack:
		out.Again = a.Duplicate
	case recovery:
		out = output{ID: newest, Epoch: a.Epoch}
		if a.Checkpoint != nil {
			out.ID = a.Checkpoint.CheckpointID
		}
	case upload, remove, patch, erase:
		out = output{}
	case put, create:
		out = output{Again: heard.status == http.StatusNoContent}
	case cleanup:
		out = output{Text: cleaned(a.Deleted, a.Skipped, a.Kept)}
	case list:
		out.Text = rows(a.Checkpoints)
	case get:
		out.Text = c.receipts(a)
	case shared:
		state := cut{}
		for key, value := range a.State {
			state.shared = with(state.shared, key, value)
		}
		out.ID, out.Text = in.ID, state.document()
	case restore:
		out = output{Text: heard.body}
		if _, err := fmt.Sscan(heard.header.Get("Checkpoint-Id"), &out.ID); err != nil {
			return strange, answered
		}
	default: // a checkpoint
	}
	return out, answered
}

func rows(checkpoints []answer) string {
	var s strings.Builder
	for _, a := range checkpoints {
		fmt.Fprintf(&s, "%d:%d:%v:%d ", a.CheckpointID, a.Epoch, a.Status, a.AcknowledgedTasks)
	}
	return s.String()
}

// receipts names parts by what was sent, and what nobody has sent by its digest.
func (c *caller) receipts(a answer) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := cut{pinned: a.Pinned}
	for _, got := range a.Acks {
		value, sent := c.parts[got.Digest]
		if !sent {
			value = got.Digest
		}
		seen.acks = with(seen.acks, got.TaskID, value)
	}
	return seen.receipts()
}
