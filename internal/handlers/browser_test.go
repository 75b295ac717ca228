package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/api/apitest"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// A page of another origin can send these without being asked for permission first: forms, and
// scripts that behave like them. Each operation of the contract is tried.
func TestNoOperationTakesASimpleCallOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	examples, err := apitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t)
	f.trigger("")
	before := f.standing()
	changing := 0
	for _, example := range examples {
		method := example.Request.Method
		path := strings.ReplaceAll(example.Request.Path, "example-"+example.OperationID, coordinator.DefaultJob)
		body := string(example.Request.Body)
		if example.Request.Text != nil {
			body = *example.Request.Text
		}
		if method == http.MethodGet || method == http.MethodHead {
			if example.OperationID != "streamEvents" { // it has no end
				f.do(method, path, "")
			}
			continue
		}
		changing++
		for _, mediaType := range []string{"text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
			// By what a browser says of every such call, whatever it carries.
			for _, said := range [][]string{{"Origin", "https://elsewhere.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
				f.do(method, path, body, append(said, "Content-Type", mediaType)...).refused(coordinator.CodeForbidden)
			}
			// And, where there is a body, by its type alone.
			if body != "" && body != "null" {
				f.do(method, path, body, "Content-Type", mediaType).refused(coordinator.CodeUnsupportedMediaType)
			}
		}
	}
	if after := f.standing(); after != before || changing < 15 {
		t.Errorf("%d calls have changed\n%s\nto\n%s", changing, before, after)
	}
}

// A browser lets a page read an answer of another origin, and send what is not simple, where
// these headers say so. Nothing configures them.
func TestNoAnswerOpensItselfToOtherOrigins(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	for _, call := range [][]string{
		{"OPTIONS", path, "Access-Control-Request-Method", "DELETE", "Access-Control-Request-Private-Network", "true"},
		{"OPTIONS", "/checkpoints", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"},
		{"GET", path},
		{"GET", "/limits"},
		{"GET", "/healthz"},
		{"GET", "/metrics"},
		{"GET", "/openapi.yaml"},
		{"GET", "/nowhere"},
		{"POST", "/checkpoints"},
		{"PUT", "/jobs/default"},
	} {
		got := f.do(call[0], call[1], "", append([]string{"Origin", "https://elsewhere.example"}, call[2:]...)...)
		for name := range got.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s answers %s: %s", call[0], call[1], name, got.header.Get(name))
			}
		}
		if got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s lets a browser guess what the answer is", call[0], call[1])
		}
	}
}
