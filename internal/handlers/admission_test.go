package handlers_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/api/apitest"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
	"github.com/checkpointd/checkpointd/internal/doors/doorstest"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// tokens are a tokens file of entries without their hashes; the token of a name is
// "token-of-" and the name.
func tokens(t *testing.T, entries map[string]string) *doors.Tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	writeTokens(t, path, entries)
	known, err := doors.OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func writeTokens(t *testing.T, path string, entries map[string]string) {
	t.Helper()
	var all []string
	for name, rest := range entries {
		all = append(all, doorstest.Entry(name, "token-of-"+name, rest))
	}
	doorstest.WriteTokens(t, path, all...)
}

func guarded(t *testing.T, entries map[string]string) *fixture {
	t.Helper()
	return serve(t, setup{options: handlers.Options{Caller: tokens(t, entries).Caller, Public: map[string]bool{"/healthz": true, "/readyz": true}}})
}

func as(name string) []string { return []string{"Authorization", "Bearer token-of-" + name} }

// ofTasks are the operations that a token's task patterns bind; the others know no task, or
// read it or manage it.
var ofTasks = map[string]bool{"acknowledge": true, "uploadPart": true, "uploadPartByQuery": true, "abortCheckpoint": true}

// Every operation of the contract is called as every role, in the token's own job and in
// another, for tasks that the token is for and for others: only what x-role says may get past
// the door.
func TestATokenMayDoWhatTheContractSaysOfItsRoleAndNothingElse(t *testing.T) {
	t.Parallel()
	document, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatal(err)
	}
	examples, err := apitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]string{}
	for _, role := range doors.Roles() {
		entries["every-"+string(role)] = fmt.Sprintf(`"roles":[%q]`, role)
		entries["bound-"+string(role)] = fmt.Sprintf(`"roles":[%q],"jobs":["mine-*"]`, role)
		entries["tasks-"+string(role)] = fmt.Sprintf(`"roles":[%q],"tasks":["task-*"]`, role)
		entries["alien-"+string(role)] = fmt.Sprintf(`"roles":[%q],"tasks":["other-*"]`, role)
	}
	f := guarded(t, entries)
	for _, example := range examples {
		o := document.Paths.Value(example.Path).GetOperation(example.Method)
		demanded, _ := o.Extensions["x-role"].(string)
		ofTask, _ := o.Extensions["x-role-for-a-task"].(string)
		everyJob := o.Extensions["x-jobs"] == "all"
		inJob := strings.Contains(example.Request.Path, "example-"+example.OperationID)
		if demanded == "" {
			t.Errorf("%s has no x-role", example.OperationID)
		}
		namesTask := strings.Contains(string(example.Request.Body), `"taskId"`) || strings.Contains(example.Path, "{taskId}") ||
			strings.Contains(example.Request.Path, "taskId=")
		if !namesTask {
			ofTask = ""
		}
		send := func(job string, headers ...string) answer {
			path := strings.ReplaceAll(example.Request.Path, "example-"+example.OperationID, job+"-"+example.OperationID)
			body := string(example.Request.Body)
			if example.Request.Text != nil {
				body = *example.Request.Text
			}
			for name, value := range example.Request.Headers {
				headers = append(headers, name, value)
			}
			return f.do(example.Request.Method, path, body, headers...)
		}
		isPublic := example.Path == "/healthz" || example.Path == "/readyz"
		stranger := send("mine")
		if open := stranger.status != http.StatusUnauthorized; open != (isPublic && !strings.Contains(example.Request.Path, "verbose")) {
			t.Errorf("%s answers a stranger %d", example.OperationID, stranger.status)
		}
		for _, role := range doors.Roles() {
			suits := demanded == "any" || demanded == string(role) || ofTask == string(role)
			if example.OperationID == "getReadiness" { // its example asks for jobs
				suits = role == doors.Read
			}
			for _, c := range []struct {
				token, job string
				want       bool
			}{
				{"every-", "mine", suits},
				{"every-", "other", suits},
				{"bound-", "mine", suits && !everyJob},
				{"bound-", "other", suits && !everyJob && !inJob},
				{"tasks-", "mine", suits},
				{"alien-", "mine", suits && !(ofTasks[example.OperationID] && namesTask)},
			} {
				got := send(c.job, as(c.token+string(role))...)
				refused := got.status == http.StatusForbidden &&
					(example.Method == http.MethodHead || strings.Contains(got.body, `"code":"forbidden"`))
				if got.status == http.StatusUnauthorized || refused == c.want {
					t.Errorf("%s in a job %s as %s%s: status %d, allowed should be %v", example.OperationID, c.job, c.token, role, got.status, c.want)
				}
			}
		}
	}
}

