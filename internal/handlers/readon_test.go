package handlers_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
	"github.com/checkpointd/checkpointd/internal/load"
)

// more is what no buffers of a connection hold: who sends it notices whether it is read.
const more = 12 << 20

// lines is an NDJSON body of about that many bytes.
func lines(size int) []byte {
	line := []byte(`{"key":"00000000","value":"` + strings.Repeat("v", 64<<10) + `"}` + "\n")
	body := bytes.Repeat(line, size/len(line)+1)
	for i := range size/len(line) + 1 {
		copy(body[i*len(line)+len(`{"key":"`):], fmt.Sprintf("%08d", i))
	}
	return body
}

// sender writes a whole request before it reads a byte of the answer.
type sender struct {
	net.Conn
	*bufio.Reader

	t *testing.T
}

func (f *fixture) sender() sender {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		f.t.Fatal(err)
	}
	return sender{conn, bufio.NewReader(conn), f.t}
}

func (s sender) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// send sends all and then reads the answer. A body that is chunked has no length.
func (s sender) send(head string, body []byte, chunked bool) answer {
	s.t.Helper()
	length := fmt.Sprintf("Content-Length: %d", len(body))
	if chunked {
		length = "Transfer-Encoding: chunked"
		body = fmt.Appendf(fmt.Appendf(nil, "%x\r\n", len(body)), "%s\r\n0\r\n\r\n", body)
	}
	method, rest, _ := strings.Cut(head, " ")
	path, headers, _ := strings.Cut(rest, "\n")
	if headers != "" {
		headers = strings.ReplaceAll(headers, "\n", "\r\n") + "\r\n"
	}
	_, err := fmt.Fprintf(s.Conn, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n\r\n", method, path, headers, length)
	if err == nil {
		_, err = s.Conn.Write(body)
	}
	if err != nil {
		s.t.Fatalf("%s: the connection was reset under the sender: %v", head, err)
	}
	return s.answer(head, method)
}

func (s sender) answer(call, method string) answer {
	s.t.Helper()
	response, err := http.ReadResponse(s.Reader, &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%s: the sender got no answer: %v", call, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatalf("%s: the answer broke off: %v", call, err)
	}
	if response.Close {
		response.Header.Set("Connection", "close")
	}
	return answer{s.t, call, response.StatusCode, response.Header, string(text)}
}

const (
	inLines = "\nContent-Type: application/x-ndjson"
	inJSON  = "\nContent-Type: application/json"
)

// ended has a checkpoint of each kind that takes no part any more, and one that is pending.
func (f *fixture) ended() {
	f.t.Helper()
	f.trigger(`{"tasks":["a","b"]}`) // 0 is pending, with an acknowledgement of a
	f.do("POST", "/checkpoints/0/acks", `{"taskId":"a","state":{"n":1}}`).want(http.StatusOK)
	f.trigger(`{"requiredTaskAcks":1}`)
	f.do("POST", "/checkpoints/1/abort", "").want(http.StatusOK)
	f.trigger(`{"requiredTaskAcks":1,"timeoutMs":1}`)
	f.trigger(`{"requiredTaskAcks":1}`)
	f.do("POST", "/checkpoints/3/acks", `{"taskId":"b"}`).want(http.StatusOK)
	f.trigger(`{"requiredTaskAcks":1}`)
	f.do("DELETE", "/checkpoints/4", "").want(http.StatusNoContent)
	f.clock.advance(time.Second)
}

func TestARefusalReachesWhoSendsEverythingBeforeReading(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{settings: func(s *coordinator.Settings) { s.MaxPartBytes = 1 << 20 }})
	f.ended()
	part := lines(more)
	broken := append([]byte("{\"key\":\"a\",\"value\":1}\nno JSON\n"), part...)
	ack := []byte(`{"taskId":"b","state":{"s":"` + strings.Repeat("s", 17<<20) + `"}}`)
	for name, c := range map[string]struct {
		head string
		body []byte
		code coordinator.Code
	}{
		"an unknown checkpoint":         {"PUT /checkpoints/9/tasks/b/state" + inLines, part, coordinator.CodeCheckpointNotFound},
		"an aborted one":                {"PUT /checkpoints/1/tasks/b/state" + inLines, part, coordinator.CodeCheckpointAborted},
		"an expired one":                {"PUT /checkpoints/2/tasks/b/state" + inLines, part, coordinator.CodeCheckpointExpired},
		"a completed one":               {"PUT /checkpoints/3/tasks/c/state" + inLines, part, coordinator.CodeCheckpointCompleted},
		"a deleted one":                 {"PUT /checkpoints/4/tasks/c/state" + inLines, part, coordinator.CodeCheckpointDeleted},
		"an acknowledged task":          {"PUT /checkpoints/0/tasks/a/state" + inLines, part, coordinator.CodeAckConflict},
		"an acknowledged task by query": {"PUT /checkpoints/0/task/state?taskId=a" + inLines, part, coordinator.CodeAckConflict},
		"a task that is not expected":   {"PUT /checkpoints/0/tasks/c/state" + inLines, part, coordinator.CodeTaskNotExpected},
		"an unknown job":                {"PUT /checkpoints/0/tasks/b/state?job=x" + inLines, part, coordinator.CodeJobNotFound},
		"another media type":            {"PUT /checkpoints/0/tasks/b/state\nContent-Type: text/csv", part, coordinator.CodeUnsupportedMediaType},
		"an id that is none":            {"PUT /checkpoints/x/tasks/b/state" + inLines, part, coordinator.CodeInvalidParameter},
		"an unknown parameter":          {"PUT /checkpoints/0/tasks/b/state?force=true" + inLines, part, coordinator.CodeInvalidParameter},
		"an unacceptable Accept":        {"PUT /checkpoints/0/tasks/b/state\nAccept: text/html" + inLines, part, coordinator.CodeNotAcceptable},
		"a line that is no JSON":        {"PUT /checkpoints/0/tasks/b/state" + inLines, broken, coordinator.CodeInvalidJSON},
		"a part that is too large":      {"PUT /checkpoints/0/tasks/b/state" + inLines, part, coordinator.CodeTooLarge},
		"an object that is too large":   {"PUT /checkpoints/0/tasks/b/state" + inJSON, ack, coordinator.CodeTooLarge},
		"a state that is too large":     {"POST /checkpoints/0/acks" + inJSON, ack, coordinator.CodeTooLarge},
		"an acknowledgement as a form":  {"POST /checkpoints/0/acks\nContent-Type: application/x-www-form-urlencoded", ack, coordinator.CodeUnsupportedMediaType},
		"a value that is too large":     {"PUT /checkpoints/0/state/k" + inJSON, ack, coordinator.CodeTooLarge},
		"a path that is none":           {"PUT /checkpoint/0" + inLines, part, coordinator.CodeNotFound},
		"a method that there is not":    {"POST /checkpoints/0/tasks/b/state" + inLines, part, coordinator.CodeMethodNotAllowed},
		"a page of another origin":      {"PUT /checkpoints/0/tasks/b/state\nOrigin: http://example.org" + inLines, part, coordinator.CodeForbidden},
		"an import that is no export":   {"POST /jobs/other/import" + inLines, part, coordinator.CodeInvalidRequest},
		"an acknowledgement that is no": {"POST /checkpoints/0/acks?x=1" + inJSON, ack, coordinator.CodeInvalidParameter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := f.on(t)
			s := f.sender()
			s.send(c.head, c.body, false).refused(c.code)
			// All of the body was read, so the connection goes on.
			s.send("GET /healthz", nil, false).want(http.StatusOK)
			got := f.sender().send(c.head, c.body, true)
			got.refused(c.code)
			if got.header.Get("Connection") != "close" {
				t.Errorf("a body without a length has %v", got.header)
			}
		})
	}
}

