package fault

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request is what the front noted of a request and its answer.
type Request struct {
	// At is when its head had arrived.
	At     time.Time
	Method string
	// Path is as it was sent, with its escapes and without the query.
	Path string
	// Query and Header are shared by all copies: they are for reading.
	Query  url.Values
	Header http.Header
	// Body is the part of the body that was read, at most its first 64 KiB. BodyBytes counts all of
	// it, and BodyDigest is "sha256:" and the hexadecimal digest once it was read to its end.
	Body       []byte
	BodyBytes  int64
	BodyDigest string

	// Fault says in words what the script did to it; empty when it only passed through.
	Fault string

	// Status is that of the answer, 0 as long as or because there was none.
	Status int
	// Answer is the body of the answer as far as it was passed on, at most its first 64 KiB.
	Answer      []byte
	AnswerBytes int64
	// Over tells that nothing more will happen, since End. Whole tells that the answer was passed on to
	// its end; a client that went away may not have read the last of it.
	Over  bool
	End   time.Time
	Whole bool
}

// keep is how much of a body is kept.
const keep = 64 << 10

// Is tells whether it is one of this route.
func (r Request) Is(route Route) bool {
	_, is := route.Match(r.Method, r.Path)
	return is
}

// Var gives what a name in the route stands for, "" when the request is of another route. A name
// that the request's path has not is looked for in its query: a task has both forms.
func (r Request) Var(route Route, name string) string {
	vars, is := route.Match(r.Method, r.Path)
	if value, inPath := vars[name]; inPath || !is {
		return value
	}
	return r.Query.Get(name)
}

// String is a line of a log.
func (r Request) String() string {
	var line strings.Builder
	line.WriteString(r.Method + " " + r.Path)
	if len(r.Query) > 0 {
		line.WriteString("?" + r.Query.Encode())
	}
	switch {
	case r.Status != 0:
		fmt.Fprintf(&line, " → %d", r.Status)
	case r.Over:
		line.WriteString(" → no answer")
	default:
		line.WriteString(" → …")
	}
	if r.Status != 0 && r.Over && !r.Whole {
		fmt.Fprintf(&line, ", broken off after %d bytes", r.AnswerBytes)
	}
	if r.Fault != "" {
		line.WriteString(" (" + r.Fault + ")")
	}
	return line.String()
}

// Requests are in the order in which they arrived.
type Requests []Request

// Of gives those of one of these routes.
func (r Requests) Of(routes ...Route) Requests {
	return r.Where(func(request Request) bool {
		return slices.ContainsFunc(routes, request.Is)
	})
}

// Where gives those that the function says yes to.
func (r Requests) Where(yes func(Request) bool) Requests {
	var found Requests
	for _, request := range r {
		if yes(request) {
			found = append(found, request)
		}
	}
	return found
}

// clone is a copy that the front does not write to. It never writes to query and header.
func (r *Request) clone() Request {
	c := *r
	c.Body, c.Answer = slices.Clip(r.Body), slices.Clip(r.Answer) // what comes later is appended behind them
	return c
}
