// Package operations is the table of the contract's operations: what a request of each may
// have and what it takes, as api/openapi.yaml says. Nothing of it is written by hand, so a
// change of the contract is a change of the server.
package operations

import (
	"slices"
	"strings"

	"github.com/checkpointd/checkpointd/internal/doors"
	"github.com/checkpointd/checkpointd/internal/load"
)

//go:generate go run ./generate

// Operation is one operation of the contract.
type Operation struct {
	// Name is its method in the generated server interface, as "TriggerCheckpoint".
	Name string
	// Method and Path are where it is; parameters of the path stand in braces.
	Method, Path string

	// Role is what a token must be allowed to. TaskRole suffices in its place where the body
	// names a task; "" is none.
	Role, TaskRole doors.Role
	// EveryJob tells that the answer is about all jobs, so a caller that is bound to some
	// may not have it.
	EveryJob bool
	// MayBePublic tells that it may be open to strangers.
	MayBePublic bool

	// Class is the bound that it falls under.
	Class load.Class
	// Streams tells that its body or its answer is a stream: the handler reads and writes it
	// itself, and the budget of a small request is not for the whole.
	Streams bool
	// Long tells that it takes several steps in the store, which has a larger budget for it.
	Long bool

	// Consumes and Produces are the media types of its body and of its success, sorted; none
	// where there is no body.
	Consumes, Produces []string
	// BodyLimit is how many bytes its JSON body may have, BodyLimitName the limit's name in
	// GET /limits.
	BodyLimit     int64
	BodyLimitName string

	// Query are the parameters of its query, in the order of the contract.
	Query []Parameter
	// PathParameters are the names of those of its path, in their order.
	PathParameters []string
	// Headers are the headers that it reads as parameters, in the order of the contract.
	Headers []string
}

// Type is the type of a parameter.
type Type string

// The types of parameters.
const (
	Text    Type = "string"
	Integer Type = "integer"
	Boolean Type = "boolean"
)

// Parameter is one parameter of a query.
type Parameter struct {
	Name string
	// Type is that of one value.
	Type Type
	// Repeated tells that it may be given several times.
	Repeated bool
	// Required tells that a request without it is refused.
	Required bool
	// Enum are the values there are, nil where any is good.
	Enum []string
	// Minimum and Maximum are the bounds of an integer.
	Minimum, Maximum int64
}

// Reads tells whether the operation reads a header of this name.
func (o *Operation) Reads(header string) bool { return slices.Contains(o.Headers, header) }

// Has tells whether the query may have a parameter of this name.
func (o *Operation) Has(parameter string) bool {
	return slices.ContainsFunc(o.Query, func(p Parameter) bool { return p.Name == parameter })
}

// All lists every operation, by path and method.
func All() []*Operation { return table[:] }

// Named is the operation with the method of this name in the generated server interface, nil
// for none.
func Named(name string) *Operation { return named[name] }

var named = func() map[string]*Operation {
	all := map[string]*Operation{}
	for _, o := range table {
		all[o.Name] = o
	}
	return all
}()

// Route are the operations of one path, by method; a path with HEAD has that of GET where the
// contract has no HEAD of its own.
type Route struct {
	segments []string
	methods  map[string]*Operation
	allowed  []string
}

// Operation is the operation of a method, nil where the path has none.
func (r *Route) Operation(method string) *Operation { return r.methods[method] }

// Allowed lists the methods of the path, as an Allow header has them.
func (r *Route) Allowed() []string { return r.allowed }

// Find finds the route of an escaped path, nil where there is nothing. A name in the contract's
// path comes before a parameter: /checkpoints/latest is no checkpoint with the id "latest",
// whatever the method.
func Find(path string) *Route {
	segments := strings.Split(path, "/")
	for _, route := range routes {
		if route.matches(segments) {
			return route
		}
	}
	return nil
}

func (r *Route) matches(segments []string) bool {
	if len(segments) != len(r.segments) {
		return false
	}
	for i, want := range r.segments {
		if isParameter(want) && segments[i] != "" {
			continue
		}
		if want != segments[i] {
			return false
		}
	}
	return true
}

func isParameter(segment string) bool { return strings.HasPrefix(segment, "{") }

// methodOrder is the order of methods in an Allow header.
var methodOrder = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// routes has those with names where others have parameters first.
var routes = func() []*Route {
	byPath := map[string]*Route{}
	var all []*Route
	for _, o := range table {
		route := byPath[o.Path]
		if route == nil {
			route = &Route{segments: strings.Split(o.Path, "/"), methods: map[string]*Operation{}}
			byPath[o.Path] = route
			all = append(all, route)
		}
		route.methods[o.Method] = o
	}
	for _, route := range all {
		if get, has := route.methods["GET"]; has && route.methods["HEAD"] == nil {
			route.methods["HEAD"] = get
		}
		for _, method := range methodOrder {
			if route.methods[method] != nil {
				route.allowed = append(route.allowed, method)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Route) int { return slices.Compare(parametersIn(a.segments), parametersIn(b.segments)) })
	return all
}()

// parametersIn has 1 for each parameter and 0 for each name, so that names sort first.
func parametersIn(segments []string) []int {
	kinds := make([]int, len(segments))
	for i, segment := range segments {
		if isParameter(segment) {
			kinds[i] = 1
		}
	}
	return kinds
}