func TestARefusalOfAStrangerReachesWhoSendsEverythingBeforeReading(t *testing.T) {
	t.Parallel()
	f := guarded(t, map[string]string{"reader": `"roles":["read"]`, "admin": `"roles":["admin","trigger","read"]`})
	f.do("POST", "/checkpoints", `{"requiredTaskAcks":1}`, as("admin")...).want(http.StatusCreated)
	part := lines(more)
	s := f.sender()
	s.send("PUT /checkpoints/0/tasks/b/state"+inLines, part, false).refused(coordinator.CodeUnauthorized)
	s.send("PUT /checkpoints/0/tasks/b/state\nAuthorization: Bearer token-of-reader"+inLines, part, false).refused(coordinator.CodeForbidden)
	s.send("POST /jobs/x/import\nAuthorization: Bearer token-of-reader"+inLines, part, true).refused(coordinator.CodeForbidden)
}

func TestARefusalForLackOfAPlaceReachesWhoSendsEverythingBeforeReading(t *testing.T) {
	t.Parallel()
	part := lines(more)
	for name, c := range map[string]struct {
		limits func(*load.Limits)
		code   coordinator.Code
	}{
		"no place at all":        {func(l *load.Limits) { l.Uploads, l.JobShare, l.ClientShare = 1, 100, 100 }, coordinator.CodeOverloaded},
		"a client has its share": {func(l *load.Limits) { l.Uploads, l.JobShare, l.ClientShare = 2, 100, 50 }, coordinator.CodeTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, want := serveCrowded(t, c.limits), c.code
			c.occupy("PUT", "/checkpoints/0/tasks/a/state?job="+hog, "{}")
			s := c.sender()
			s.send("PUT /checkpoints/0/tasks/a/state"+inLines, part, false).refused(want)
			c.let()
		})
	}
}

