package fault_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// send makes a request on a connection of its own.
func send(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		request.Body = nil
	} else {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}
	response, err := client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: string(text), err: err}
}

func TestWhatNoRuleIsAboutPassesThroughAndIsNoted(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	id := server.Trigger("task-1").ID
	path := fmt.Sprintf("/checkpoints/%d/tasks/task-1/state?ack=true&epoch=0", id)
	part := strings.Repeat(`{"key":"k","value":1}`+"\n", 1)
	if got := send(t, "PUT", front.URL+path, part, "Content-Type", "application/x-ndjson", "Expect", "100-continue"); got.status != http.StatusOK {
		t.Fatalf("the upload is answered %+v", got)
	}
	through, straight := send(t, "GET", front.URL+"/checkpoints/latest/restore", ""), send(t, "GET", server.URL+"/checkpoints/latest/restore", "")
	if through.body != straight.body || through.header.Get("ETag") != straight.header.Get("ETag") || through.body == "" {
		t.Errorf("through the front comes %+v, straight %+v", through, straight)
	}
	ranged := send(t, "GET", fmt.Sprintf("%s/checkpoints/%d/restore", front.URL, id), "", "Range", "bytes=5-9")
	if ranged.status != http.StatusPartialContent || ranged.body != straight.body[5:10] {
		t.Errorf("a range is answered %+v", ranged)
	}
	got, err := front.Wait(t.Context(), func(r fault.Requests) bool { return len(r) == 3 && r[2].Over })
	if err != nil {
		t.Fatal(err)
	}
	upload := got[0]
	if upload.Var(fault.Upload, "taskId") != "task-1" || upload.Query.Get("epoch") != "0" || string(upload.Body) != part ||
		upload.BodyBytes != int64(len(part)) || len(upload.BodyDigest) != len("sha256:")+64 || upload.Status != 200 || !upload.Whole || upload.Fault != "" {
		t.Errorf("the upload is noted as %+v", upload)
	}
	if restores := got.Of(fault.Restore); len(restores) != 2 || restores[0].Var(fault.Restore, "id") != "latest" ||
		string(restores[0].Answer) != straight.body || restores[0].AnswerBytes != int64(len(straight.body)) {
		t.Errorf("the restores are noted as %+v", restores)
	}
	if line := upload.String(); !strings.HasPrefix(line, "PUT /checkpoints/0/tasks/task-1/state?ack=true") || !strings.HasSuffix(line, "→ 200") {
		t.Errorf("as a line: %s", line)
	}
}

func TestAnUploadIsRefusedBeforeItsBodyComes(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	id := server.Trigger("task-1").ID
	server.Abort(id)
	got := send(t, "PUT", fmt.Sprintf("%s/checkpoints/%d/tasks/task-1/state", front.URL, id), "{}", "Expect", "100-continue")
	if got.status != http.StatusConflict || front.Requests()[0].BodyBytes != 0 {
		t.Errorf("it was answered %+v, noted as %+v", got, front.Requests()[0])
	}
}

func TestAStreamArrivesPieceByPieceAndIsCutOnDemand(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/events?lastEventId=0-0", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	server.Trigger("task-1")
	lines := bufio.NewScanner(response.Body)
	seen := false
	for !seen && lines.Scan() { // would never come through a buffer
		seen = lines.Text() == "event: checkpoint.triggered"
	}
	if cut := front.Cut(fault.Upload); cut != 0 {
		t.Errorf("%d uploads were cut", cut)
	}
	if cut := front.Cut(fault.Events); !seen || cut != 1 {
		t.Errorf("the event was seen: %t; %d streams were cut", seen, cut)
	}
	for lines.Scan() {
	}
	if lines.Err() == nil {
		t.Error("the stream ended as if it were whole")
	}
	got, err := front.Wait(t.Context(), func(r fault.Requests) bool { return r[0].Over })
	if err != nil || got[0].Whole || got[0].Status != 200 {
		t.Errorf("noted as %+v (%v)", got, err)
	}
}

func TestRulesApplyInTheirOrderAndComeToAnEnd(t *testing.T) {
	t.Parallel()
	front := checkpointtest.Start(t).Front()
	front.Script(
		fault.On(fault.Latest).Refuse("overloaded").After(1).Times(2),
		fault.On("/checkpoints/latest").Where(func(r fault.Request) bool { return r.Query.Get("after") == "7" }).Refuse("internal"),
		fault.On(fault.List).Refuse("too_many_requests").Always(),
	)
	var statuses []int
	for _, path := range []string{"/checkpoints/latest", "/checkpoints/latest?after=7", "/checkpoints/latest", "/checkpoints/latest", "/checkpoints/latest?after=7", "/checkpoints", "/checkpoints"} {
		statuses = append(statuses, send(t, "GET", front.URL+path, "").status)
	}
	front.Clear()
	statuses = append(statuses, send(t, "GET", front.URL+"/checkpoints", "").status)
	if got := fmt.Sprint(statuses); got != "[404 503 503 404 500 429 429 200]" {
		t.Errorf("the statuses are %s", got)
	}
}

