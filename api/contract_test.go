package api_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
)

// operation is one operation of the contract with the name that failures carry.
type operation struct {
	*openapi3.Operation

	name string // GET /checkpoints
	path string
}

func contract(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatalf("load the contract: %v", err)
	}
	return document
}

// operations yields every operation, by path and method.
func operations(document *openapi3.T) iter.Seq[operation] {
	return func(yield func(operation) bool) {
		paths := document.Paths.Map()
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			methods := paths[path].Operations()
			for _, method := range slices.Sorted(maps.Keys(methods)) {
				if !yield(operation{methods[method], method + " " + path, path}) {
					return
				}
			}
		}
	}
}

// responses yields the answers of an operation by status.
func (o operation) responses(t *testing.T) iter.Seq2[int, *openapi3.Response] {
	t.Helper()
	return func(yield func(int, *openapi3.Response) bool) {
		for status, response := range o.Responses.Map() {
			number, err := strconv.Atoi(status)
			if err != nil {
				t.Errorf("%s: status %q: name every status by its number", o.name, status)
				continue
			}
			if !yield(number, response.Value) {
				return
			}
		}
	}
}

func TestContractIsValidOpenAPIAndItsExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	document := contract(t)
	// Validation covers the examples of schemas, parameters, headers, bodies and
	// answers; formats are not looked at unless it is told to.
	err := document.Validate(t.Context(), openapi3.EnableSchemaFormatValidation(), openapi3.EnableExamplesValidation(), openapi3.EnableMultiError())
	if err != nil {
		t.Error(err)
	}
}

func TestEveryOperationSaysWhatItIs(t *testing.T) {
	t.Parallel()
	document := contract(t)
	tags := map[string]bool{}
	for _, tag := range document.Tags {
		tags[tag.Name] = false
	}
	seen := map[string]string{}
	camelCase := regexp.MustCompile(`^[a-z]+([A-Z][a-z]+)*$`)
	for o := range operations(document) {
		if !camelCase.MatchString(o.OperationID) {
			t.Errorf("%s: operationId %q is not camelCase", o.name, o.OperationID)
		}
		if other, taken := seen[o.OperationID]; taken {
			t.Errorf("%s: operationId %q is that of %s", o.name, o.OperationID, other)
		}
		seen[o.OperationID] = o.name
		if o.Summary == "" || strings.HasSuffix(o.Summary, ".") {
			t.Errorf("%s: summary %q is missing or ends with a full stop", o.name, o.Summary)
		}
		if !strings.HasSuffix(strings.TrimSpace(o.Description), ".") {
			t.Errorf("%s: description %q is missing or no sentence", o.name, o.Description)
		}
		if len(o.Tags) != 1 {
			t.Errorf("%s: has %d tags, want one", o.name, len(o.Tags))
		}
		for _, tag := range o.Tags {
			if _, declared := tags[tag]; !declared {
				t.Errorf("%s: tag %q is not declared", o.name, tag)
			}
			tags[tag] = true
		}
		if o.Extensions["x-example"] == nil {
			t.Errorf("%s: has no x-example", o.name)
		}
		if takesJob := slices.ContainsFunc(o.Parameters, isJob); takesJob != isInJob(o.path) {
			t.Errorf("%s: takes ?job= is %v; all operations on checkpoints and events do, no other does", o.name, takesJob)
		}
	}
	for tag, used := range tags {
		if !used {
			t.Errorf("tag %q is on no operation", tag)
		}
	}
}

// isInJob tells whether a path is about what ?job= names.
func isInJob(path string) bool {
	return strings.HasPrefix(path, "/checkpoints") || path == "/events"
}

func isJob(parameter *openapi3.ParameterRef) bool {
	return parameter.Ref == "#/components/parameters/Job"
}

func TestEveryRefusalIsAProblem(t *testing.T) {
	t.Parallel()
	document := contract(t)
	for o := range operations(document) {
		for status, response := range o.responses(t) {
			if status < http.StatusBadRequest {
				continue
			}
			content := response.Content["application/problem+json"]
			if len(response.Content) != 1 || content == nil {
				t.Errorf("%s: %d has %v, want application/problem+json alone", o.name, status, slices.Sorted(maps.Keys(response.Content)))
				continue
			}
			if content.Schema == nil || content.Schema.Ref != "#/components/schemas/Problem" {
				t.Errorf("%s: the schema of %d is not Problem", o.name, status)
			}
			if len(content.Examples) == 0 {
				t.Errorf("%s: %d has no example", o.name, status)
			}
		}
	}
}

