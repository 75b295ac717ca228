package selftest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// sends are the uploads and acknowledgements of a checkpoint.
func sends(requests fault.Requests, id int64) fault.Requests {
	return requests.Of(fault.Upload, fault.Ack).Where(func(r fault.Request) bool { return checkpointOf(r) == fmt.Sprint(id) })
}

// checkpointOf is the id in a message's path.
func checkpointOf(r fault.Request) string {
	if id := r.Var(fault.Upload, "id"); id != "" {
		return id
	}
	return r.Var(fault.Ack, "id")
}

// beginnings are what workers send at the start of a life.
func beginnings(requests fault.Requests) fault.Requests {
	return requests.Where(func(r fault.Request) bool {
		return r.Is("GET /checkpoints/latest") || r.Is("GET /checkpoints/latest/{rest...}") || r.Is(fault.Restore) || r.Is(fault.Snapshot) ||
			r.Is(fault.Recover) || r.Is(fault.Job)
	})
}

// asksForState tells whether a request is about what there is to restore, or brings it.
func asksForState(r fault.Request) bool {
	return len(beginnings(fault.Requests{r})) > 0 && !r.Is(fault.Job) || r.Is(fault.Checkpoint) || r.Is(fault.List) && !forWork(r)
}

// restores are what brings a state back.
func restores(requests fault.Requests) fault.Requests {
	return requests.Of(fault.Restore, fault.Snapshot)
}

// brought tells whether a request brought the rest of a restore, from the server itself.
func brought(r fault.Request) bool {
	return r.Whole && r.Fault == "" && (r.Status == http.StatusOK || r.Status == http.StatusPartialContent)
}

// problemCode is the code of a refusal, "" for any other answer.
func problemCode(r fault.Request) string {
	var problem struct {
		Code string `json:"code"`
	}
	if r.Status < http.StatusBadRequest || json.Unmarshal(r.Answer, &problem) != nil {
		return ""
	}
	return problem.Code
}

// sign is what a message says of the life that sent it.
type sign struct {
	epoch, attempt *int64
	// unread tells that the message is too long to say.
	unread bool
}

// signOf reads epoch and attempt from an upload's query, or from an acknowledgement's body.
func signOf(r fault.Request) sign {
	if r.Is(fault.Ack) {
		var body struct {
			Epoch   *int64 `json:"epoch"`
			Attempt *int64 `json:"attempt"`
			Acks    []struct {
				Epoch   *int64 `json:"epoch"`
				Attempt *int64 `json:"attempt"`
			} `json:"acks"`
		}
		if r.BodyBytes > int64(len(r.Body)) || json.Unmarshal(r.Body, &body) != nil {
			return sign{unread: true}
		}
		if len(body.Acks) > 0 {
			return sign{epoch: body.Acks[0].Epoch, attempt: body.Acks[0].Attempt}
		}
		return sign{epoch: body.Epoch, attempt: body.Attempt}
	}
	return sign{epoch: number(r.Query.Get("epoch")), attempt: number(r.Query.Get("attempt"))}
}

func number(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// acknowledges tells whether a message counts, and does not only bring a part.
func acknowledges(r fault.Request) bool { return r.Is(fault.Ack) || r.Query.Get("ack") == "true" }

// signs notes what the worker's messages say of their life.
func (p *play) signs() {
	for _, request := range p.seen().Of(fault.Upload, fault.Ack) {
		if request.BodyDigest == "" { // it was not read to its end
			continue
		}
		s := signOf(request)
		p.epoch = p.epoch || s.epoch != nil || s.unread
		if s.attempt != nil && *s.attempt > 0 {
			p.attempted, p.attempt = true, *s.attempt
		}
	}
}

// malformed notes requests that the contract refuses whatever happens.
func (p *play) malformed() {
	for _, request := range p.seen() {
		if request.Fault != "" {
			continue
		}
		code := problemCode(request)
		switch code {
		case "invalid_request", "invalid_parameter", "invalid_json", "forbidden", "not_found", "job_not_found", "checkpoint_not_found",
			"method_not_allowed", "not_acceptable", "too_large", "unsupported_media_type", "idempotency_key_reused", "limit_exceeded":
		default:
			continue
		}
		var problem struct {
			Detail string `json:"detail"`
			Errors []struct {
				Pointer, Parameter, Detail string
				Line                       int64
			} `json:"errors"`
		}
		_ = json.Unmarshal(request.Answer, &problem) // it was read for its code before
		var what strings.Builder
		fmt.Fprintf(&what, "It sent a request that is refused as %s: %s %s. %s", code, request.Method, request.Path, problem.Detail)
		for _, place := range problem.Errors {
			if place.Line > 0 {
				fmt.Fprintf(&what, " Line %d:", place.Line)
			}
			what.WriteString(" " + place.Pointer + place.Parameter + " " + place.Detail)
		}
		p.wrong(what.String(), "What is refused is not stored.", "Correct the request: docs/errors.md says what "+code+" asks of you, api/openapi.yaml has an example of each call.")
		return
	}
}
