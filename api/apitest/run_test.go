package apitest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	"github.com/checkpointd/checkpointd/api"
)

func TestFitsFindsWhatTheContractDoesNotDeclare(t *testing.T) {
	t.Parallel()
	document, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatal(err)
	}
	const problem = `{"type":"a","title":"b","status":409,"detail":"c","instance":"d","code":"pinned"}`
	for name, test := range map[string]struct {
		method, path string
		answer       Answer
		says         string // "" fits
	}{
		"a body that fits": {
			http.MethodGet, "/healthz",
			Answer{200, http.Header{"Content-Type": {"application/json"}}, []byte(`{"status":"ok"}`)},
			"",
		},
		"a body that does not": {
			http.MethodGet, "/healthz",
			Answer{200, http.Header{"Content-Type": {"application/json"}}, []byte(`{"status":"good"}`)},
			`"/status"`,
		},
		"another media type": {
			http.MethodGet, "/healthz",
			Answer{200, http.Header{"Content-Type": {"application/problem+json"}}, []byte(`{"status":"ok"}`)},
			"Content-Type",
		},
		"a status that is not declared": {
			http.MethodGet, "/healthz",
			Answer{204, http.Header{}, nil},
			"status is not supported",
		},
		"a problem that fits": {
			http.MethodDelete, "/checkpoints/{id}",
			Answer{409, http.Header{"Content-Type": {"application/problem+json"}}, []byte(problem)},
			"",
		},
		"a problem with another code": {
			http.MethodDelete, "/checkpoints/{id}",
			Answer{409, http.Header{"Content-Type": {"application/problem+json"}}, []byte(strings.Replace(problem, "pinned", "pined", 1))},
			`"/code"`,
		},
		"a header that is missing": {
			http.MethodDelete, "/checkpoints/{id}/state",
			Answer{204, http.Header{}, nil},
			`"ETag"`,
		},
		"a header that does not fit": {
			http.MethodDelete, "/checkpoints/{id}/state",
			Answer{204, http.Header{"Etag": {"7-3"}}, nil},
			`"ETag"`,
		},
		"a header that fits": {
			http.MethodDelete, "/checkpoints/{id}/state",
			Answer{204, http.Header{"Etag": {`"7-3"`}}, nil},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := document.Paths.Value(test.path)
			route := &routers.Route{Spec: document, Path: test.path, PathItem: item, Method: test.method, Operation: item.GetOperation(test.method)}
			request, err := http.NewRequestWithContext(t.Context(), test.method, test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = fits(t, route, request, &test.answer)
			switch {
			case err == nil && test.says != "":
				t.Errorf("fits, want %q", test.says)
			case err != nil && (test.says == "" || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}
