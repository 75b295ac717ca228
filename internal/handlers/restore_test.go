package handlers_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// two completes a checkpoint with a shared entry and two parts, and gives its path and
// its stream.
func (f *fixture) two() (path, stream string) {
	f.t.Helper()
	path = f.trigger(`{"requiredTaskAcks":2}`)
	f.do("PUT", path+"/state/user-count", `1000`).want(http.StatusCreated)
	f.do("POST", path+"/acks", `{"acks":[{"taskId":"task-2","state":{"x":2}},{"taskId":"task-1","state":{"b":1,"a":2}}]}`).want(http.StatusOK)
	return path, `{"key":"user-count","value":1000}` + "\n" +
		`{"taskId":"task-1","key":"b","value":1}` + "\n" +
		`{"taskId":"task-1","key":"a","value":2}` + "\n" +
		`{"taskId":"task-2","key":"x","value":2}` + "\n"
}

func TestARestoreStreamsEverythingOnceInOrder(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path, stream := f.two()
	manifest := f.do("GET", path+"/manifest", "").want(http.StatusOK)
	sum := sha256.Sum256([]byte(manifest.body))
	tag := `"sha256:` + hex.EncodeToString(sum[:]) + `"`
	if manifest.header.Get("ETag") != tag || manifest.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the manifest has %v, want the tag %s", manifest.header, tag)
	}
	for _, test := range []struct{ route, ranges string }{{path, "bytes"}, {"/checkpoints/latest", "none"}} {
		for _, method := range []string{"GET", "HEAD"} {
			a := f.do(method, test.route+"/restore", "").want(http.StatusOK)
			for name, want := range map[string]string{
				"Content-Type": ndjson, "Content-Length": fmt.Sprint(len(stream)), "ETag": tag, "Accept-Ranges": test.ranges,
				"Checkpoint-Id": "0", "Checkpoint-Entries": "4",
			} {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", a.call, name, got, want)
				}
			}
			if method == "GET" && a.body != stream {
				t.Errorf("%s: the stream is\n%s\nwant\n%s", a.call, a.body, stream)
			}
			if method == "HEAD" && a.body != "" {
				t.Errorf("%s has a body", a.call)
			}
		}
	}
}

func TestARestoreCanBeFiltered(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path, stream := f.two()
	lines := strings.SplitAfter(stream, "\n")
	shared, first, second := lines[0], lines[1]+lines[2], lines[3]
	for query, want := range map[string]string{
		"taskId=task-1":                            first,
		"taskId=task-2&taskId=task-1":              first + second,
		"taskId=task-2&shared=true":                shared + second,
		"shared=true":                              stream,
		"taskId=task-1&taskId=task-1&shared=false": first,
	} {
		a := f.do("GET", path+"/restore?"+query, "").want(http.StatusOK)
		if a.body != want || a.header.Get("Checkpoint-Entries") != fmt.Sprint(strings.Count(want, "\n")) {
			t.Errorf("%s: %s entries in\n%s\nwant\n%s", query, a.header.Get("Checkpoint-Entries"), a.body, want)
		}
		part := f.do("GET", path+"/restore?"+query, "", "Range", "bytes=5-9").want(http.StatusPartialContent)
		if part.body != want[5:10] {
			t.Errorf("%s: bytes 5-9 are %q, want %q", query, part.body, want[5:10])
		}
	}
	f.do("GET", path+"/restore?taskId=task-3", "").refused(coordinator.CodeTaskNotInCheckpoint)
	f.do("GET", path+"/restore?taskId=", "").refused(coordinator.CodeInvalidParameter)
	f.do("GET", path+"/restore?shared=1", "").refused(coordinator.CodeInvalidParameter)
}

