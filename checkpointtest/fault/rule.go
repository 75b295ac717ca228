package fault

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// Rule is one line of a script: which requests, how many of them, and what happens to them. It is
// made by [On], and each of its methods gives a changed copy. Without a fault it lets a request
// pass, which parts two faults: On(Upload).CutAfter(), On(Upload), On(Upload).CutAfter().
type Rule struct {
	route       Route
	where       func(Request) bool
	skip, times int

	before func()
	delay  time.Duration

	// name is what the record of a request says.
	name string
	// What of these is set happens.
	answer                  http.HandlerFunc
	retryAfter              time.Duration
	cutBefore, hang, noHead bool
	cutBody, cutAnswer      int64 // -1 for never
	rewrite                 func(*http.Request)
	alter                   func(*http.Response) error
}

// On begins a rule about the next request of this route.
func On(route Route) Rule { return Rule{route: route, times: 1, cutBody: -1, cutAnswer: -1} }

// Times makes it about so many requests instead of one.
func (r Rule) Times(n int) Rule { r.times = n; return r }

// Always makes it about every request from now on, until [Front.Clear].
func (r Rule) Always() Rule { return r.Times(math.MaxInt) }

// After lets so many requests of the route pass before the rule begins.
func (r Rule) After(n int) Rule { r.skip = n; return r }

// Where narrows it down to the requests that the function says yes to; others do not count. The
// request has no body yet. The function must not call the front.
func (r Rule) Where(yes func(Request) bool) Rule { r.where = yes; return r }

// Before runs a function when such a request has come, before anything is done about it, and
// lets the request wait until it returns: the place for what must happen meanwhile, such as an
// abort of the checkpoint whose upload this is. It may run in several goroutines when
// the rule is about several requests.
func (r Rule) Before(f func()) Rule { r.before = f; return r.called("held") }

// Delay lets the request wait for so long before anything is done about it.
func (r Rule) Delay(d time.Duration) Rule {
	r.delay = d
	return r.called("delayed by " + d.String())
}

// Refuse answers with a problem of the contract instead of asking the server: the code is one
// of those in docs/errors.md, and where the same request may work later the answer has
// Retry-After, one second if RetryAfter does not say otherwise. It panics when there is no such code.
func (r Rule) Refuse(code string) Rule {
	kind, known := handlers.Present(coordinator.Code(code))
	if !known {
		panic(fmt.Sprintf("fault: %q is none of the codes of the contract: %v", code, coordinator.Codes()))
	}
	after := r.retryAfter
	if kind.Retryable {
		after = max(after, time.Second)
	}
	r.answer = func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Cache-Control", "no-store")
		if after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
		}
		w.WriteHeader(kind.Status)
		_ = json.NewEncoder(w).Encode(map[string]any{ //nolint:errchkjson // Who is refused may have gone.
			"type": handlers.ErrorDocs + "#" + code, "title": kind.Title, "status": kind.Status, "code": code,
			"detail":   "Refused by a scripted fault: " + request.Method + " " + request.URL.Path,
			"instance": "urn:checkpointd:request:scripted",
		})
	}
	return r.called("refused as " + code)
}

// RetryAfter is how long a refusal asks to wait, in whole seconds, rounded up. It stands before Refuse.
func (r Rule) RetryAfter(d time.Duration) Rule { r.retryAfter = d; return r }

// Garbage answers 200 with a page of HTML, as a proxy or a login page in between does.
func (r Rule) Garbage() Rule {
	r.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!doctype html>\n<title>Please log in</title>\n<p>Please log in."))
	}
	return r.called("answered with a page of HTML")
}

// Answer lets a handler answer in place of the server.
func (r Rule) Answer(handler http.HandlerFunc) Rule {
	r.answer = handler
	return r.called("answered by a handler")
}

// Rewrite changes the request before it is passed on, such as its query. [Front.Requests] has it
// as it came.
func (r Rule) Rewrite(change func(*http.Request)) Rule {
	r.rewrite = change
	return r.called("request rewritten")
}

// Alter changes the server's answer before it is passed on. A body that gets another length
// needs ContentLength -1 and no Content-Length. An error breaks the connection off.
func (r Rule) Alter(change func(*http.Response) error) Rule {
	r.alter = change
	return r.called("answer altered")
}

// CutBefore breaks the connection off before the server hears of the request.
func (r Rule) CutBefore() Rule { r.cutBefore = true; return r.called("cut before it arrived") }

// CutAfter lets the server carry the request out and breaks the connection off in place of an
// answer.
func (r Rule) CutAfter() Rule { r.noHead = true; return r.called("carried out, answer lost") }

// CutBodyAfter breaks off after so many bytes of the request's body; a shorter one arrives whole.
func (r Rule) CutBodyAfter(n int64) Rule {
	r.cutBody = n
	return r.called(fmt.Sprintf("cut after %d bytes of the body", n))
}

// CutAnswerAfter breaks off when the head and so many bytes of the answer's body have been
// passed on; a shorter one arrives whole.
func (r Rule) CutAnswerAfter(n int64) Rule {
	r.cutAnswer = n
	return r.called(fmt.Sprintf("answer cut after %d bytes", n))
}

// Hang takes the request and never answers. It ends when the client goes, or by [Front.Cut] or
// [Front.Down].
func (r Rule) Hang() Rule { r.hang = true; return r.called("left without an answer") }

func (r Rule) called(name string) Rule {
	if r.name != "" {
		name = r.name + ", " + name
	}
	r.name = name
	return r
}
