package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is a refusal by the server (RFC 9457).
type Problem struct {
	// Code is empty when something other than checkpointd answered, such as a proxy.
	Code Code `json:"code"`
	// Status is the HTTP status, 400 to 599.
	Status int `json:"status"`
	// Detail says what happened and what to do next.
	Detail string `json:"detail"`
	// Instance names the request; the server's log has it, too.
	Instance string `json:"instance"`
	// Faults are the wrong places of a malformed request.
	Faults []Fault `json:"errors"`
	// CheckpointID is the one that is gone, with CodeIdempotencyTargetDeleted, or damaged, with CodeSnapshotDamaged;
	// nil with others.
	CheckpointID *int64 `json:"checkpointId"`
	// Limit names what was hit in GET /limits, where a limit is the cause.
	Limit string `json:"limit"`
	// RetryAfter is how long the server asks to wait; 0 when it does not say.
	RetryAfter time.Duration `json:"-"`
}

// Fault is a wrong place of a request.
type Fault struct {
	Parameter string `json:"parameter"`
	Pointer   string `json:"pointer"`
	// Line of an upload, from 1; 0 elsewhere.
	Line   int64  `json:"line"`
	Detail string `json:"detail"`
}

// Error gives code, status and detail.
func (p *Problem) Error() string {
	var text strings.Builder
	text.WriteString("checkpointd: ")
	if p.Code == "" {
		fmt.Fprintf(&text, "status %d", p.Status)
	} else {
		fmt.Fprintf(&text, "%s (%d)", p.Code, p.Status)
	}
	if p.Detail != "" {
		text.WriteString(": " + p.Detail)
	}
	for _, fault := range p.Faults {
		text.WriteString("; ")
		if fault.Line > 0 {
			fmt.Fprintf(&text, "line %d ", fault.Line)
		}
		text.WriteString(strings.TrimSpace(fault.Parameter + fault.Pointer + " " + fault.Detail))
	}
	return text.String()
}

// Is finds a problem by its [Code].
func (p *Problem) Is(target error) bool {
	code, is := target.(Code)
	return is && p.Code == code
}

// problemTextMax is how much of a refusal is read; those of the server are far shorter.
const problemTextMax = 64 << 10

// problemOf reads a refusal.
func problemOf(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, problemTextMax)) // what there is says enough
	p := &Problem{}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if media != "application/problem+json" || json.Unmarshal(text, p) != nil {
		*p = Problem{Detail: firstLine(string(text))}
	}
	p.Status = response.StatusCode
	if seconds, err := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 64); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(min(seconds, math.MaxInt64/int64(time.Second))) * time.Second
	}
	return p
}

// firstLine shortens what something else than checkpointd says, often a page of HTML.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clip(line, 200)
}

// transient tells that repeating the same call may help: the server or its store was away, or
// the answer got lost.
func transient(err error) bool {
	p, is := errors.AsType[*Problem](err)
	if !is {
		return true // nothing was answered
	}
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusInsufficientStorage:
		return false
	}
	return p.Status >= http.StatusInternalServerError
}

// foreign tells a refusal that is not checkpointd's, such as a proxy's page that a body is too large: it has no word
// about the checkpoint.
func foreign(err error) bool {
	p, is := errors.AsType[*Problem](err)
	return is && p.Code == ""
}

// retryAfterMax keeps a worker from sleeping for an hour because a proxy said so.
const retryAfterMax = 30 * time.Second

// retryAfter is how long the server asked to wait.
func retryAfter(err error) time.Duration {
	if p, is := errors.AsType[*Problem](err); is {
		return min(p.RetryAfter, retryAfterMax)
	}
	return 0
}

// isAny tells whether err is a problem with one of these codes.
func isAny(err error, codes ...Code) bool {
	for _, code := range codes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