func TestRangesOfARestore(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path, stream := f.two()
	size := len(stream)
	tag := f.do("HEAD", path+"/restore", "").header.Get("ETag")
	latest := "/checkpoints/latest"
	for _, test := range []struct {
		route, header, ifRange string
		status                 int
		from, to               int
	}{
		{path, "bytes=0-0", "", 206, 0, 1},
		{path, "bytes=34-", "", 206, 34, size},
		{path, "bytes=10-19", "", 206, 10, 20},
		{path, "bytes=10-99999", "", 206, 10, size},
		{path, "bytes=-7", "", 206, size - 7, size},
		{path, "bytes=-99999", "", 206, 0, size},
		{path, "Bytes=0-99999999999999999999", "", 206, 0, size},
		{path, fmt.Sprintf("bytes=%d-", size), "", 416, 0, 0},
		{path, "bytes=99999999999999999999-", "", 416, 0, 0},
		{path, "bytes=-0", "", 416, 0, 0},
		{path, "bytes=0-1,4-5", "", 200, 0, size},
		{path, "bytes=5-2", "", 200, 0, size},
		{path, "bytes=", "", 200, 0, size},
		{path, "bytes=a-b", "", 200, 0, size},
		{path, "lines=1-2", "", 200, 0, size},
		{path, "bytes=10-19", tag, 206, 10, 20},
		{path, "bytes=10-19", `"another"`, 200, 0, size},
		{path, "bytes=10-19", "W/" + tag, 200, 0, size},
		{path, "bytes=10-19", "Sun, 29 Nov 2026 19:00:00 GMT", 200, 0, size},
		{latest, "bytes=10-19", "", 200, 0, size},
		{latest, "bytes=99999-", "", 200, 0, size},
		{latest, "bytes=10-19", tag, 206, 10, 20},
		{latest, "bytes=99999-", tag, 416, 0, 0},
	} {
		headers := []string{"Range", test.header}
		if test.ifRange != "" {
			headers = append(headers, "If-Range", test.ifRange)
		}
		a := f.do("GET", test.route+"/restore", "", headers...)
		name := fmt.Sprintf("%s with %v", test.route, headers)
		if a.status != test.status {
			t.Errorf("%s answered %d, want %d", name, a.status, test.status)
			continue
		}
		switch test.status {
		case 416:
			a.refused(coordinator.CodeRangeNotSatisfiable)
			if got, want := a.header.Get("Content-Range"), fmt.Sprintf("bytes */%d", size); got != want {
				t.Errorf("%s: Content-Range is %q, want %q", name, got, want)
			}
			continue
		case 206:
			if got, want := a.header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/%d", test.from, test.to-1, size); got != want {
				t.Errorf("%s: Content-Range is %q, want %q", name, got, want)
			}
		default:
			if got := a.header.Get("Content-Range"); got != "" {
				t.Errorf("%s: Content-Range is %q", name, got)
			}
		}
		if a.body != stream[test.from:test.to] || a.header.Get("Content-Length") != fmt.Sprint(test.to-test.from) {
			t.Errorf("%s: %s bytes %q, want %q", name, a.header.Get("Content-Length"), a.body, stream[test.from:test.to])
		}
	}
}

func TestAnEmptyRestoreIsEmptyWhateverTheRange(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.completed(`{}`)
	for _, header := range []string{"bytes=0-", "bytes=-1", "bytes=5-"} {
		a := f.do("GET", path+"/restore", "", "Range", header).want(http.StatusOK)
		if a.body != "" || a.header.Get("Content-Length") != "0" {
			t.Errorf("%s: %s bytes %q", header, a.header.Get("Content-Length"), a.body)
		}
	}
}

func TestARestoreThatTheClientHasIsNotModified(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path, _ := f.two()
	tag := f.do("HEAD", path+"/restore", "").header.Get("ETag")
	for _, route := range []string{path + "/restore", "/checkpoints/latest/restore"} {
		for _, method := range []string{"GET", "HEAD"} {
			a := f.do(method, route, "", "If-None-Match", `"other", W/`+tag).want(http.StatusNotModified)
			if a.body != "" || a.header.Get("ETag") != tag {
				t.Errorf("%s: tag %s and body %q", a.call, a.header.Get("ETag"), a.body)
			}
			f.do(method, route, "", "If-None-Match", `"other"`).want(http.StatusOK)
			f.do(method, route, "", "If-None-Match", `other`).want(http.StatusBadRequest)
		}
	}
	filtered := f.do("HEAD", path+"/restore?taskId=task-1", "").header.Get("ETag")
	if filtered == tag {
		t.Error("a part of the stream has the tag of the whole")
	}
}

