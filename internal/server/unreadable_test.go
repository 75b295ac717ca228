package server_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/api"
)

func TestWhatIsNoRequestIsRefusedAsAProblemToo(t *testing.T) {
	t.Parallel()
	s, log := startLogged(t, embedded(t))
	for name, c := range map[string]struct {
		sent   string
		status int
		code   api.ProblemCode
		says   string
	}{
		"a percent sign that encodes nothing": {"PUT /checkpoints/7/tasks/50%/state HTTP/1.1\r\nHost: x\r\n\r\n", 400, api.ProblemCodeInvalidRequest, "percent-encoded"},
		"a header that is none":               {"GET / HTTP/1.1\r\nHost: x\r\na b: c\r\n\r\n", 400, api.ProblemCodeInvalidRequest, "names and values of the headers"},
		"no host":                             {"GET / HTTP/1.1\r\n\r\n", 400, api.ProblemCodeInvalidRequest, "one Host"},
		"headers without end":                 {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 300<<10) + "\r\n\r\n", 413, api.ProblemCodeTooLarge, "Shorten them"},
		"an unknown transfer encoding":        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400, api.ProblemCodeInvalidParameter, "Transfer-Encoding"},
		"an expectation that nobody meets":    {"POST /checkpoints HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n", 400, api.ProblemCodeInvalidParameter, "Expect"},
		"another HTTP":                        {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 400, api.ProblemCodeInvalidRequest, "Speak HTTP/1.1"},
	} {
		got := sendRaw(t, s.Addr(), c.sent)
		var problem api.Problem
		if err := json.Unmarshal([]byte(got.text), &problem); err != nil {
			t.Errorf("%s: %d %q", name, got.status, got.text)
			continue
		}
		id, isID := strings.CutPrefix(problem.Instance, "urn:checkpointd:request:")
		if got.status != c.status || problem.Status != c.status || problem.Code != c.code || !strings.Contains(got.text, c.says) ||
			!isID || got.header.Get("X-Request-Id") != id || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %s", name, got.status, got.header, got.text)
		}
		if !strings.Contains(log.String(), `"requestId":"`+id+`"`) {
			t.Errorf("%s: the log has no request %s", name, id)
		}
	}
	// What handlers answer is left alone, refusals among it.
	if got := sendRaw(t, s.Addr(), "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); got.status != 404 || !strings.Contains(got.text, "not_found") {
		t.Errorf("%d %s", got.status, got.text)
	}
	metrics := call(t, http.MethodGet, s.URL()+"/metrics", "").text
	if !strings.Contains(metrics, `checkpointd_http_requests_total{method="other",route="unmatched",status="413"} 1`) {
		t.Errorf("the metrics do not count what is no request: %s", metrics)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// sendRaw sends bytes and reads the whole answer.
func sendRaw(t *testing.T, address, text string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: response.StatusCode, header: response.Header, text: string(body)}
}

// Python's urllib, for one, reads nothing before it has sent everything.
func TestWhatIsNoRequestIsToldSoAlsoToWhoSendsALargeBodyWithIt(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	body := strings.Repeat("x", 20<<20)
	for name, head := range map[string]string{
		"a percent sign that encodes nothing": "PUT /checkpoints/7/tasks/50%/state HTTP/1.1\r\nHost: x\r\n",
		"headers without end":                 "PUT / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 300<<10) + "\r\n",
		"an expectation that nobody meets":    "POST /checkpoints HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n",
	} {
		got := sendRaw(t, s.Addr(), head+"Content-Length: 20971520\r\n\r\n"+body)
		if got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
	}
}

func TestARefusalOverTLSReachesWhoSendsEverythingBeforeReading(t *testing.T) {
	t.Parallel()
	b, config := newBehindTLS(t)
	s := start(t, config)
	conn, err := tls.Dial("tcp", s.Addr(), b.shown.Trust())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 { // on one connection
		_, err := io.WriteString(conn, "PUT /checkpoints/7/tasks/a/state HTTP/1.1\r\nHost: x\r\nContent-Length: 20971520\r\n\r\n"+strings.Repeat("x", 20<<20))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%d %s %v", answer.StatusCode, text, err)
		}
	}
}
