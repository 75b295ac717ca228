package handlers_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

const ndjson = "application/x-ndjson"

// rawRequest opens a connection and sends the head of a request and some of its body.
func (f *fixture) rawRequest(head, body string) (net.Conn, *bufio.Reader) {
	f.t.Helper()
	connection, err := (&net.Dialer{}).DialContext(f.t.Context(), "tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = connection.Close() })
	// A server that never answers fails the test instead of hanging it.
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		f.t.Fatal(err)
	}
	if _, err := io.WriteString(connection, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body); err != nil {
		f.t.Fatal(err)
	}
	return connection, bufio.NewReader(connection)
}

// rawAnswer reads a response from a connection.
func (f *fixture) rawAnswer(from *bufio.Reader) answer {
	f.t.Helper()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer{t: f.t, call: "raw request", status: response.StatusCode, header: response.Header, body: string(text)}
}

func TestAnUploadIsDescribedByItsRestoreBytes(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":2}`)
	line := `{"taskId":"task-1","key":"offsets","value":{"p0":11}}` + "\n"
	sum := sha256.Sum256([]byte(line))
	want := api.UploadResult{Entries: 1, Bytes: int64(len(line)), Digest: "sha256:" + hex.EncodeToString(sum[:])}
	for _, upload := range []struct{ mediaType, body string }{
		{ndjson, `{"key":"offsets","value":{"p0":11}}`},
		{ndjson, "\n \r\n" + ` { "value" : { "p0" : 11 } , "key" : "\u006fffsets" } ` + "\r\n\n"},
		{ndjson + "; charset=UTF-8", line},
		{"application/json", `{"offsets": {"p0": 11}}`},
	} {
		var got api.UploadResult
		f.do("PUT", path+"/tasks/task-1/state", upload.body, "Content-Type", upload.mediaType).want(http.StatusOK).into(&got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("upload of %q as %s (-want +got):\n%s", upload.body, upload.mediaType, diff)
		}
	}
	var acknowledged api.UploadResult
	f.do("PUT", path+"/tasks/task-1/state?ack=true", line, "Content-Type", ndjson).want(http.StatusOK).into(&acknowledged)
	status, id, one, two, no := api.CheckpointStatusPending, int64(0), 1, 2, false
	want.Status, want.CheckpointID, want.AcknowledgedTasks, want.RequiredTaskAcks, want.Duplicate = &status, &id, &one, &two, &no
	if diff := cmp.Diff(want, acknowledged); diff != "" {
		t.Errorf("upload with ack=true (-want +got):\n%s", diff)
	}
	f.do("PUT", path+"/tasks/task-2/state?ack=true", "", "Content-Type", ndjson).want(http.StatusOK)
	if got := f.do("GET", path+"/restore", "").want(http.StatusOK).body; got != line {
		t.Errorf("the restore is %q, want %q", got, line)
	}
}

func TestARestoreCanBeSentBackAsAnUpload(t *testing.T) {
	t.Parallel()
	f := serve(t)
	stream := f.do("GET", f.completed(`{"a":1,"b":[2]}`)+"/restore", "").want(http.StatusOK).body
	path := f.trigger("")
	f.do("PUT", path+"/tasks/task-1/state?ack=true", stream, "Content-Type", ndjson).want(http.StatusOK)
	if got := f.do("GET", path+"/restore", "").want(http.StatusOK).body; got != stream {
		t.Errorf("the second restore is %q, want %q", got, stream)
	}
}

func TestAMalformedUploadIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	route := path + "/tasks/task-1/state"
	f.do("PUT", route, `{"key":"good","value":1}`, "Content-Type", ndjson).want(http.StatusOK)
	good := `{"key":"a","value":1}` + "\n"
	for _, test := range []struct {
		name, body string
		code       coordinator.Code
		line       int
		pointer    string
	}{
		{"broken JSON", good + `{"key":"b","value":}`, coordinator.CodeInvalidJSON, 2, "/value"},
		{"two values on a line", good + good[:len(good)-1] + good, coordinator.CodeInvalidJSON, 2, ""},
		{"a repeated member in a value", "\n\n" + `{"key":"b","value":{"x":1,"x":2}}`, coordinator.CodeInvalidJSON, 3, "/value/x"},
		{"a byte-order mark", "\ufeff" + good, coordinator.CodeInvalidJSON, 1, ""},
		{"no object", good + `[1]`, coordinator.CodeInvalidRequest, 2, ""},
		{"no key", good + `{"value":1}`, coordinator.CodeInvalidRequest, 2, ""},
		{"no value", good + `{"key":"b"}`, coordinator.CodeInvalidRequest, 2, ""},
		{"an unknown member", good + `{"key":"b","value":1,"ttl":2}`, coordinator.CodeInvalidRequest, 2, "/ttl"},
		{"another task", good + `{"key":"b","value":1,"taskId":"task-2"}`, coordinator.CodeInvalidRequest, 2, "/taskId"},
		{"a key that is too long", good + `{"key":"` + strings.Repeat("k", 1025) + `","value":1}`, coordinator.CodeInvalidRequest, 2, "/key"},
		{"a key twice", good + "\n" + `{"key":"b","value":1}` + "\n" + `{"key":"\u0061","value":2}`, coordinator.CodeInvalidRequest, 4, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			problem := f.on(t).do("PUT", route, test.body, "Content-Type", ndjson).refused(test.code)
			if len(problem.Errors) != 1 || problem.Errors[0].Line == nil || *problem.Errors[0].Line != test.line {
				t.Fatalf("errors does not have line %d: %+v", test.line, problem.Errors)
			}
			if pointer := problem.Errors[0].Pointer; test.pointer != "" && (pointer == nil || *pointer != test.pointer) || test.pointer == "" && pointer != nil {
				t.Errorf("the pointer is %v, want %q", pointer, test.pointer)
			}
		})
	}
	t.Run("the object form with a key twice", func(t *testing.T) {
		t.Parallel()
		problem := f.on(t).do("PUT", route, `{"a":1,"a":2}`).refused(coordinator.CodeInvalidJSON)
		if *problem.Errors[0].Pointer != "/a" {
			t.Errorf("the pointer is %q", *problem.Errors[0].Pointer)
		}
	})
}

func TestARefusedUploadLeavesTheEarlierPart(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	route := path + "/tasks/task-1/state"
	f.do("PUT", route, `{"key":"good","value":1}`, "Content-Type", ndjson).want(http.StatusOK)
	f.do("PUT", route, `{"key":"bad","value":1}{`, "Content-Type", ndjson).refused(coordinator.CodeInvalidJSON)
	f.do("POST", path+"/acks", `{"taskId":"task-1"}`).want(http.StatusOK)
	if got, want := f.do("GET", path+"/restore", "").body, `{"taskId":"task-1","key":"good","value":1}`+"\n"; got != want {
		t.Errorf("the restore is %q, want %q", got, want)
	}
}

func TestContentDigestIsChecked(t *testing.T) {
	t.Parallel()
	f := serve(t)
	route := f.trigger("") + "/tasks/task-1/state"
	body := `{"key":"a","value":1}` + "\n"
	digest := func(body string) string {
		sum := sha256.Sum256([]byte(body))
		return base64.StdEncoding.EncodeToString(sum[:])
	}
	for _, header := range []string{
		"sha-256=:" + digest(body) + ":",
		"sha-512=:bm90IGxvb2tlZCBhdA==:, sha-256=:" + digest(body) + ":",
		"md5=:bm90IGxvb2tlZCBhdA==:",
	} {
		f.do("PUT", route, body, "Content-Type", ndjson, "Content-Digest", header).want(http.StatusOK)
	}
	f.do("PUT", route, `{"a":1}`, "Content-Digest", "sha-256=:"+digest(`{"a":1}`)+":").want(http.StatusOK)
	for _, header := range []string{
		"sha-256=:" + digest(body+" ") + ":",
		"sha-256=" + digest(body),
		"sha-256=:" + digest(body)[:8] + ":",
		"sha-256=::",
		"sha-256=:",
	} {
		problem := f.do("PUT", route, body, "Content-Type", ndjson, "Content-Digest", header).refused(coordinator.CodeInvalidParameter)
		if len(problem.Errors) != 1 || *problem.Errors[0].Parameter != "Content-Digest" {
			t.Errorf("Content-Digest %s: %+v", header, problem)
		}
	}
}