func TestATaskPatternBindsAcksUploadsAndDeclines(t *testing.T) {
	t.Parallel()
	f := guarded(t, map[string]string{"ops": `"roles":["trigger","read"]`, "worker": `"roles":["ack"],"tasks":["task-1","reader-*"]`})
	f.do("POST", "/checkpoints", `{"requiredTaskAcks":5}`, as("ops")...).want(http.StatusCreated)
	for _, general := range [][]string{nil, toTheGeneralDoor} {
		f.do("POST", "/checkpoints/0/acks", `{"taskId":"task-2"}`, append(as("worker"), general...)...).refused(coordinator.CodeForbidden)
		f.do("POST", "/checkpoints/0/acks", `{"taskId":"task-1"}`, append(as("worker"), general...)...).want(http.StatusOK)
		list := `{"acks":[{"taskId":"reader-1"},{"taskId":"task-2"}]}`
		problem := f.do("POST", "/checkpoints/0/acks", list, append(as("worker"), general...)...).refused(coordinator.CodeForbidden)
		if *problem.Errors[0].Pointer != "/acks/1/taskId" {
			t.Errorf("the problem points at %+v", problem.Errors)
		}
	}
	f.do("PUT", "/checkpoints/0/tasks/task-2/state", `{}`, as("worker")...).refused(coordinator.CodeForbidden)
	f.do("PUT", "/checkpoints/0/tasks/reader-7/state", `{}`, as("worker")...).want(http.StatusOK)
	f.do("PUT", "/checkpoints/0/task/state?taskId=task-2", `{}`, as("worker")...).refused(coordinator.CodeForbidden)
	f.do("PUT", "/checkpoints/0/task/state?taskId=reader-7", `{}`, as("worker")...).want(http.StatusOK)
	var seen api.Checkpoint
	f.do("GET", "/checkpoints/0", "", as("ops")...).want(http.StatusOK).into(&seen)
	if seen.AcknowledgedTasks != 1 {
		t.Errorf("%d tasks have acknowledged, of a refused list some", seen.AcknowledgedTasks)
	}
	f.do("POST", "/checkpoints/0/abort", `{"taskId":"task-2"}`, as("worker")...).refused(coordinator.CodeForbidden)
	f.do("POST", "/checkpoints/0/abort", `{}`, as("worker")...).refused(coordinator.CodeForbidden)
	f.do("POST", "/checkpoints/0/abort", `{"taskId":"task-1"}`, as("worker")...).want(http.StatusOK)
}

func TestAStrangerIsToldHowToComeIn(t *testing.T) {
	t.Parallel()
	f := guarded(t, map[string]string{"ops": `"roles":["read"]`})
	for _, c := range []struct{ sent, challenge string }{
		{"", `Bearer realm="checkpointd"`},
		{"Bearer token-of-nobody", `Bearer realm="checkpointd", error="invalid_token"`},
		{"Basic dG9rZW4=", `Bearer realm="checkpointd", error="invalid_token"`},
	} {
		var headers []string
		if c.sent != "" {
			headers = []string{"Authorization", c.sent}
		}
		got := f.do("POST", "/checkpoints/0/acks", `{"taskId":"task-1"}`, headers...)
		got.refused(coordinator.CodeUnauthorized)
		if challenge := got.header.Get("WWW-Authenticate"); challenge != c.challenge {
			t.Errorf("%q is answered with %s", c.sent, challenge)
		}
		if strings.Contains(got.body, "nobody") {
			t.Errorf("the answer quotes the token: %s", got.body)
		}
	}
	f.do("GET", "/readyz?verbose", "").refused(coordinator.CodeUnauthorized)
}

func TestATokenSeesTheJobsThatItIsFor(t *testing.T) {
	t.Parallel()
	f := guarded(t, map[string]string{"ops": `"roles":["trigger"]`, "reader": `"roles":["read"],"jobs":["ord*"]`})
	f.do("POST", "/checkpoints?job=orders", "", as("ops")...).want(http.StatusCreated)
	f.do("POST", "/checkpoints?job=payments", "", as("ops")...).want(http.StatusCreated)
	for _, path := range []string{"/jobs", "/readyz?verbose"} {
		body := f.do("GET", path, "", as("reader")...).want(http.StatusOK).body
		if !strings.Contains(body, "orders") || strings.Contains(body, "payments") {
			t.Errorf("%s is %s", path, body)
		}
	}
}

