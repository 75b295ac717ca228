package server

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/doors"
)

// requestIDHeader carries the id that ties an answer to its lines in the log. A
// caller's own id is kept, so that it can be followed through several services.
const requestIDHeader = "X-Request-Id"

type requestIDKey struct{}

// requestID gives the id of a request that came through observeHTTP.
func requestID(r *http.Request) string {
	id, _ := r.Context().Value(requestIDKey{}).(string)
	return id
}

// slowRequest is from how long on a success is worth its line in the log.
const slowRequest = time.Second

// observeHTTP gives each request an id, counts it by route pattern, and logs it.
func observeHTTP(log zerolog.Logger, metrics *metrics, caller func(*http.Request) *doors.Caller, next http.Handler) http.Handler {
	ids := requestIDs{prefix: rand.Text()[:12] + "-"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id := r.Header.Get(requestIDHeader)
		if !visibleASCII(id) {
			id = ids.next()
		}
		w.Header()[requestIDHeader] = []string{id}
		o := &observation{ResponseWriter: w, Context: r.Context(), id: id, caller: caller(r), broken: true}
		r = r.WithContext(o)
		metrics.inFlight.Inc()
		defer func() {
			metrics.inFlight.Dec()
			o.end(log, metrics, r, time.Since(began))
		}()
		next.ServeHTTP(o, r)
		o.broken = false // not reached when a handler breaks the connection off by panicking
	})
}

// end counts a request and logs it. A success that was quick leaves its line to the level
// debug: a fleet's acknowledgements would be nothing but lines, and the metrics have them.
func (o *observation) end(log zerolog.Logger, metrics *metrics, r *http.Request, took time.Duration) {
	pattern := o.route.RoutePattern()
	if pattern == "" {
		pattern = "unmatched"
	}
	status := o.Status()
	if status == 0 {
		status = http.StatusOK
	}
	metrics.request(r.Method, pattern, status, took)
	level := zerolog.InfoLevel
	switch {
	case status >= http.StatusInternalServerError || o.broken:
		level = zerolog.WarnLevel
	case status < http.StatusBadRequest && took < slowRequest:
		level = zerolog.DebugLevel
	}
	named := o.caller != nil && o.caller.Name != ""
	if level == zerolog.DebugLevel && named && o.changes() {
		level = zerolog.InfoLevel
	}
	line := log.WithLevel(level)
	if !line.Enabled() {
		return
	}
	if named {
		line.Str("token", o.caller.Name)
	}
	line.Str("requestId", o.id).
		Str("method", r.Method).
		Str("route", pattern).
		Str("path", r.URL.EscapedPath()).
		Str("job", r.URL.Query().Get("job")).
		Int("status", status).
		Int64("bytes", o.bytes).
		Dur("ms", took).
		Bool("brokenOff", o.broken).
		Str("remote", r.RemoteAddr).
		Msg("request")
}

// requestIDs makes ids that are as good as unique among all servers, and cheap.
type requestIDs struct {
	prefix string
	count  atomic.Uint64
}

func (i *requestIDs) next() string {
	id := make([]byte, 0, 32)
	return string(strconv.AppendUint(append(id, i.prefix...), i.count.Add(1), 36))
}

func visibleASCII(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}