func TestAClientThatWaitsFor100ContinueLearnsOfARefusalFirst(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	f.do("POST", path+"/abort", "").want(http.StatusOK)
	for _, mediaType := range []string{ndjson, "application/json"} {
		_, from := f.rawRequest("PUT "+path+"/tasks/a/state HTTP/1.1\nHost: x\nContent-Type: "+mediaType+"\nContent-Length: 1000000\nExpect: 100-continue", "")
		a := f.rawAnswer(from) // a 100 would be this answer
		a.refused(coordinator.CodeCheckpointAborted)
	}
	path = f.trigger("")
	connection, from := f.rawRequest("PUT "+path+"/tasks/a/state HTTP/1.1\nHost: x\nContent-Type: "+ndjson+"\nContent-Length: 21\nExpect: 100-continue", "")
	if a := f.rawAnswer(from); a.status != http.StatusContinue {
		t.Fatalf("the answer is %d, want 100", a.status)
	}
	if _, err := io.WriteString(connection, `{"key":"a","value":1}`); err != nil {
		t.Fatal(err)
	}
	f.rawAnswer(from).want(http.StatusOK)
}

func TestARunningUploadIsToldWhenItsCheckpointEnds(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{pace: coordinator.Pace{UploadCheck: 10 * time.Millisecond}})
	path := f.trigger("")
	_, from := f.rawRequest("PUT "+path+"/tasks/a/state HTTP/1.1\nHost: x\nContent-Type: "+ndjson+"\nContent-Length: 1000", `{"key":"a",`)
	f.do("POST", path+"/abort", "").want(http.StatusOK)
	problem := f.rawAnswer(from).refused(coordinator.CodeCheckpointAborted)
	if problem.Latest != nil || problem.Current != nil {
		t.Errorf("there is no other checkpoint, and the problem names %v and %v", problem.Current, problem.Latest)
	}
}

func TestAnUploadThatPausesTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{options: handlers.Options{UploadIdle: 50 * time.Millisecond}})
	path := f.trigger("")
	_, from := f.rawRequest("PUT "+path+"/tasks/a/state HTTP/1.1\nHost: x\nContent-Type: "+ndjson+"\nContent-Length: 1000", `{"key":"a",`)
	f.rawAnswer(from).refused(coordinator.CodeInvalidRequest)
}

func TestAnUploadOutlivesThePauseOfItsCommit(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{
		options: handlers.Options{UploadIdle: 30 * time.Millisecond},
		store:   func(s coordinator.Store) coordinator.Store { return slowCommits{s} },
	})
	route := f.trigger("") + "/tasks/a/state"
	f.do("PUT", route, `{"key":"a","value":1}`, "Content-Type", ndjson).want(http.StatusOK)
}

// slowCommits is a store that takes its time to commit, and stops when it is told to.
type slowCommits struct{ coordinator.Store }

func (s slowCommits) BeginUpload(ctx context.Context, call coordinator.UploadCall) (coordinator.Upload, error) {
	upload, err := s.Store.BeginUpload(ctx, call)
	return slowUpload{upload}, err
}

type slowUpload struct{ coordinator.Upload }

func (u slowUpload) Commit(ctx context.Context, call coordinator.CommitCall) (coordinator.CommitResult, error) {
	select {
	case <-ctx.Done():
		return coordinator.CommitResult{}, ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return u.Upload.Commit(ctx, call)
	}
}

func TestAnUploadBeyondItsLimitsIsRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{settings: func(s *coordinator.Settings) { s.MaxPartBytes = 100 }})
	route := f.trigger("") + "/tasks/a/state"
	problem := f.do("PUT", route, `{"key":"a","value":"`+strings.Repeat("v", 100)+`"}`, "Content-Type", ndjson).refused(coordinator.CodeTooLarge)
	if problem.Limit == nil || *problem.Limit != api.LimitNamePartBytes {
		t.Errorf("the limit is %v, want partBytes", problem.Limit)
	}
	problem = f.do("PUT", route, `{"key":"a","value":"`+strings.Repeat("v", coordinator.MaxValueBytes)+`"}`, "Content-Type", ndjson).refused(coordinator.CodeTooLarge)
	if problem.Limit == nil || *problem.Limit != api.LimitNameValueBytes || *problem.Errors[0].Line != 1 {
		t.Errorf("the problem is %+v, want valueBytes on line 1", problem)
	}
	// A line is read further than its value may be long, and the number is that of GET /limits all the same.
	problem = f.do("PUT", route, `{"key":"a","value":"`+strings.Repeat("v", coordinator.MaxValueBytes+100<<10)+`"}`, "Content-Type", ndjson).refused(coordinator.CodeTooLarge)
	if problem.Limit == nil || *problem.Limit != api.LimitNameValueBytes || !strings.Contains(problem.Detail, "the limit is 16777216 bytes (valueBytes in GET /limits)") {
		t.Errorf("the problem is %+v, want valueBytes with its number", problem)
	}
}

func TestALargeUploadStreamsThroughTheStore(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	const entries = 40_000
	reader, writer := io.Pipe()
	sum := sha256.New()
	go func() {
		w := bufio.NewWriter(writer)
		for i := range entries {
			rest := fmt.Sprintf(`"key":"%d","value":"%s"}`+"\n", i, strings.Repeat("v", 50))
			_, _ = w.WriteString("{" + rest) // Flush has the error
			_, _ = io.WriteString(sum, `{"taskId":"a",`+rest)
		}
		_ = writer.CloseWithError(w.Flush())
	}()
	var result api.UploadResult
	f.send("PUT", path+"/tasks/a/state?ack=true", reader, "Content-Type", ndjson).want(http.StatusOK).into(&result)
	if want := "sha256:" + hex.EncodeToString(sum.Sum(nil)); result.Digest != want || result.Entries != entries {
		t.Errorf("the upload is described as %+v, want %d entries and %s", result, entries, want)
	}
	restored := sha256.Sum256([]byte(f.do("GET", path+"/restore", "").want(http.StatusOK).body))
	if "sha256:"+hex.EncodeToString(restored[:]) != result.Digest {
		t.Error("the restore has another digest than the upload")
	}
}

func TestAnUploadThatBreaksOffStoresNothing(t *testing.T) {
	t.Parallel()
	discarded := make(chan struct{})
	f := serve(t, setup{store: func(s coordinator.Store) coordinator.Store { return watchedUploads{s, discarded} }})
	path := f.trigger("")
	connection, _ := f.rawRequest("PUT "+path+"/tasks/a/state?ack=true HTTP/1.1\nHost: x\nContent-Type: "+ndjson+"\nContent-Length: 1000", `{"key":"a","value":1}`+"\n")
	if err := connection.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-discarded:
	case <-time.After(time.Minute):
		t.Fatal("the upload was not given up")
	}
	f.do("GET", path+"/tasks/a", "").refused(coordinator.CodeTaskNotInCheckpoint)
}

// watchedUploads is a store that tells when an upload was discarded.
type watchedUploads struct {
	coordinator.Store
	discarded chan struct{}
}

func (s watchedUploads) BeginUpload(ctx context.Context, call coordinator.UploadCall) (coordinator.Upload, error) {
	upload, err := s.Store.BeginUpload(ctx, call)
	return watchedUpload{upload, s.discarded}, err
}

type watchedUpload struct {
	coordinator.Upload
	discarded chan struct{}
}

func (u watchedUpload) Discard(ctx context.Context) error {
	defer close(u.discarded)
	return u.Upload.Discard(ctx)
}
