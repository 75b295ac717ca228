package handlers

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/load"
)

// What the gate knows of an operation must be what the contract says of it.
func TestOperationsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	document, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for path, item := range document.Paths.Map() {
		for method, described := range item.Operations() {
			seen++
			name := strings.ToUpper(described.OperationID[:1]) + described.OperationID[1:]
			o, known := operations[name]
			if !known {
				t.Errorf("%s %s (%s) is not among the operations", method, path, name)
				continue
			}
			if diff := cmp.Diff(mediaTypesOf(method, described), firstOf(o.produces)); diff != "" {
				t.Errorf("%s: media types, contract (-) and gate (+):\n%s", name, diff)
			}
			if class, _ := described.Extensions["x-class"].(string); class == "" || load.Class(class) != o.class {
				t.Errorf("%s: x-class is %q, and the gate has %q", name, class, o.class)
			}
			var want, got []string
			for _, parameter := range append(slices.Clone(item.Parameters), described.Parameters...) {
				if parameter.Value.In == openapi3.ParameterInQuery {
					want = append(want, parameter.Value.Name)
				}
			}
			for _, parameter := range o.query {
				got = append(got, parameter.name)
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: query parameters, contract (-) and gate (+):\n%s", name, diff)
			}
		}
	}
	if seen != len(operations) {
		t.Errorf("the contract has %d operations, the gate %d", seen, len(operations))
	}
}

// mediaTypesOf are those of an operation's success.
func mediaTypesOf(method string, described *openapi3.Operation) []string {
	var types []string
	for status, response := range described.Responses.Map() {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		for mediaType := range response.Value.Content {
			if !slices.Contains(types, mediaType) {
				types = append(types, mediaType)
			}
		}
	}
	if method == http.MethodHead {
		return []string{mediaNDJSON} // a HEAD has no content to declare, and answers as its GET
	}
	return types
}

// firstOf leaves out forms that a handler of another library negotiates by itself.
func firstOf(types []string) []string {
	if len(types) > 1 {
		return types[:1]
	}
	return types
}

func TestEveryParameterThatCanBeMalformedHasASentence(t *testing.T) {
	t.Parallel()
	for name, o := range operations {
		for _, parameter := range o.query {
			if parameterForms[parameter.name] == "" && parameter.name != "job" && parameter.name != "notAckedBy" && parameter.name != "after" {
				t.Errorf("%s: no sentence for %s", name, parameter.name)
			}
		}
	}
}
