package handlers

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
	"github.com/checkpointd/checkpointd/internal/load"
)

// Options configure [New]. The zero value is valid.
type Options struct {
	// OnError is told the cause of an answer that hides it, and of a transfer that broke
	// off. It may be called from many goroutines. Defaults to dropping it.
	OnError func(r *http.Request, err error)

	// RequestID names a request in the instance of its problems, as the log does.
	// Defaults to a new random name for each problem.
	RequestID func(r *http.Request) string

	// Ready tells whether the store answers, with the warnings about how it is
	// configured. Defaults to asking the store.
	Ready func(ctx context.Context) ([]coordinator.Warning, error)

	// Caller finds who sent a request, nil for a stranger. It may be called more than once for
	// a request. Defaults to everybody being [doors.Anyone].
	Caller func(r *http.Request) *doors.Caller

	// Hosts tells whether a request with this Host header is meant for this server; others are
	// refused. Defaults to all being meant.
	Hosts func(host string) bool

	// OnAdmitted is told the role that an operation demands when its caller may use it, before
	// anything else is judged. Plain acknowledgements go without. Defaults to dropping it.
	OnAdmitted func(r *http.Request, demanded doors.Role)

	// Load are the bounds of what is taken at once. Defaults to some of its own, with the
	// default limits.
	Load *load.Load

	// Public are the paths among /healthz, /readyz, /metrics, /limits and /openapi.yaml that
	// are served to strangers, too. Defaults to none.
	Public map[string]bool

	// Metrics serves GET /metrics. Defaults to an empty answer.
	Metrics http.Handler

	// Draining tells whether the server finishes what it has begun and takes nothing new:
	// readiness is off then. Defaults to never.
	Draining func() bool

	// Budget is how long the store may take over a small request; a body adds to it.
	// Defaults to 1.5 seconds, so that a request to a server whose store is away is
	// answered within two.
	Budget time.Duration

	// BodyTimeout is how long a JSON body may take to arrive, in addition to what its
	// length takes at 64 KiB a second. Defaults to 30 seconds.
	BodyTimeout time.Duration

	// UploadIdle is how long an upload may pause before it is given up; it must also
	// keep up 512 bytes a second. Defaults to a minute.
	UploadIdle time.Duration

	// RestoreIdle is how long the reader of a restore may take to read 256 KiB before it
	// is given up. Defaults to five minutes.
	RestoreIdle time.Duration

	// Heartbeat is the time between two signs of life in a stream of events. Defaults to 15
	// seconds, which is below the patience of common proxies.
	Heartbeat time.Duration

	// EventsIdle is how long the reader of a stream of events may take to read what was
	// sent before it is dropped. Defaults to ten seconds.
	EventsIdle time.Duration

	// OnDropped is told of each reader that was dropped so, with its job. It may be called
	// from many goroutines. Defaults to dropping it.
	OnDropped func(job string)

	// TempDir is where the key fingerprints of large uploads spill. Defaults to the
	// system's folder for temporary files.
	TempDir string
}

func (o Options) orDefaults(c *coordinator.Coordinator) Options {
	if o.OnError == nil {
		o.OnError = func(*http.Request, error) {}
	}
	if o.OnDropped == nil {
		o.OnDropped = func(string) {}
	}
	if o.RequestID == nil {
		o.RequestID = func(*http.Request) string { return rand.Text() }
	}
	if o.OnAdmitted == nil {
		o.OnAdmitted = func(*http.Request, doors.Role) {}
	}
	if o.Hosts == nil {
		o.Hosts = func(string) bool { return true }
	}
	if o.Caller == nil {
		o.Caller = func(*http.Request) *doors.Caller { return doors.Anyone }
	}
	if o.Load == nil {
		o.Load = load.New(load.DefaultLimits())
	}
	if o.Ready == nil {
		o.Ready = c.Health
	}
	if o.Draining == nil {
		o.Draining = func() bool { return false }
	}
	if o.Metrics == nil {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		})
	}
	for _, field := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.Budget, 1500 * time.Millisecond},
		{&o.BodyTimeout, 30 * time.Second},
		{&o.UploadIdle, time.Minute},
		{&o.RestoreIdle, 5 * time.Minute},
		{&o.Heartbeat, 15 * time.Second},
		{&o.EventsIdle, 10 * time.Second},
	} {
		if *field.value <= 0 {
			*field.value = field.fallback
		}
	}
	return o
}

// server implements the generated strict server interface.
type server struct {
	coordinator *coordinator.Coordinator
	options     Options
	router      chi.Router
	origins     *http.CrossOriginProtection
	// general takes what no door of its own takes.
	general http.Handler
	budgets budgets
}

var _ api.StrictServerInterface = (*server)(nil)

// New makes the handler of the whole API. A caller that puts chi.NewRouteContext() into
// the request's context under chi.RouteCtxKey finds the route pattern in it afterwards.
func New(c *coordinator.Coordinator, options Options) http.Handler {
	s := &server{
		coordinator: c,
		options:     options.orDefaults(c),
		router:      chi.NewRouter(),
		origins:     http.NewCrossOriginProtection(),
	}
	s.router.Use(s.frame)
	s.router.NotFound(s.unrouted)
	s.router.MethodNotAllowed(s.unrouted)
	strict := api.NewStrictHandlerWithOptions(s, []api.StrictMiddlewareFunc{s.gate}, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  s.refuseRequest,
		ResponseErrorHandlerFunc: s.refuse,
	})
	s.general = api.HandlerWithOptions(strict, api.ChiServerOptions{
		BaseRouter:       s.router,
		ErrorHandlerFunc: s.refuseParameter,
	})
	s.budgets.each = s.options.Budget
	return s
}
