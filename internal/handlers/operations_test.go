package handlers_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/api/apitest"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/operations"
)

var readContract = sync.OnceValues(func() (*openapi3.T, error) { return openapi3.NewLoader().LoadFromData(api.Spec) })

// document is the contract as a library reads it, beside the table that is generated of it.
func document(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// inPath is a path of the contract with a value for each parameter.
func inPath(path string) string {
	return strings.NewReplacer("{id}", "7", "{taskId}", "task-1", "{key}", "user-count", "{job}", "orders").Replace(path)
}

// wellFormed is the call of an operation's example with another query.
func wellFormed(f *fixture, example apitest.Example, query string, headers ...string) answer {
	f.t.Helper()
	path, _, _ := strings.Cut(example.Request.Path, "?")
	body := string(example.Request.Body)
	if example.Request.Text != nil {
		body = *example.Request.Text
	}
	for name, value := range example.Request.Headers {
		headers = append([]string{name, value}, headers...)
	}
	return f.do(example.Request.Method, path+"?"+query, body, headers...)
}

func examples(t *testing.T) []apitest.Example {
	t.Helper()
	all, err := apitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEveryOperationRefusesAParameterThatItHasNot(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.trigger(`{}`)
	before := f.standing()
	for _, example := range examples(t) {
		// Both also where the operation knows no parameter at all, as an import.
		for _, unknown := range []string{"nonsense=1", "DryRun=true", "="} {
			_, query, _ := strings.Cut(example.Request.Path, "?")
			got := wellFormed(f, example, query+"&"+unknown)
			if example.Method == http.MethodHead {
				got.want(http.StatusBadRequest)
				continue
			}
			problem := got.refused(coordinator.CodeInvalidParameter)
			if name, _, _ := strings.Cut(unknown, "="); name != "" && (len(problem.Errors) != 1 || *problem.Errors[0].Parameter != name) {
				t.Errorf("%s with %s: errors do not name it: %s", example.OperationID, unknown, got.body)
			}
		}
	}
	for _, query := range []string{"POST /jobs/orders/import?dryRun=true", "GET /jobs?verbose=true", "GET /healthz?verbose"} {
		method, path, _ := strings.Cut(query, " ")
		f.do(method, path, "", "Content-Type", "application/x-ndjson").refused(coordinator.CodeInvalidParameter)
	}
	if diff := cmp.Diff(before, f.standing()); diff != "" {
		t.Errorf("a refused call changed something (-before +after):\n%s", diff)
	}
}

// What the contract says of each query parameter holds at the door, whatever the handler makes of it.
func TestEveryQueryParameterHasTheBoundsOfTheContract(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.trigger(`{}`)
	wellDone := map[string]string{}
	for _, example := range examples(t) {
		wellDone[example.OperationID] = example.Method
		o := document(t).Paths.Value(example.Path).GetOperation(example.Method)
		for _, ref := range o.Parameters {
			parameter := ref.Value
			if parameter.In != openapi3.ParameterInQuery {
				continue
			}
			for _, wrong := range outside(parameter) {
				if got := wellFormed(f, example, parameter.Name+"="+wrong); got.status != http.StatusBadRequest {
					t.Errorf("%s answered %s=%s with %d", example.OperationID, parameter.Name, wrong, got.status)
				}
			}
			if !parameter.Schema.Value.Type.Is("array") {
				value := parameter.Name + "=" + wellSpelt(t, parameter)
				if got := wellFormed(f, example, value+"&"+value); got.status != http.StatusBadRequest {
					t.Errorf("%s answered %s twice with %d", example.OperationID, value, got.status)
				}
			}
		}
	}
	if len(wellDone) != len(operations.All()) {
		t.Errorf("the contract has %d examples and %d operations", len(wellDone), len(operations.All()))
	}
}

// outside are values that a parameter does not take.
func outside(parameter *openapi3.Parameter) []string {
	schema := parameter.Schema.Value
	if schema.Type.Is("array") {
		schema = schema.Items.Value
	}
	switch {
	case schema.Type.Is("boolean"):
		return []string{"1", "TRUE", "yes"}
	case schema.Type.Is("integer"):
		below, above := int64(*schema.Min)-1, int64(*schema.Max)+1
		return []string{number(below), number(above), "1.0", "%2B5", "007", "x", "", "99999999999999999999"}
	case len(schema.Enum) > 0:
		return []string{"nonsense"}
	}
	return nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func wellSpelt(t *testing.T, parameter *openapi3.Parameter) string {
	t.Helper()
	if text, is := parameter.Example.(string); is {
		return strings.ReplaceAll(text, "/", "%2F")
	}
	text, err := json.Marshal(parameter.Example)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryPathTellsTheMethodsThatItTakes(t *testing.T) {
	t.Parallel()
	f := serve(t)
	paths := document(t).Paths.Map()
	for path, item := range paths {
		var want []string
		for method := range item.Operations() {
			want = append(want, method)
		}
		if item.Get != nil && item.Head == nil {
			want = append(want, http.MethodHead)
		}
		slices.Sort(want)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"} {
			if slices.Contains(want, method) {
				continue
			}
			got := f.do(method, inPath(path), "")
			allowed := strings.Split(got.header.Get("Allow"), ", ")
			slices.Sort(allowed)
			if diff := cmp.Diff(want, allowed); got.status != http.StatusMethodNotAllowed || diff != "" {
				t.Errorf("%s %s is answered %d with Allow (-want +got):\n%s", method, path, got.status, diff)
			}
		}
	}
	for _, nowhere := range []string{"/", "/checkpoints/", "/checkpoints//acks", "/checkpoints/7/", "/checkpoints/latest/", "/job", "/checkpoints/7/acks/x", "/jobs/orders/tasks"} {
		for _, method := range []string{"GET", "POST", "PURGE"} {
			f.do(method, nowhere, "").refused(coordinator.CodeNotFound)
		}
	}
}

func TestEveryOperationRefusesAFormThatItIsNotServedIn(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.trigger(`{}`)
	before := f.standing()
	for _, example := range examples(t) {
		o := document(t).Paths.Value(example.Path).GetOperation(example.Method)
		_, query, _ := strings.Cut(example.Request.Path, "?")
		if produces := operationOf(example).Produces; len(produces) > 0 {
			for _, accept := range []string{"image/png", "*/*;q=0", produces[0] + ";q=0", strings.Join(produces, ";q=0, ") + ";q=0, */*"} {
				if got := wellFormed(f, example, query, "Accept", accept); got.status != http.StatusNotAcceptable {
					t.Errorf("%s answered Accept: %s with %d", example.OperationID, accept, got.status)
				}
			}
		}
		if o.RequestBody == nil {
			continue
		}
		for _, form := range []string{"application/x-www-form-urlencoded", "text/plain", "application/jsonx", "multipart/form-data; boundary=x"} {
			path, _, _ := strings.Cut(example.Request.Path, "?")
			f.do(example.Method, path+"?"+query, "{}", "Content-Type", form).refused(coordinator.CodeUnsupportedMediaType)
		}
	}
	if diff := cmp.Diff(before, f.standing()); diff != "" {
		t.Errorf("a refused call changed something (-before +after):\n%s", diff)
	}
}

func operationOf(example apitest.Example) *operations.Operation {
	return operations.Find(strings.NewReplacer("{", "", "}", "").Replace(example.Path)).Operation(example.Method)
}

// The table is of the contract, also in what no test of a single operation would notice.
func TestTheTableHasEveryOperationOfTheContract(t *testing.T) {
	t.Parallel()
	seen := 0
	for path, item := range document(t).Paths.Map() {
		for method, described := range item.Operations() {
			seen++
			o := operations.Named(strings.ToUpper(described.OperationID[:1]) + described.OperationID[1:])
			if o == nil || o.Method != method || o.Path != path {
				t.Errorf("%s %s is not in the table: %+v", method, path, o)
				continue
			}
			if role, _ := described.Extensions["x-role"].(string); role == "" || role != string(o.Role) {
				t.Errorf("%s has the role %q, and x-role is %q", o.Name, o.Role, role)
			}
			if class, _ := described.Extensions["x-class"].(string); class == "" || class != string(o.Class) {
				t.Errorf("%s has the class %q, and x-class is %q", o.Name, o.Class, class)
			}
		}
	}
	if all := operations.All(); len(all) != seen {
		t.Errorf("the contract has %d operations, the table %d", seen, len(all))
	}
}
