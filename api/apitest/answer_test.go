package apitest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
		"a text within":            {Response{Status: 200, Until: new(`"a":1`)}, ""},
		"a text that did not come": {Response{Status: 200, Until: &text}, `ended without "line\n"`},
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

func TestDoReadsAStreamAsFarAsItIsAskedTo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, piece := range []string{"id: 0", "-1\n", "\nmore"} {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
		if r.URL.Path == "/endless" {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	for path, until := range map[string]string{"/endless": "id: 0-1\n\n", "/short": "never"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := Do(server.Client(), request, &until)
		if err != nil || !strings.HasPrefix(string(answer.Body), "id: 0-1\n\n") {
			t.Errorf("%s: %+v, %v", path, answer, err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/endless", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Do(server.Client(), request, new("never")); err == nil {
		t.Error("a stream that never said it is taken")
	}
}

func TestCheckWantsJSONWhereTheExampleHasABody(t *testing.T) {
	t.Parallel()
	want := Response{Status: 200, Body: json.RawMessage(`{}`)}
	if err := want.Check(&Answer{Status: 200, Body: []byte("ok")}); err == nil || !strings.Contains(err.Error(), "no JSON") {
		t.Errorf("got %v", err)
	}
}