func TestOnlyCompletedCheckpointsAreRestored(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	for _, what := range []string{"/restore", "/manifest", "/snapshot"} {
		f.do("GET", path+what, "").refused(coordinator.CodeCheckpointNotCompleted)
		f.do("GET", "/checkpoints/latest"+what, "").refused(coordinator.CodeNoCompletedCheckpoint)
		f.do("GET", "/checkpoints/latest"+what+"?job=unknown", "").refused(coordinator.CodeJobNotFound)
		f.do("GET", "/checkpoints/5"+what, "").refused(coordinator.CodeCheckpointNotFound)
	}
	if a := f.do("HEAD", path+"/restore", ""); a.status != http.StatusConflict || a.body != "" {
		t.Errorf("HEAD answered %d %q", a.status, a.body)
	}
}

// breaking is a store whose restores fail, or stop, after some reads.
type breaking struct {
	coordinator.Store
	reads int
	err   error
}

func (s breaking) OpenRestore(ctx context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	source, err := s.Store.OpenRestore(ctx, call)
	return &breakingSource{RestoreSource: source, left: s.reads, err: s.err}, err
}

type breakingSource struct {
	coordinator.RestoreSource
	left int
	err  error
}

func (s *breakingSource) ReadAt(ctx context.Context, part int, p []byte, off int64) (int, error) {
	if s.left--; s.left < 0 {
		return 0, s.err
	}
	return s.RestoreSource.ReadAt(ctx, part, p, off)
}

func TestARestoreThatFailsInTheMiddleIsBrokenOff(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{store: func(s coordinator.Store) coordinator.Store {
		return breaking{Store: s, reads: 1, err: coordinator.ErrSnapshotDamaged(0, "a part", errSecret)}
	}})
	path := f.completed(`{"a":"` + strings.Repeat("v", 3<<18) + `"}`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+path+"/restore", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := f.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading ended with %v after %d bytes, want an unexpected end", err, len(got))
	}
	if int64(len(got)) >= response.ContentLength || bytes.Contains(got, []byte("problem")) {
		t.Errorf("%d of %d bytes came", len(got), response.ContentLength)
	}
	if causes := f.log.read(); len(causes) != 1 || !errors.Is(causes[0], errSecret) || f.log.breaks() != 1 {
		t.Errorf("the log has %v and %d broken transfers", causes, f.log.breaks())
	}
	f.do("GET", path+"/snapshot", "").refused(coordinator.CodeSnapshotDamaged) // in memory, so it can still say so
}

func TestAReaderThatStopsIsDropped(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	f := serve(t, setup{
		options: handlers.Options{RestoreIdle: time.Second}, // long enough for a busy machine to begin
		store:   func(s coordinator.Store) coordinator.Store { return watchedRestores{s, closed} },
	})
	path := f.trigger("")
	f.do("PUT", path+"/tasks/a/state?ack=true", `{"key":"a","value":"`+strings.Repeat("v", 15<<20)+`"}`, "Content-Type", ndjson).want(http.StatusOK)
	_, from := f.rawRequest("GET "+path+"/restore HTTP/1.1\nHost: x", "")
	if _, err := from.Peek(1); err != nil {
		t.Fatal(err)
	}
	// Nothing more is read until the server has given up; then what it had sent ends early.
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("the restore goes on")
	}
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if n, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Errorf("all %d bytes came", n)
	}
	if causes := f.log.read(); len(causes) != 0 {
		t.Errorf("a reader that left was logged as a failure: %v", causes)
	}
}