func TestARefusalIsAProblemOfTheContract(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(
		fault.On(fault.Latest).RetryAfter(2500*time.Millisecond).Refuse("store_unavailable"),
		fault.On(fault.Latest).Refuse("shutting_down"),
		fault.On(fault.Latest).Refuse("no_completed_checkpoint"),
	)
	for _, want := range []struct {
		status     int
		code       string
		retryAfter string
	}{{503, "store_unavailable", "3"}, {503, "shutting_down", "1"}, {404, "no_completed_checkpoint", ""}} {
		got := send(t, "GET", front.URL+"/checkpoints/latest", "")
		var problem map[string]any
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
			t.Fatal(err)
		}
		if got.status != want.status || problem["code"] != want.code || got.header.Get("Retry-After") != want.retryAfter ||
			got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("want %+v, got %+v", want, got)
		}
		// The real one has the same members.
		var servers map[string]any
		if err := json.Unmarshal([]byte(send(t, "GET", server.URL+"/checkpoints/latest", "").body), &servers); err != nil {
			t.Fatal(err)
		}
		for member, value := range servers {
			if _, has := problem[member]; !has || want.code == servers["code"] && (member == "type" || member == "title") && problem[member] != value {
				t.Errorf("%s is %v, the server's %v", member, problem[member], value)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a code that is none was taken")
		}
	}()
	fault.On(fault.Latest).Refuse("out_of_coffee")
}

func TestACutBeforeIsNotCarriedOutAndACutAfterIs(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(fault.On(fault.Trigger).CutBefore(), fault.On(fault.Trigger), fault.On(fault.Trigger).CutAfter())
	for want, answered := range []bool{false, true, false} {
		if got := send(t, "POST", front.URL+"/checkpoints", `{"tasks":["task-1"]}`); (got.err == nil) != answered {
			t.Errorf("the answer is %+v", got)
		}
		if got := strings.Count(send(t, "GET", server.URL+"/checkpoints", "").body, `"checkpointId"`); got != want {
			t.Errorf("there are %d checkpoints, want %d", got, want)
		}
	}
	for _, noted := range front.Requests().Where(func(r fault.Request) bool { return r.Fault != "" }) {
		if noted.Status != 0 || noted.Whole || noted.Fault == "" || !strings.Contains(noted.String(), "no answer (") {
			t.Errorf("noted as %+v, %s", noted, noted)
		}
	}
}

func TestBodiesAndAnswersBreakOffWhereTheyAreTold(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	id := server.Trigger("task-1", "task-2").ID
	part := `{"n":"` + strings.Repeat("x", 200_000) + `"}`
	path := fmt.Sprintf("/checkpoints/%d/tasks/task-1/state", id)
	front.Script(fault.On(fault.Upload).CutBodyAfter(1000))
	if got := send(t, "PUT", front.URL+path, part); got.err == nil {
		t.Errorf("half an upload is answered %+v", got)
	}
	if noted := front.Requests()[0]; noted.BodyBytes != 1000 || noted.BodyDigest != "" {
		t.Errorf("noted as %d bytes of digest %q", noted.BodyBytes, noted.BodyDigest)
	}
	for _, task := range []string{"task-1", "task-2"} {
		send(t, "PUT", strings.Replace(front.URL+path, "task-1", task, 1)+"?ack=true", part)
	}
	whole := send(t, "GET", front.URL+"/checkpoints/latest/restore", "")
	for _, most := range []int{0, 1, 100_000, len(whole.body) - 1} {
		front.Script(fault.On(fault.Restore).CutAnswerAfter(int64(most)))
		if got := send(t, "GET", front.URL+"/checkpoints/latest/restore", ""); got.err == nil || got.body != whole.body[:most] {
			t.Errorf("of %d bytes came %d (%v)", most, len(got.body), got.err)
		}
	}
	front.Script(fault.On(fault.Restore).CutAnswerAfter(int64(len(whole.body))))
	if got := send(t, "GET", front.URL+"/checkpoints/latest/restore", ""); got.err != nil || got.body != whole.body {
		t.Errorf("of all bytes came %d (%v)", len(got.body), got.err)
	}
}

