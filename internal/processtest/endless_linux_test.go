package processtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// endless is how much a client would send if it were let.
	endless = 1 << 30
	// endlessMemory is how much a server may take for one of these requests: a body of 16 MiB,
	// what is decoded of it, and as much again until the garbage is collected.
	endlessMemory = 128 << 20
)

// flood sends a head, and then text again and again, and reads the answer meanwhile. It tells how
// much was sent when that came.
func (p *process) flood(t *testing.T, head, begin, text string, chunked bool) (got answer, sent int64, took time.Duration) {
	t.Helper()
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(3 * patience)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := io.WriteString(connection, head); err != nil {
		t.Fatal(err)
	}
	var total atomic.Int64
	piece := begin + strings.Repeat(text, (64<<10)/len(text))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for total.Load() < endless {
			block := piece
			if chunked {
				block = fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
			}
			if _, err := io.WriteString(connection, block); err != nil {
				return // the server has enough
			}
			total.Add(int64(len(piece)))
			piece = piece[len(begin):]
			begin = ""
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(connection), nil) //nolint:bodyclose // the whole connection is closed
	if err != nil {
		t.Fatalf("after %d bytes: %v", total.Load(), err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	got, sent, took = answer{status: response.StatusCode, header: response.Header, body: string(body)}, total.Load(), time.Since(began)
	<-done // the server ends the connection, too
	return got, sent, took
}

// The server is alone, since its memory is measured.
func TestWhatNeverEndsIsRefusedEarlyAndInLittleMemory(t *testing.T) { //nolint:paralleltest // See above.
	p := serve(t, embedded(t))
	id := p.trigger(t, `{"requiredTaskAcks":9,"timeoutMs":0}`)
	standing := func() string {
		return p.must(t, http.StatusOK, "GET", at(id, ""), "").body + p.must(t, http.StatusOK, "GET", "/jobs", "").body +
			p.must(t, http.StatusOK, "GET", "/checkpoints", "").body + p.must(t, http.StatusOK, "GET", at(id, "/state"), "").body
	}
	before := standing()
	const (
		buffers = 20 << 20 // of the connection, and of whoever copies it
		line    = 64 << 20 // the longest of an import
	)
	for _, c := range []struct {
		name, line, mediaType, begin string
		limit                        string
		most                         int64
	}{
		{"trigger", "POST /checkpoints", typeJSON, "", "bodyBytes", 16 << 20},
		{"acknowledgement", "POST " + at(id, "/acks"), typeJSON, `{"taskId":"a","state":{"k":`, "ackBodyBytes", 8 << 20},
		{"list of acknowledgements", "POST " + at(id, "/acks"), typeJSON, `{"acks":[{"taskId":"a","state":{"k":`, "ackBodyBytes", 8 << 20},
		{"abort", "POST " + at(id, "/abort"), typeJSON, "", "bodyBytes", 16 << 20},
		{"recover", "POST /checkpoints/recover", typeJSON, "", "bodyBytes", 16 << 20},
		{"settings", "PUT /jobs/default", typeJSON, "", "bodyBytes", 16 << 20},
		{"change of settings", "PATCH /jobs/default", typeJSON, "", "bodyBytes", 16 << 20},
		{"change of a checkpoint", "PATCH " + at(id, ""), typeJSON, "", "bodyBytes", 16 << 20},
		{"change of shared state", "PATCH " + at(id, "/state"), typeJSON, `{"state":{"k":`, "bodyBytes", 16 << 20},
		{"shared entry", "PUT " + at(id, "/state/k"), typeJSON, "", "valueBytes", 16 << 20},
		{"shared entry by key", "PUT " + at(id, "/entry?key=k"), typeJSON, "", "valueBytes", 16 << 20},
		{"part as a document", "PUT " + at(id, "/tasks/a/state"), typeJSON, `{"k":`, "objectUploadBytes", 8 << 20},
		{"part", "PUT " + at(id, "/tasks/a/state"), typeNDJSON, "", "valueBytes", 16 << 20},
		{"value of a part", "PUT " + at(id, "/tasks/a/state"), typeNDJSON, `{"key":"k","value":`, "valueBytes", 16 << 20},
		{"import", "POST /jobs/new/import", typeNDJSON, "", "", 64 << 10},
		{"import's first line", "POST /jobs/new/import", typeNDJSON, `{"type":"job","x":`, "jobShare", line},
	} {
		for _, chunked := range []bool{true, false} {
			if !chunked && c.limit == "jobShare" || chunked && c.limit == "bodyBytes" && c.name != "trigger" {
				continue // it is waited for; it is read as the trigger is
			}
			client.CloseIdleConnections()
			had := p.memory(t, "VmRSS")
			p.resetPeak(t)
			head := c.line + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + c.mediaType + "\r\n"
			how := "with its length"
			if chunked {
				head, how = head+"Transfer-Encoding: chunked\r\n\r\n", "in chunks"
			} else {
				head += fmt.Sprintf("Content-Length: %d\r\n\r\n", endless)
			}
			got, sent, took := p.flood(t, head, c.begin, "[", chunked)
			grown := p.memory(t, "VmHWM") - had
			problem := got.message()
			t.Logf("%s %s: %d %s limit %q after %.1f MiB and %s, %.1f MiB more", c.name, how, got.status, problem.Code, problem.Limit, mibOf(sent), took.Round(time.Millisecond), mibOf(grown))
			if c.limit == "jobShare" && (got.status != http.StatusTooManyRequests || problem.Limit != c.limit) || c.limit != "" && c.limit != "jobShare" && (got.status != http.StatusRequestEntityTooLarge || problem.Code != "too_large" || problem.Limit != c.limit || !strings.Contains(problem.Detail, c.limit+" in GET /limits")) ||
				c.limit == "" && (got.status != http.StatusBadRequest || problem.Code != "invalid_request") {
				t.Errorf("%s %s: it is refused with %s", c.name, how, got)
			}
			if sent > c.most+buffers {
				t.Errorf("%s %s: %.1f MiB were read before it was refused", c.name, how, mibOf(sent))
			}
			if grown > endlessMemory {
				t.Errorf("%s %s: the server took %.1f MiB more", c.name, how, mibOf(grown))
			}
		}
	}
	// A head without end, which no handler sees.
	p.resetPeak(t)
	got, sent, _ := p.flood(t, "PUT "+at(id, "/state/k")+" HTTP/1.1\r\nHost: localhost\r\n", "X: ", "x", false)
	t.Logf("headers: %s after %.1f MiB", got, mibOf(sent))
	if got.status != http.StatusRequestEntityTooLarge || got.code() != "too_large" || sent > buffers {
		t.Errorf("headers without end are answered %s after %d bytes", got, sent)
	}
	// Within the limit of a body, the depth is what is too much.
	for _, c := range []struct{ method, path, body, mediaType string }{
		{"POST", at(id, "/acks"), `{"taskId":"a","state":{"k":%s}}`, typeJSON},
		{"PATCH", at(id, "/state"), `{"state":{"k":%s}}`, typeJSON},
		{"PUT", at(id, "/state/k"), `%s`, typeJSON},
		{"PUT", at(id, "/tasks/a/state"), `{"k":%s}`, typeJSON},
		{"PUT", at(id, "/tasks/a/state"), `{"key":"k","value":%s}`, typeNDJSON},
		{"POST", "/checkpoints", `{"labels":%s}`, typeJSON},
	} {
		deep := strings.Repeat("[", 3<<20) + strings.Repeat("]", 3<<20)
		p.resetPeak(t)
		had := p.memory(t, "VmRSS")
		got := p.call(t, c.method, c.path, fmt.Sprintf(c.body, deep), "Content-Type", c.mediaType)
		grown := p.memory(t, "VmHWM") - had
		t.Logf("%s %s: %d %.400s, %.1f MiB more", c.method, c.path, got.status, got.body, mibOf(grown))
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, "deeper than 1000 levels") && !strings.HasPrefix(c.body, `{"labels"`) {
			t.Errorf("%s %s: %.400s", c.method, c.path, got)
		}
		if grown > endlessMemory {
			t.Errorf("%s %s: the server took %.1f MiB more", c.method, c.path, mibOf(grown))
		}
	}
	if after := standing(); after != before {
		t.Errorf("what was refused has changed\n%s\nto\n%s", before, after)
	}
}