// watchedRestores is a store that tells when a restore was closed.
type watchedRestores struct {
	coordinator.Store
	closed chan struct{}
}

func (s watchedRestores) OpenRestore(ctx context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	source, err := s.Store.OpenRestore(ctx, call)
	return watchedSource{source, s.closed}, err
}

type watchedSource struct {
	coordinator.RestoreSource
	closed chan struct{}
}

func (s watchedSource) Close() error {
	defer close(s.closed)
	return s.RestoreSource.Close()
}

// slowRecords is a store whose records of restores wait until the reader has it all.
type slowRecords struct {
	coordinator.Store
	read, waited chan struct{}
}

func (s slowRecords) RecordRestore(ctx context.Context, job string, record coordinator.RestoreRecord) error {
	select {
	case <-s.read:
	case <-ctx.Done():
		close(s.waited)
	}
	return s.Store.RecordRestore(context.WithoutCancel(ctx), job, record)
}

func TestAReaderDoesNotWaitForTheRecordOfItsRestore(t *testing.T) {
	t.Parallel()
	read, waited := make(chan struct{}), make(chan struct{})
	f := serve(t, setup{store: func(store coordinator.Store) coordinator.Store { return slowRecords{store, read, waited} }})
	path, stream := f.two()
	got := f.do("GET", path+"/restore", "").want(http.StatusOK)
	select {
	case <-waited:
		t.Error("the last bytes came after the record was given up")
	default:
		close(read)
	}
	if got.body != stream {
		t.Errorf("the restore is %q", got.body)
	}
}

func TestALookAtARestoreHoldsNoLease(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path, stream := f.two()
	f.completed(`{}`) // another one is the latest
	tag := f.do("HEAD", path+"/restore", "").want(http.StatusOK).header.Get("ETag")
	f.do("GET", path+"/manifest", "").want(http.StatusOK)
	f.do("GET", path+"/snapshot", "").want(http.StatusOK)
	f.do("GET", path+"/restore", "", "If-None-Match", tag).want(http.StatusNotModified)
	f.do("GET", path+"/restore", "", "Range", fmt.Sprintf("bytes=%d-", len(stream))).want(http.StatusRequestedRangeNotSatisfiable)
	f.do("GET", path+"/restore", "").want(http.StatusOK)
	var cleanup struct{ Deleted, Skipped []int64 }
	f.do("POST", "/checkpoints/cleanup", `{"keep":1}`).want(http.StatusOK).into(&cleanup)
	if len(cleanup.Skipped) != 0 || len(cleanup.Deleted) != 1 {
		t.Errorf("the cleanup deleted %v and skipped %v", cleanup.Deleted, cleanup.Skipped)
	}
}

func TestASnapshotBeyondOneDocumentPointsAtTheRestore(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	line := `{"key":"%d","value":"` + strings.Repeat("v", 3<<20) + `"}` + "\n"
	f.do("PUT", path+"/tasks/a/state?ack=true", fmt.Sprintf(line+line+line, 1, 2, 3), "Content-Type", ndjson).want(http.StatusOK)
	problem := f.do("GET", path+"/snapshot", "").refused(coordinator.CodeSnapshotTooLarge)
	if !strings.Contains(problem.Detail, "GET "+path+"/restore") || !strings.Contains(problem.Detail, "has 94") {
		t.Errorf("the detail does not name the size and point at the restore: %s", problem.Detail)
	}
}

func TestNamesOfEmptyPartsCountTowardsTheDocument(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":9000,"timeoutMs":0}`)
	for i := range 9 {
		acks := make([]string, 1000)
		for j := range acks {
			acks[j] = fmt.Sprintf(`{"taskId":"%d-%d%s"}`, i, j, strings.Repeat("n", 1000))
		}
		f.do("POST", path+"/acks", `{"acks":[`+strings.Join(acks, ",")+`]}`).want(http.StatusOK)
	}
	f.do("GET", path+"/snapshot", "").refused(coordinator.CodeSnapshotTooLarge)
	manifest := f.do("GET", path+"/manifest", "").want(http.StatusOK)
	if got := strings.Count(manifest.body, "\n"); got != 9001 {
		t.Errorf("the manifest has %d lines", got)
	}
}