// withdrawable are tokens of which "gone" is withdrawn by withdraw. found has an entry for each
// request whose caller was looked up.
func withdrawable(t *testing.T, rest string) (f *fixture, found chan struct{}, withdraw func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	stays := `"roles":["read","trigger","events"]`
	writeTokens(t, path, map[string]string{"gone": rest, "stays": stays})
	known, err := doors.OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	found = make(chan struct{}, 100)
	f = serve(t, setup{live: true, options: handlers.Options{Caller: func(r *http.Request) *doors.Caller {
		defer func() { found <- struct{}{} }()
		return known.Caller(r)
	}}})
	return f, found, func() {
		t.Helper()
		writeTokens(t, path, map[string]string{"stays": stays})
		if changed, err := known.Reload(); err != nil || !changed {
			t.Fatal(changed, err)
		}
	}
}

func TestAWithdrawnTokenEndsItsStreamsAndItsWaits(t *testing.T) {
	t.Parallel()
	f, found, withdraw := withdrawable(t, `"roles":["read","events","trigger"]`)
	stays := f.follow("", as("stays")...)
	<-found
	ended := make(chan error, 3)
	for call, status := range map[string]int{
		"GET /events": http.StatusOK,
		"GET /checkpoints?status=pending&wait=60": http.StatusUnauthorized,
		"POST /checkpoints?job=other&wait=60":     http.StatusCreated, // which it was
	} {
		go func() {
			method, path, _ := strings.Cut(call, " ")
			got, err := f.try(method, path, http.NoBody, as("gone")...)
			if err == nil && got.status != status {
				err = fmt.Errorf("%s: %d %s", call, got.status, got.body)
			}
			ended <- err
		}()
	}
	for range cap(ended) {
		<-found
	}
	for f.do("GET", "/checkpoints?job=other", "", as("stays")...).status != http.StatusOK {
		continue // until it is triggered
	}
	withdraw()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	f.do("GET", "/checkpoints", "", as("gone")...).refused(coordinator.CodeUnauthorized)
	f.do("POST", "/checkpoints", "", as("stays")...).want(http.StatusCreated)
	if got := stays.next().Type; got != string(coordinator.EventTriggered) {
		t.Errorf("the stream of a token that stays has %s", got)
	}
}

// Who may is judged when a request comes: a fleet whose token is changed keeps what it is just
// sending and reading.
func TestATransferGoesOnThatBeganBeforeItsTokenWasWithdrawn(t *testing.T) {
	t.Parallel()
	f, found, withdraw := withdrawable(t, `"roles":["ack","read","trigger"]`)
	large := `{"key":"a","value":"` + strings.Repeat("x", 8<<20) + "\"}\n"
	for id, path := range []string{"/checkpoints/0", "/checkpoints/1"} {
		f.do("POST", "/checkpoints", "", as("gone")...).want(http.StatusCreated)
		<-found
		if id == 0 {
			f.do("PUT", path+"/tasks/task-1/state?ack=true", large, append(as("gone"), "Content-Type", "application/x-ndjson")...).want(http.StatusOK)
			<-found
		}
	}
	body, rest := io.Pipe()
	uploaded := make(chan error, 1)
	go func() {
		got, err := f.try("PUT", "/checkpoints/1/tasks/task-1/state?ack=true", body, append(as("gone"), "Content-Type", "application/x-ndjson")...)
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("the upload: %d %s", got.status, got.body)
		}
		uploaded <- err
	}()
	if _, err := io.WriteString(rest, large); err != nil { // more than lies in buffers, so it is being read
		t.Fatal(err)
	}
	<-found
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/checkpoints/0/restore", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer token-of-gone")
	response, err := f.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()

	withdraw()
	f.do("GET", "/checkpoints/0/restore", "", as("gone")...).refused(coordinator.CodeUnauthorized)
	if _, err := io.WriteString(rest, `{"key":"b","value":1}`+"\n"); err != nil {
		t.Error(err)
	}
	_ = rest.Close() // of a pipe
	if err := <-uploaded; err != nil {
		t.Error(err)
	}
	if n, err := io.Copy(io.Discard, response.Body); err != nil || n != response.ContentLength {
		t.Errorf("%d of %d bytes were restored, %v", n, response.ContentLength, err)
	}
	var seen api.Checkpoint
	f.do("GET", "/checkpoints/1", "", as("stays")...).want(http.StatusOK).into(&seen)
	if seen.Status != api.CheckpointStatusCompleted {
		t.Errorf("the checkpoint of the upload is %s", seen.Status)
	}
}
