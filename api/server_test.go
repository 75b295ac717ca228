package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
)

// spy is a server that notes what the generated code hands to it. Every method but the
// ones below panics: the embedded interface is nil.
type spy struct {
	api.StrictServerInterface

	upload  api.UploadPartRequestObject
	body    string
	entry   api.PutSharedEntryRequestObject
	restore api.RestoreCheckpointRequestObject
}

var errSpied = errors.New("spied")

func (s *spy) UploadPart(_ context.Context, request api.UploadPartRequestObject) (api.UploadPartResponseObject, error) {
	body, err := io.ReadAll(request.Body)
	s.upload, s.body = request, string(body)
	return nil, errors.Join(errSpied, err)
}

func (s *spy) PutSharedEntry(_ context.Context, request api.PutSharedEntryRequestObject) (api.PutSharedEntryResponseObject, error) {
	s.entry = request
	return nil, errSpied
}

func (s *spy) RestoreCheckpoint(_ context.Context, request api.RestoreCheckpointRequestObject) (api.RestoreCheckpointResponseObject, error) {
	s.restore = request
	return nil, errSpied
}

// call sends one request through the generated server to a new spy. reached tells
// whether it got there.
func call(t *testing.T, method, target, body string, headers map[string]string) (server *spy, reached bool) {
	t.Helper()
	server = &spy{}
	strict := api.NewStrictHandlerWithOptions(server, nil, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  func(_ http.ResponseWriter, _ *http.Request, err error) { t.Logf("refused body: %v", err) },
		ResponseErrorHandlerFunc: func(_ http.ResponseWriter, _ *http.Request, err error) { reached = errors.Is(err, errSpied) },
	})
	handler := api.HandlerWithOptions(strict, api.ChiServerOptions{
		ErrorHandlerFunc: func(_ http.ResponseWriter, _ *http.Request, err error) { t.Logf("refused parameter: %v", err) },
	})
	request := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	handler.ServeHTTP(httptest.NewRecorder(), request)
	return server, reached
}

func TestUploadReachesTheServerUnread(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"application/x-ndjson", "application/json", "Application/JSON; charset=utf-8", ""} {
		const body = "{ \"key\" : \"a\" }\nnot looked at"
		got, reached := call(t, http.MethodPut, "/checkpoints/7/tasks/task-1/state?attempt=3&epoch=0&ack=true", body, map[string]string{"Content-Type": contentType})
		if !reached {
			t.Errorf("%q: did not reach the server", contentType)
		}
		if got.upload.ContentType != contentType || got.body != body {
			t.Errorf("%q: got %q with body %q", contentType, got.upload.ContentType, got.body)
		}
		if got.upload.ID != 7 || got.upload.TaskID != "task-1" || *got.upload.Params.Attempt != 3 || *got.upload.Params.Epoch != 0 || !*got.upload.Params.Ack {
			t.Errorf("%q: got parameters %+v", contentType, got.upload)
		}
	}
}

func TestEntryValuesAreNotInterpreted(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"1.0", "1", "1e0", "-0", "0.1", "9007199254740993", "18446744073709551615", "1e21", "null", `""`, "{}", "[]", `{"b":1,"a":"<&>"}`} {
		got, reached := call(t, http.MethodPut, "/checkpoints/7/state/k", value, map[string]string{"Content-Type": "application/json"})
		if !reached || got.entry.Body == nil || string(*got.entry.Body) != value {
			t.Errorf("%s: reached the server (%v) as %v", value, reached, got.entry.Body)
		}
	}
}

func TestAwkwardKeysInPathsAreDecodedOnce(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a%2Fb": "a/b", "%252F": "%2F", "%2E%2E": "..", "a%20b": "a b", "%22": `"`, "%F0%9F%98%80": "😀",
		"e%CC%81": "e\u0301", "a,b": "a,b", "a+b": "a+b", "a;b=c": "a;b=c",
	} {
		got, reached := call(t, http.MethodPut, "/checkpoints/7/state/"+path, "1", map[string]string{"Content-Type": "application/json"})
		if !reached || got.entry.Key != want {
			t.Errorf("%s: reached the server (%v) as %q, want %q", path, reached, got.entry.Key, want)
		}
	}
}

func TestConditionsAndRangesAreHandedOnWhole(t *testing.T) {
	t.Parallel()
	got, reached := call(t, http.MethodGet, "/checkpoints/7/restore?taskId=a&taskId=b,c&shared=true", "", map[string]string{
		"If-None-Match": `"1-2", W/"3-4"`, "Range": "bytes=0-5,7-9", "If-Range": `"x%2Fy"`,
	})
	if !reached {
		t.Fatal("did not reach the server")
	}
	params := got.restore.Params
	want := []string{`"1-2", W/"3-4"`, "bytes=0-5,7-9", `"x%2Fy"`}
	if diff := cmp.Diff(want, []string{*params.IfNoneMatch, *params.Range, *params.IfRange}); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b,c"}, params.TaskID); diff != "" {
		t.Errorf("repeated taskId (-want +got):\n%s", diff)
	}
}

func TestIDsInPathsAreSpeltOneWay(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"007", "+7", "-1", "7.0", "9007199254740992", "x"} {
		if _, reached := call(t, http.MethodGet, "/checkpoints/"+id+"/restore", "", nil); reached {
			t.Errorf("checkpoint %q reaches the server", id)
		}
	}
}
