package apitest

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/checkpointd/checkpointd/api"
)

// Run executes every example of the contract against the server at base (a URL without
// a trailing slash), whose store must not know the examples' jobs yet. Each answer must
// be what its example promises and must fit the contract: a status, headers and a body
// that the operation declares.
func Run(t *testing.T, base string) {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatalf("load the contract: %v", err)
	}
	examples, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	// The group ends when its parallel subtests have: the caller may stop the server then.
	t.Run("examples of the contract", func(t *testing.T) {
		for _, example := range examples {
			t.Run(example.OperationID, func(t *testing.T) {
				t.Parallel()
				run(t, client, base, document, &example)
			})
		}
	})
}

func run(t *testing.T, client *http.Client, base string, document *openapi3.T, example *Example) {
	t.Helper()
	for i, step := range example.Setup {
		_, answer := send(t, client, base, &step)
		if err := step.Response.Check(answer); err != nil {
			t.Fatalf("setup step %d, %s %s: %v", i, step.Request.Method, step.Request.Path, err)
		}
	}
	request, answer := send(t, client, base, &example.Step)
	if err := example.Response.Check(answer); err != nil {
		t.Errorf("%s %s: %v", example.Request.Method, example.Request.Path, err)
	}
	item := document.Paths.Value(example.Path)
	route := &routers.Route{
		Spec: document, Path: example.Path, PathItem: item,
		Method: example.Method, Operation: item.GetOperation(example.Method),
	}
	if err := fits(t, route, request, answer); err != nil {
		t.Errorf("the answer does not fit the contract: %v", err)
	}
}

// patience bounds a stream that never says what its example promises.
const patience = 30 * time.Second

func send(t *testing.T, client *http.Client, base string, step *Step) (*http.Request, *Answer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := step.Request.HTTP(ctx, base)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := Do(client, request, step.Response.Until)
	if err != nil {
		t.Fatal(err)
	}
	return request, answer
}

// fits validates status, headers and, when it is JSON, the body. Other bodies have no
// schema to speak of; their examples give the whole text.
func fits(t *testing.T, route *routers.Route, request *http.Request, answer *Answer) error {
	t.Helper()
	mediaType, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	isJSON := mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
	return openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, Route: route},
		Status:                 answer.Status,
		Header:                 answer.Header,
		Body:                   io.NopCloser(bytes.NewReader(answer.Body)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			ExcludeResponseBody:   !isJSON || request.Method == http.MethodHead,
		},
	})
}
