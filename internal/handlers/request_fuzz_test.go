package handlers_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/api/apitest"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
	"github.com/checkpointd/checkpointd/internal/store/filestore"
)

// FuzzRequests sends whole requests through every door: paths, queries, cursors, headers and
// bodies. Whatever comes, the server does not fail, and what it refuses is a problem.
func FuzzRequests(f *testing.F) {
	store, err := filestore.Open(f.TempDir(), filestore.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = store.Close() })
	var mu sync.Mutex
	var cause error
	handler := handlers.New(coordinator.New(store, coordinator.Options{}), handlers.Options{
		Budget: time.Minute, // which a busy machine does not exceed
		OnError: func(_ *http.Request, err error) {
			mu.Lock()
			defer mu.Unlock()
			cause = err
		},
	})
	// The requests of the contract's examples, and wrong ones made of them.
	examples, err := apitest.Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, example := range examples {
		for _, step := range append(example.Setup, example.Step) {
			if r, err := step.Request.HTTP(f.Context(), "http://x"); err == nil && !unending(r) {
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
	}
	malformed, err := apitest.NewMalformed(1)
	if err != nil {
		f.Fatal(err)
	}
	malformed.Values = map[string][]string{"job": {"example-restoreCheckpoint"}, "id": {"0", "1"}}
	for range 3 * malformed.Operations() {
		if wire := malformed.Next(); len(wire.Bytes) < 1000 {
			f.Add(wire.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil || unending(r) {
			return
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code < http.StatusBadRequest {
			return
		}
		if w.Code >= http.StatusInternalServerError {
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("%q: %d %s; %v", raw, w.Code, w.Body, cause)
		}
		var problem api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Status != w.Code || !problem.Code.Valid() {
			t.Fatalf("%q: %d %s", raw, w.Code, w.Body)
		}
	})
}

// unending tells of requests that are answered late, or with a stream.
func unending(r *http.Request) bool {
	return r.URL.Query().Has("wait") || r.URL.Path == "/events"
}