func TestAnAnswerIsReplacedOrAlteredAndRequestsAreHeld(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	server.Trigger()
	front.Script(
		fault.On(fault.List).Garbage(),
		fault.On(fault.List).Answer(func(http.ResponseWriter, *http.Request) {}),
		fault.On(fault.List).Alter(func(r *http.Response) error {
			text, err := io.ReadAll(r.Body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(text, []byte("pending"), []byte("pensive")))), -1
			r.Header.Del("Content-Length")
			return err
		}),
		fault.On(fault.List).Alter(func(*http.Response) error { return errors.New("no") }),
		fault.On(fault.List).Before(func() { server.Trigger() }).Delay(time.Millisecond),
		fault.On(fault.List).Rewrite(func(r *http.Request) { r.URL.RawQuery = "limit=1" }),
	)
	if got := send(t, "GET", front.URL+"/checkpoints", ""); got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		t.Errorf("the garbage is %+v", got)
	}
	if got := send(t, "GET", front.URL+"/checkpoints", ""); got.status != 200 || got.body != "" || front.Requests()[1].Status != 200 {
		t.Errorf("the handler's answer is %+v", got)
	}
	if got := send(t, "GET", front.URL+"/checkpoints", ""); !strings.Contains(got.body, "pensive") {
		t.Errorf("the altered answer is %+v", got)
	}
	if got := send(t, "GET", front.URL+"/checkpoints", ""); got.err == nil {
		t.Errorf("there is an answer: %+v", got)
	}
	if got := send(t, "GET", front.URL+"/checkpoints", ""); strings.Count(got.body, `"checkpointId"`) != 2 {
		t.Errorf("what was triggered meanwhile is not in %+v", got)
	}
	if got := send(t, "GET", front.URL+"/checkpoints?limit=2", ""); strings.Count(got.body, `"checkpointId"`) != 1 {
		t.Errorf("what is asked for in another way is answered with %+v", got)
	}
	if last := front.Requests()[5]; last.Query.Get("limit") != "2" || last.Fault != "request rewritten" {
		t.Errorf("it is noted as %v", last)
	}
}

func TestWhoHangsIsSetFreeByACutAndADownFrontRefusesConnections(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	front := server.Front()
	front.Script(fault.On(fault.Any).Hang().Times(2))
	for _, free := range []func(){func() { front.Cut(fault.Any) }, front.Down} {
		answered := make(chan answer)
		go func() { answered <- send(t, "POST", front.URL+"/checkpoints", `{}`) }()
		if _, err := front.Wait(t.Context(), func(r fault.Requests) bool { return len(r) > 0 && !r[len(r)-1].Over && r[len(r)-1].BodyDigest != "" }); err != nil {
			t.Fatal(err)
		}
		free()
		if got := <-answered; got.err == nil {
			t.Errorf("there is an answer: %+v", got)
		}
	}
	front.Down()
	if got := send(t, "GET", front.URL+"/healthz", ""); got.err == nil || len(front.Requests()) != 2 {
		t.Errorf("there is an answer: %+v", got)
	}
	for range 2 {
		if err := front.Up(); err != nil {
			t.Fatal(err)
		}
	}
	if got := send(t, "GET", front.URL+"/healthz", ""); got.status != http.StatusOK {
		t.Errorf("back again: %+v", got)
	}
	server.Stop()
	if got := send(t, "GET", front.URL+"/healthz", ""); got.err == nil {
		t.Errorf("without a server there is an answer: %+v", got)
	}
	server.Restart()
	if got := send(t, "GET", front.URL+"/healthz", ""); got.status != http.StatusOK {
		t.Errorf("with the server back: %+v", got)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough of this"))
	if _, err := front.Wait(ended, func(fault.Requests) bool { return false }); err == nil || err.Error() != "enough of this" {
		t.Errorf("the wait ended with %v", err)
	}
	if _, err := fault.Listen("127.0.0.1:0", "nowhere"); err == nil {
		t.Error("a target that is none was taken")
	}
}

func TestRoutesMatchByMethodAndSegments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		route        fault.Route
		method, path string
		want         string // the variables, or "no"
	}{
		{fault.Upload, "PUT", "/checkpoints/7/tasks/a%2Fb/state", "map[id:7 taskId:a/b]"},
		{fault.Upload, "PUT", "/checkpoints/7/task/state", "map[id:7]"},
		{fault.Upload, "POST", "/checkpoints/7/tasks/a/state", "no"},
		{fault.Upload, "PUT", "/checkpoints/7/tasks/a/state/x", "no"},
		{fault.Upload, "PUT", "/checkpoints/7/tasks//state", "no"},
		{fault.List, "GET", "/checkpoints", "map[]"},
		{fault.List, "GET", "/checkpoints/", "no"},
		{fault.Checkpoint, "GET", "/checkpoints/latest", "map[id:latest]"},
		{fault.Any, "PATCH", "/jobs/x", "map[rest:jobs/x]"},
		{fault.Any, "GET", "/", "map[rest:]"},
		{"/jobs/{job}", "DELETE", "/jobs/%zz", "map[job:%zz]"},
		{"/jobs/{job}", "DELETE", "/jobs", "no"},
	} {
		got := "no"
		if vars, ok := c.route.Match(c.method, c.path); ok {
			got = fmt.Sprint(vars)
		}
		if got != c.want {
			t.Errorf("%q against %s %s: %s, want %s", c.route, c.method, c.path, got, c.want)
		}
	}
}