// A sender that listens need not wait for the end of what it sends, and one that is slow holds nothing.
func TestARefusalComesBeforeTheRestOfItsBodyAndFreesThePlace(t *testing.T) {
	t.Parallel()
	bounds := load.DefaultLimits()
	bounds.Uploads, bounds.JobShare, bounds.ClientShare = 1, 100, 100
	l := load.New(bounds)
	f := serve(t, setup{options: handlers.Options{Load: l}})
	f.ended()
	for name, length := range map[string]string{
		"of a known length":        "Content-Length: 10000000",
		"of a length beyond bound": "Content-Length: 4000000000",
		"of an unknown length":     "Transfer-Encoding: chunked",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := f.on(t)
			s := f.sender()
			if _, err := io.WriteString(s.Conn, "PUT /checkpoints/1/tasks/b/state HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"+length+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			got := s.answer("PUT", "PUT")
			got.refused(coordinator.CodeCheckpointAborted)
			if closes := got.header.Get("Connection") == "close"; closes != (name != "of a known length") {
				t.Errorf("the answer has %v", got.header)
			}
			// The first one still could send, and the only place is free.
			f.do("PUT", "/checkpoints/0/tasks/b/state", "{}").want(http.StatusOK)
		})
	}
}

func TestASenderThatWaitsFor100ContinueIsRefusedWithoutItWhateverItSends(t *testing.T) {
	t.Parallel()
	f := guarded(t, map[string]string{"reader": `"roles":["read"]`})
	for path, code := range map[string]coordinator.Code{
		"PUT /checkpoints/0/tasks/b/state":                                          coordinator.CodeUnauthorized,
		"POST /checkpoints/0/acks":                                                  coordinator.CodeUnauthorized,
		"POST /checkpoints/0/acks\r\nAuthorization: Bearer token-of-reader":         coordinator.CodeForbidden,
		"PUT /checkpoints/0/tasks/b/state\r\nAuthorization: Bearer token-of-reader": coordinator.CodeForbidden,
	} {
		line, headers, more := strings.Cut(path, "\r\n")
		if more {
			headers += "\r\n"
		}
		s := f.sender()
		if _, err := io.WriteString(s.Conn, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+headers+"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		first, err := s.Peek(len("HTTP/1.1 xxx"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(first), "100") {
			t.Errorf("%s is told to send what is refused", path)
			continue
		}
		s.answer(path, "PUT").refused(code)
		if n, err := s.Reader.Read(make([]byte, 1)); err == nil || n > 0 { // or 100 Continue would come late
			t.Errorf("%s: the connection goes on", path)
		}
	}
}

// What follows a refusal whose body does not come whole is no request, whatever it looks like.
func TestTheRestOfARefusedBodyIsNeverTakenForARequest(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.ended()
	s := f.sender()
	if _, err := io.WriteString(s.Conn, "PUT /checkpoints/1/tasks/b/state HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	s.answer("PUT", "PUT").refused(coordinator.CodeCheckpointAborted)
	if _, err := io.WriteString(s.Conn, "no chunk\r\nDELETE /jobs/default HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Reader.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("something was answered: %v", err)
	}
	f.do("GET", "/jobs/default", "").want(http.StatusOK)
}
