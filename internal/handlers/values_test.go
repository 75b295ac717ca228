package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// opaque are values that a careless decoder or encoder would change.
var opaque = []string{
	`1.0`, `1`, `1e0`, `-0`, `0.1`, `9007199254740993`, `18446744073709551615`, `1e21`, `1E400`, `null`, `""`, `{}`, `[]`,
	`{"b":1,"a":2}`, `"<script>&amp;\u2028é\u00e9"`, `"\/\b"`, `[1.10,{"x":null}]`, `true`,
}

func TestValuesComeBackByteForByteByEveryRoute(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":3}`)
	var object, lines strings.Builder
	for i, value := range opaque {
		key := fmt.Sprintf("%02d", i)
		if i%2 == 0 {
			f.do("PUT", path+"/state/"+key, " "+value+"\n").want(http.StatusCreated)
		} else {
			f.do("PATCH", path+"/state", `{"state": {"`+key+`" : `+value+` } }`).want(http.StatusNoContent)
		}
		if i > 0 {
			object.WriteString(",")
		}
		fmt.Fprintf(&object, `"%s":%s`, key, value)
		fmt.Fprintf(&lines, `{"key":"%s","value":%s}`+"\n", key, value)
	}
	state := "{" + object.String() + "}"
	f.do("POST", path+"/acks", `{"taskId":"inline","state":`+state+`}`).want(http.StatusOK)
	f.do("PUT", path+"/tasks/lines/state?ack=true", lines.String(), "Content-Type", "application/x-ndjson").want(http.StatusOK)
	f.do("PUT", path+"/tasks/object/state?ack=true", state).want(http.StatusOK)

	for i, value := range opaque {
		for _, route := range []string{path + "/state/", "/checkpoints/latest/state/", path + "/entry?key="} {
			a := f.do("GET", fmt.Sprintf("%s%02d", route, i), "").want(http.StatusOK)
			if a.body != value || a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s came back as %s %s by %s", value, a.header.Get("Content-Type"), a.body, route)
			}
		}
	}
	if got, want := f.do("GET", path+"/state", "").body, `{"version":1,"status":"completed","state":`+state+"}\n"; got != want {
		t.Errorf("the shared state is\n%s\nwant\n%s", got, want)
	}
	want := `{"version":1,"state":` + state + `,"tasks":{"inline":` + state + `,"lines":` + state + `,"object":` + state + "}}\n"
	if got := f.do("GET", path+"/snapshot", "").body; got != want {
		t.Errorf("the snapshot is\n%s\nwant\n%s", got, want)
	}
	var restored strings.Builder
	restored.WriteString(lines.String())
	for _, task := range []string{"inline", "lines", "object"} {
		restored.WriteString(strings.ReplaceAll(lines.String(), `{"key":`, `{"taskId":"`+task+`","key":`))
	}
	if got := f.do("GET", path+"/restore", "").body; got != restored.String() {
		t.Errorf("the restore is\n%s\nwant\n%s", got, restored.String())
	}
}

func TestTypedReadsConvertWhereNothingIsLost(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	for _, test := range []struct{ value, wanted, want string }{
		{`42`, "string", `"42"`},
		{`"42"`, "integer", `42`},
		{`1.0`, "integer", `1`},
		{`"true"`, "boolean", `true`},
		{`null`, "object", `null`},
		{`{"a":1.0}`, "object", `{"a":1.0}`},
		{`3.7`, "integer", ""},
		{`[]`, "string", ""},
	} {
		f.do("PUT", path+"/state/k", test.value)
		a := f.do("GET", path+"/state/k?type="+test.wanted, "")
		if test.want != "" {
			if a.want(http.StatusOK).body != test.want {
				t.Errorf("%s as %s is %s, want %s", test.value, test.wanted, a.body, test.want)
			}
			continue
		}
		problem := a.refused(coordinator.CodeTypeMismatch)
		for _, word := range []string{`"k"`, test.wanted} {
			if !strings.Contains(problem.Detail, word) {
				t.Errorf("the detail does not name %s: %s", word, problem.Detail)
			}
		}
	}
	f.do("GET", path+"/state/k?type=float", "").refused(coordinator.CodeInvalidParameter)
}
