package server

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/rs/zerolog"
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

// observeHTTP gives each request an id, counts it by route pattern, and logs it.
func observeHTTP(log zerolog.Logger, metrics *metrics, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id := r.Header.Get(requestIDHeader)
		if !visibleASCII(id) {
			id = rand.Text()
		}
		w.Header().Set(requestIDHeader, id)
		// chi fills in the route context that it finds, so the pattern can be read here,
		// outside of it, after the request.
		route := chi.NewRouteContext()
		ctx := context.WithValue(r.Context(), requestIDKey{}, id)
		r = r.WithContext(context.WithValue(ctx, chi.RouteCtxKey, route))
		wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		metrics.inFlight.Inc()
		broken := true
		defer func() {
			metrics.inFlight.Dec()
			took := time.Since(began)
			pattern := route.RoutePattern()
			if pattern == "" {
				pattern = "unmatched"
			}
			status := wrapped.Status()
			if status == 0 {
				status = http.StatusOK
			}
			metrics.request(r.Method, pattern, status, took)
			level := zerolog.InfoLevel
			if status >= http.StatusInternalServerError || broken {
				level = zerolog.WarnLevel
			}
			log.WithLevel(level).
				Str("requestId", id).
				Str("method", r.Method).
				Str("route", pattern).
				Str("path", r.URL.EscapedPath()).
				Str("job", r.URL.Query().Get("job")).
				Int("status", status).
				Int("bytes", wrapped.BytesWritten()).
				Dur("ms", took).
				Bool("brokenOff", broken).
				Str("remote", r.RemoteAddr).
				Msg("request")
		}()
		next.ServeHTTP(wrapped, r)
		broken = false // not reached when a handler breaks the connection off by panicking
	})
}

func visibleASCII(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}
