package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzStream reads what a server, or something in between, sends as events. What comes apart
// into frames is what the server's own frames would be.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"retry: 1000\n: checkpointd\n\nid: 0-16\n\n", "id: 0-17\nevent: checkpoint.triggered\ndata: {\"epoch\":0,\"checkpointId\":7,\"status\":\"pending\"}\n\n",
		"event: job.recovered_epoch\ndata: {\"epoch\":4}\n\n", "event: gap\r\ndata: {}\r\n\r\n", "event: checkpoint.aborted\ndata: {\"checkpointId\":7,\"status\":\"aborted\",\"failure\":{\"reason\":\"x\"}}\n\n",
		"data\n\n", "data:x\n\n", ":\n\n", "id\n\n", "event: checkpoint.completed\ndata: null\n\n", "data: {\"epoch\":1e400}\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &run{Worker: Worker{Logger: slog.New(slog.DiscardHandler)}, link: newLink(), wake: make(chan struct{}, 1), epoch: 1}
		r.ledger.init()
		var frame frame
		for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
			if !frame.add(lines.Text()) {
				continue
			}
			if strings.ContainsAny(frame.id+frame.event+frame.data, "\n") {
				t.Fatalf("%q has a frame of several lines: %+v", text, frame)
			}
			var event struct {
				Epoch int64 `json:"epoch"`
			}
			err := r.hear(frame)
			if newer := json.Unmarshal([]byte(frame.data), &event) == nil && frame.event == eventRecovered && event.Epoch > r.epoch; newer && err == nil {
				t.Fatalf("%+v tells nobody of the new epoch", frame)
			}
			frame.reset()
			if frame.add("id: 1-2"); frame.id != "1-2" || frame.event != "" || frame.data != "" {
				t.Fatalf("%q leaves %+v behind", text, frame)
			}
			frame.reset()
		}
	})
}

// FuzzProblem reads refusals of anything that may answer: what they ask to wait is bounded.
func FuzzProblem(f *testing.F) {
	for _, seed := range [][3]string{
		{"application/problem+json", "7", `{"code":"checkpoint_expired","status":409,"detail":"x","errors":[{"line":1,"detail":"y"}]}`},
		{"application/problem+json; charset=utf-8", "-1", `{"status":1e9}`},
		{"text/html", "99999999999999999999", "<h1>\nx"},
		{"", "9223372036854775807", ""},
		{"application/problem+json", "Wed, 21 Oct 2015 07:28:00 GMT", "null"},
		{"application/problem+json", "18446744073", "[]"},
		{"a/b;", "1e9", "\xff\xfe"},
	} {
		f.Add(seed[0], seed[1], seed[2], uint16(503))
	}
	f.Fuzz(func(t *testing.T, mediaType, wait, body string, status uint16) {
		err := problemOf(&http.Response{
			StatusCode: int(status), Header: http.Header{"Content-Type": {mediaType}, "Retry-After": {wait}}, Body: io.NopCloser(strings.NewReader(body)),
		})
		if asked := retryAfter(err); asked < 0 || asked > retryAfterMax {
			t.Fatalf("%q asks to wait %s", wait, asked)
		}
		p, is := errors.AsType[*Problem](err)
		if !is || p.Status != int(status) || p.RetryAfter < 0 || p.RetryAfter%time.Second != 0 || err.Error() == "" {
			t.Fatalf("%q %q %q is %+v", mediaType, wait, body, p)
		}
		_ = transient(err)
	})
}

// FuzzRestoredEntries reads what a server, or something in between, sends as a restore: as many entries
// as were announced, or an error.
func FuzzRestoredEntries(f *testing.F) {
	for _, seed := range []string{
		"{\"taskId\":\"a\",\"key\":\"k\",\"value\":{\"x\":[1.0]}}\n", "{\"key\":\"k\",\"value\":null}\n{\"key\":\"l\",\"value\":1}\n", "", "\n\n", "<html>", "{\"key\":1}", "[]", "null", "{\"key\":\"k\"",
	} {
		f.Add(seed, int8(1))
		f.Add(seed, int8(-1))
	}
	f.Fuzz(func(t *testing.T, text string, total int8) {
		s := &restoreStream{ctx: t.Context(), client: &client{}, body: io.NopCloser(strings.NewReader(text)), length: int64(len(text)), total: int64(total), left: true}
		s.selection.shared = true
		s.selection.owns = func(Entry) bool { return true }
		var failed error
		read := 0
		for _, err := range s.entries() {
			if failed = err; err == nil {
				read++
			}
		}
		if failed == nil && total >= 0 && read != int(total) {
			t.Fatalf("%q gives %d entries of %d without an error", text, read, total)
		}
	})
}