// rotten is a store in which the parts of one task have changed since they were written.
type rotten struct {
	coordinator.Store

	task string
}

func (s rotten) OpenRestore(ctx context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	source, err := s.Store.OpenRestore(ctx, call)
	return rottenSource{source, s.task}, err
}

type rottenSource struct {
	coordinator.RestoreSource

	task string
}

func (s rottenSource) ReadAt(ctx context.Context, part int, p []byte, off int64) (int, error) {
	n, err := s.RestoreSource.ReadAt(ctx, part, p, off)
	if n > 0 && s.Parts()[part].TaskID == s.task {
		p[n-1] ^= 1
	}
	return n, err
}

// An empty answer says nothing: whoever gets it asks again, for ever.
func TestADamagedRestoreIsRefusedBeforeItsFirstByteWhereThatCanBeKnown(t *testing.T) {
	t.Parallel()
	small := `{"a":"` + strings.Repeat("v", 100) + `"}`
	for name, c := range map[string]struct {
		// a is the state of the task that is whole, b of the one that is not.
		a, b  string
		query string
	}{
		"a small part":                      {small, small, "?taskId=b"},
		"one that fills a chunk":            {small, `{"b":"` + strings.Repeat("v", coordinator.ChunkBytes-100) + `"}`, "?taskId=b"},
		"a small whole":                     {small, small, ""},
		"a part behind another, both asked": {small, small, "?taskId=a&taskId=b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, setup{store: func(s coordinator.Store) coordinator.Store { return rotten{s, "b"} }})
			path := f.trigger(`{"tasks":["a","b"]}`)
			f.do("POST", path+"/acks", `{"taskId":"a","state":`+c.a+`}`).want(http.StatusOK)
			f.do("POST", path+"/acks", `{"taskId":"b","state":`+c.b+`}`).want(http.StatusOK)
			for range 2 { // it is marked after the first
				got := f.do("GET", path+"/restore"+c.query, "")
				got.refused(coordinator.CodeSnapshotDamaged)
				for _, header := range []string{"ETag", "Checkpoint-Entries", "Accept-Ranges", "Content-Range"} {
					if got.header.Get(header) != "" {
						t.Errorf("the refusal has %s: %s", header, got.header.Get(header))
					}
				}
			}
			f.do("GET", path+"/restore?taskId=a", "").want(http.StatusOK)
		})
	}
}

func TestAMarkedRestoreIsRefusedAtOnceHoweverLargeItIs(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{store: func(s coordinator.Store) coordinator.Store { return rotten{s, "b"} }})
	path := f.trigger(`{"tasks":["a","b"]}`)
	f.do("POST", path+"/acks", `{"taskId":"a","state":{"a":1}}`).want(http.StatusOK)
	f.do("PUT", path+"/tasks/b/state?ack=true", string(lines(3*coordinator.ChunkBytes)), "Content-Type", ndjson).want(http.StatusOK)
	if got, err := f.try("GET", path+"/restore?taskId=b", nil); err == nil {
		t.Errorf("the damaged part arrived whole, with %d", got.status)
	}
	for _, path := range []string{path + "/restore?taskId=b", path + "/restore", path + "/manifest", path + "/snapshot", "/checkpoints/latest", "/checkpoints/latest/restore"} {
		f.do("GET", path, "").refused(coordinator.CodeSnapshotDamaged)
	}
	f.do("HEAD", path+"/restore", "").want(http.StatusConflict)
	f.do("GET", path+"/restore", "", "Range", "bytes=1-").refused(coordinator.CodeSnapshotDamaged)
	f.do("GET", path+"/restore?taskId=a", "").want(http.StatusOK)
}
