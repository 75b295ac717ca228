package apitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestCheckFindsEveryDifference(t *testing.T) {
	t.Parallel()
	text := "line\n"
	answer := &Answer{
		Status: http.StatusOK,
		Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Checkpoint-Id": {"7"}},
		Body:   []byte(`{"a":1,"b":[{"c":1.0,"d":null},"x"],"e":{"f":true}}`),
	}
	for name, test := range map[string]struct {
		want Response
		says string // "" is no difference
	}{
		"nothing asked":            {Response{Status: 200}, ""},
		"another status":           {Response{Status: 201}, "status 200, want 201"},
		"the same header":          {Response{Status: 200, Headers: map[string]string{"Checkpoint-Id": "7"}}, ""},
		"another header":           {Response{Status: 200, Headers: map[string]string{"Checkpoint-Id": "8"}}, `header Checkpoint-Id is "7", want "8"`},
		"a header that is missing": {Response{Status: 200, Headers: map[string]string{"Age": "1"}}, `header Age is "", want "1"`},
		"the media type alone":     {Response{Status: 200, Headers: map[string]string{"Content-Type": "application/json"}}, ""},
		"a subset":                 {Response{Status: 200, Body: json.RawMessage(`{"a":1,"b":[{"d":null},"x"],"e":{}}`)}, ""},
		"another number":           {Response{Status: 200, Body: json.RawMessage(`{"a":2}`)}, `"/a" is 1, want 2`},
		"another spelling":         {Response{Status: 200, Body: json.RawMessage(`{"b":[{"c":1},"x"]}`)}, `"/b/0/c" is 1.0, want 1`},
		"a member that is missing": {Response{Status: 200, Body: json.RawMessage(`{"e":{"g":1}}`)}, `"/e/g" is missing`},
		"null where there is none": {Response{Status: 200, Body: json.RawMessage(`{"g":null}`)}, `"/g" is missing`},
		"a shorter list":           {Response{Status: 200, Body: json.RawMessage(`{"b":[{}]}`)}, `"/b" is`},
		"another kind":             {Response{Status: 200, Body: json.RawMessage(`{"a":{}}`)}, `"/a" is 1, want an object`},
		"another text":             {Response{Status: 200, Text: &text}, `want "line\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.want.Check(answer)
			switch {
			case err == nil && test.says != "":
				t.Errorf("no difference, want %q", test.says)
			case err != nil && (test.says == "" || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}

func TestCheckWantsJSONWhereTheExampleHasABody(t *testing.T) {
	t.Parallel()
	want := Response{Status: 200, Body: json.RawMessage(`{}`)}
	if err := want.Check(&Answer{Status: 200, Body: []byte("ok")}); err == nil || !strings.Contains(err.Error(), "no JSON") {
		t.Errorf("got %v", err)
	}
}
