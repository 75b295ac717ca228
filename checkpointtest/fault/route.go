package fault

import (
	"net/url"
	"strings"
)

// Route is a method and a path: "PUT /checkpoints/{id}/tasks/{taskId}/state". A name in braces
// stands for one segment, whatever is in it, so that /checkpoints/{id} is about
// /checkpoints/latest, too; {name...} at the end stands for the rest. Without a method it is about all
// of them. The query plays no part. Several paths with " | " between them are one route: its
// names are those of the path that the request has.
type Route string

// The routes that workers use.
const (
	Any Route = "/{rest...}"

	List       Route = "GET /checkpoints"
	Trigger    Route = "POST /checkpoints"
	Recover    Route = "POST /checkpoints/recover"
	Latest     Route = "GET /checkpoints/latest"
	Checkpoint Route = "GET /checkpoints/{id}"
	Task       Route = "GET /checkpoints/{id}/tasks/{taskId} | /checkpoints/{id}/task"
	Upload     Route = "PUT /checkpoints/{id}/tasks/{taskId}/state | /checkpoints/{id}/task/state"
	Ack        Route = "POST /checkpoints/{id}/acks"
	Abort      Route = "POST /checkpoints/{id}/abort"
	Extend     Route = "POST /checkpoints/{id}/extend"
	Restore    Route = "GET /checkpoints/{id}/restore"
	Snapshot   Route = "GET /checkpoints/{id}/snapshot"
	Events     Route = "GET /events"
	Job        Route = "GET /jobs/{job}"
)

// Match tells whether the route is about such a request, and gives what its names stand for,
// unescaped. The path is as it was sent, with its escapes.
func (r Route) Match(method, escapedPath string) (vars map[string]string, ok bool) {
	wanted, pattern, found := strings.Cut(string(r), " ")
	if !found {
		wanted, pattern = method, string(r)
	}
	if wanted != method {
		return nil, false
	}
	for one := range strings.SplitSeq(pattern, " | ") {
		if vars, ok := matchPath(one, escapedPath); ok {
			return vars, true
		}
	}
	return nil, false
}

func matchPath(pattern, escapedPath string) (vars map[string]string, ok bool) {
	vars = map[string]string{}
	path := strings.Split(escapedPath, "/")
	for i, want := range strings.Split(pattern, "/") {
		name, variable := strings.CutPrefix(want, "{")
		name = strings.TrimSuffix(name, "}")
		if rest, all := strings.CutSuffix(name, "..."); variable && all && i < len(path) {
			vars[rest] = unescaped(strings.Join(path[i:], "/"))
			return vars, true
		}
		switch {
		case i >= len(path):
			return nil, false
		case variable && path[i] != "":
			vars[name] = unescaped(path[i])
		case unescaped(path[i]) != want:
			return nil, false
		}
	}
	return vars, len(path) == strings.Count(pattern, "/")+1
}

// unescaped leaves alone what has no valid escapes: the server will refuse it.
func unescaped(segment string) string {
	if plain, err := url.PathUnescape(segment); err == nil {
		return plain
	}
	return segment
}