func TestAnswersHaveNamedSchemasAndExamples(t *testing.T) {
	t.Parallel()
	document := contract(t)
	for o := range operations(document) {
		bodies := map[string]openapi3.Content{}
		for status, response := range o.responses(t) {
			bodies[strconv.Itoa(status)] = response.Content
		}
		if o.RequestBody != nil {
			bodies["request"] = o.RequestBody.Value.Content
		}
		for body, content := range bodies {
			for mediaType, media := range content {
				where := fmt.Sprintf("%s: %s as %s", o.name, body, mediaType)
				if media.Schema == nil {
					t.Errorf("%s has no schema", where)
					continue
				}
				if media.Schema.Ref == "" && !media.Schema.Value.Type.Is("string") {
					t.Errorf("%s has an anonymous schema; name it under components", where)
				}
				if len(media.Examples) == 0 {
					t.Errorf("%s has no example", where)
				}
				if strings.HasSuffix(mediaType, "ndjson") {
					checkLines(t, document, where, media)
				}
			}
		}
	}
	for name, schema := range document.Components.Schemas {
		if schema.Value.Description == "" {
			t.Errorf("schema %s has no description", name)
		}
		for member, property := range schema.Value.Properties {
			for _, nested := range []*openapi3.SchemaRef{property, property.Value.Items} {
				if nested != nil && nested.Ref == "" && len(nested.Value.Properties) > 0 {
					t.Errorf("schema %s: %s is an anonymous object; name it under components", name, member)
				}
			}
		}
	}
}

// checkLines holds every line of an NDJSON example against the schema of a line.
func checkLines(t *testing.T, document *openapi3.T, where string, media *openapi3.MediaType) {
	t.Helper()
	ref, _ := media.Extensions["x-ndjson-line"].(string)
	line := document.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	if line == nil {
		t.Errorf("%s: x-ndjson-line %q names no schema", where, ref)
		return
	}
	for name, example := range media.Examples {
		text, _ := example.Value.Value.(string)
		if !strings.HasSuffix(text, "\n") {
			t.Errorf("%s, example %s: the last line does not end", where, name)
		}
		for number, part := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			var value any
			if err := json.Unmarshal([]byte(part), &value); err != nil {
				t.Errorf("%s, example %s, line %d: %v", where, name, number+1, err)
				continue
			}
			if err := line.Value.VisitJSON(value); err != nil {
				t.Errorf("%s, example %s, line %d: %v", where, name, number+1, err)
			}
		}
	}
}

// Validation leaves the examples of headers out.
func TestExamplesOfHeadersFitTheirSchemas(t *testing.T) {
	t.Parallel()
	for name, header := range contract(t).Components.Headers {
		if header.Value.Example == nil {
			t.Errorf("header %s has no example", name)
			continue
		}
		if err := header.Value.Schema.Value.VisitJSON(header.Value.Example); err != nil {
			t.Errorf("header %s: %v", name, err)
		}
	}
}

func TestLimitNamesAreTheMembersOfLimits(t *testing.T) {
	t.Parallel()
	document := contract(t)
	limits := document.Components.Schemas["Limits"].Value
	names := texts(t, document.Components.Schemas["LimitName"].Value.Enum)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(limits.Properties)), names); diff != "" {
		t.Errorf("LimitName is not the members of Limits, sorted (-members +names):\n%s", diff)
	}
	if diff := cmp.Diff(names, slices.Sorted(slices.Values(limits.Required))); diff != "" {
		t.Errorf("not every limit is required (-names +required):\n%s", diff)
	}
}

// texts are the strings of a list that the loader left untyped.
func texts(t *testing.T, values []any) []string {
	t.Helper()
	var all []string
	for _, value := range values {
		text, ok := value.(string)
		if !ok {
			t.Errorf("%v is no string", value)
		}
		all = append(all, text)
	}
	return all
}
