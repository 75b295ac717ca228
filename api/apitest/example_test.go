package apitest

import "testing"

func TestLoadRefusesExamplesThatCheckNothing(t *testing.T) {
	t.Parallel()
	for name, contract := range map[string]string{
		"none":         "paths: {/a: {get: {operationId: a}}}",
		"a typo":       "paths: {/a: {get: {operationId: a, x-example: {request: {method: GET, path: /a, bdoy: 1}, response: {status: 200}}}}}",
		"no YAML":      "paths: [",
		"another kind": "paths: {/a: {get: {operationId: a, x-example: [1]}}}",
	} {
		if examples, err := load([]byte(contract)); err == nil {
			t.Errorf("%s: loads as %v", name, examples)
		}
	}
}

func TestLoadKeepsNullAndAbsentApart(t *testing.T) {
	t.Parallel()
	examples, err := load([]byte(`
paths:
  /a:
    put: {operationId: absent, x-example: {request: {method: PUT, path: /a}, response: {status: 200}}}
    post: {operationId: "null", x-example: {request: {method: PUT, path: /a, body: null}, response: {status: 200, body: null}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if body := examples[0].Request.Body; body != nil {
		t.Errorf("an absent body is %s", body)
	}
	if body := examples[1].Request.Body; string(body) != "null" {
		t.Errorf("a null body is %q", body)
	}
}
