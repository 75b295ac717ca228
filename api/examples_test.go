package api_test

import (
	"net/url"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/checkpointd/checkpointd/api/apitest"
)

func TestExamplesAreCallsOfTheirOwnOperationAndFitTheContract(t *testing.T) {
	t.Parallel()
	document := contract(t)
	router, err := gorillamux.NewRouter(document)
	if err != nil {
		t.Fatal(err)
	}
	examples, err := apitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for range operations(document) {
		count++
	}
	if len(examples) != count {
		t.Errorf("%d operations have %d examples", count, len(examples))
	}
	for _, example := range examples {
		t.Run(example.OperationID, func(t *testing.T) {
			t.Parallel()
			for _, step := range example.Setup {
				checkStep(t, router, &example, &step)
			}
			route := checkStep(t, router, &example, &example.Step)
			if route != nil && route.Operation.OperationID != example.OperationID {
				t.Errorf("the example of %s calls %s", example.OperationID, route.Operation.OperationID)
			}
		})
	}
}

// checkStep holds the request of a step against the contract, and what it expects
// against the answers that the operation declares.
func checkStep(t *testing.T, router routers.Router, example *apitest.Example, step *apitest.Step) *routers.Route {
	t.Helper()
	where := step.Request.Method + " " + step.Request.Path
	request, err := step.Request.HTTP(t.Context(), "")
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return nil
	}
	route, path, err := router.FindRoute(request)
	if err != nil {
		t.Errorf("%s: no operation: %v", where, err)
		return nil
	}
	wantJob := "example-" + example.OperationID
	job, inJob := path["job"]
	if isInJob(route.Path) {
		job, inJob = request.URL.Query().Get("job"), true
	}
	if inJob && job != wantJob {
		t.Errorf("%s: is in job %q, want %s, or examples disturb each other", where, job, wantJob)
	}
	err = openapi3filter.ValidateRequest(t.Context(), &openapi3filter.RequestValidationInput{
		Request: request, PathParams: unescaped(t, path), Route: route,
		Options: &openapi3filter.Options{
			ExcludeRequestBody: step.Request.Text != nil,
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, // examples are for a server without tokens
		},
	})
	if err != nil {
		t.Errorf("%s: the request does not fit the contract: %v", where, err)
	}
	declared := route.Operation.Responses.Status(step.Response.Status)
	if declared == nil {
		t.Errorf("%s: expects status %d, which is not declared", where, step.Response.Status)
		return route
	}
	checkExpectation(t, where, declared.Value, &step.Response)
	return route
}

func unescaped(t *testing.T, path map[string]string) map[string]string {
	t.Helper()
	for name, value := range path {
		text, err := url.PathUnescape(value)
		if err != nil {
			t.Error(err)
		}
		path[name] = text
	}
	return path
}

func checkExpectation(t *testing.T, where string, declared *openapi3.Response, expected *apitest.Response) {
	t.Helper()
	for name := range expected.Headers {
		if name == "Content-Type" {
			continue // It is declared by the content itself.
		}
		if declared.Headers[name] == nil {
			t.Errorf("%s: expects header %s, which is not declared", where, name)
		}
	}
	if expected.Body != nil && expected.Text != nil || expected.Until != nil && (expected.Body != nil || expected.Text != nil) {
		t.Errorf("%s: expects more than one of body, text and until", where)
	}
	if hasBody := expected.Body != nil || expected.Text != nil || expected.Until != nil; hasBody && len(declared.Content) == 0 {
		t.Errorf("%s: expects a body where none is declared", where)
	}
}
