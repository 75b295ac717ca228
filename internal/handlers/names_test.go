package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// awkward are names that something between a client and us might change.
var awkward = []string{
	"a/b", "/a", "a/", "//", "%2F", "%", "a%b", "%252F", "a b", "a+b", "+", `"quoted"`, "it's", `back\slash`,
	"ключ", "emoji 🦀", "\u00e9", "e\u0301", "a?b=c&d#e", "a;b", "a,b", "a=b", "{}", "<tag>&amp;", "..a", "~", "null", "0",
	strings.Repeat("k", 1024), strings.Repeat("é", 512),
}

// awkwardKeys are names that only keys may have: clients rewrite some of them in paths.
var awkwardKeys = append([]string{".", "..", "-", " ", " a ", "a\nb", "\x00", "\u2028"}, awkward...)

func TestAwkwardKeysComeBackByEveryRoute(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":1}`)
	for _, key := range awkwardKeys {
		value := jsonString("value of " + key)
		byPath, byQuery := path+"/state/"+url.PathEscape(key), path+"/entry?key="+url.QueryEscape(key)
		f.do("PUT", byPath, value).want(http.StatusCreated)
		f.do("PUT", byQuery, value).want(http.StatusNoContent) // the same entry
		for _, route := range []string{byPath, byQuery} {
			if got := f.do("GET", route, "").want(http.StatusOK).body; got != value {
				t.Errorf("key %q came back as %s", key, got)
			}
		}
		f.do("DELETE", byPath, "").want(http.StatusNoContent)
		f.do("GET", byQuery, "").refused(coordinator.CodeKeyNotFound)
		f.do("PATCH", path+"/state", `{"state":{`+jsonString(key)+`:`+value+`}}`).want(http.StatusNoContent)
	}
	f.do("POST", path+"/complete?force=true", "").want(http.StatusOK)

	var document struct{ State map[string]string }
	f.do("GET", path+"/state", "").want(http.StatusOK).into(&document)
	var whole struct{ State map[string]string }
	f.do("GET", path+"/snapshot", "").want(http.StatusOK).into(&whole)
	restored := map[string]string{}
	for line := range strings.Lines(f.do("GET", path+"/restore", "").want(http.StatusOK).body) {
		var entry struct{ Key, Value string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		restored[entry.Key] = entry.Value
	}
	for _, key := range awkwardKeys {
		want := "value of " + key
		if document.State[key] != want || whole.State[key] != want || restored[key] != want {
			t.Errorf("key %q: state %q, snapshot %q, restore %q", key, document.State[key], whole.State[key], restored[key])
		}
		for _, route := range []string{"/checkpoints/latest/state/" + url.PathEscape(key), "/checkpoints/latest/entry?key=" + url.QueryEscape(key)} {
			var got string
			if f.do("GET", route, "").want(http.StatusOK).into(&got); got != want {
				t.Errorf("key %q of the latest: %q", key, got)
			}
		}
	}
	if got, want := len(restored), len(awkwardKeys); got != want {
		t.Errorf("%d keys were restored, want %d", got, want)
	}
}

func TestAwkwardTaskIDsComeBackByEveryRoute(t *testing.T) {
	t.Parallel()
	f := serve(t)
	names := jsonString("inline")
	for _, id := range awkward {
		names += "," + jsonString(id)
	}
	path := f.trigger(`{"tasks":[` + names + `]}`)
	f.do("POST", path+"/acks", `{"taskId":"inline"}`).want(http.StatusOK)
	for _, id := range awkward {
		route, name := path+"/tasks/"+url.PathEscape(id), jsonString(id)
		f.do("PUT", route+"/state", `{"key":"k","value":`+name+`,"taskId":`+name+"}\n", "Content-Type", "application/x-ndjson").want(http.StatusOK)
		var task api.Task
		f.do("GET", route, "").want(http.StatusOK).into(&task)
		if task.TaskID != id || task.Status != api.TaskStatusMissing || task.Uploaded == nil {
			t.Errorf("task %q before its acknowledgement: %+v", id, task)
		}
		f.do("POST", path+"/acks", `{"taskId":`+name+`}`).want(http.StatusOK)
		f.do("GET", route, "").want(http.StatusOK).into(&task)
		if task.TaskID != id || task.Status != api.TaskStatusAcknowledged {
			t.Errorf("task %q after its acknowledgement: %+v", id, task)
		}
	}
	for _, id := range awkward {
		var entry struct{ TaskID, Key, Value string }
		f.do("GET", path+"/restore?taskId="+url.QueryEscape(id), "").want(http.StatusOK).into(&entry)
		if entry.TaskID != id || entry.Value != id {
			t.Errorf("task %q was restored as %+v", id, entry)
		}
	}
	var listed []string
	for after := ""; ; {
		var page api.TaskList
		f.do("GET", path+"/tasks?limit=7&after="+url.QueryEscape(after), "").want(http.StatusOK).into(&page)
		for _, task := range page.Tasks {
			listed = append(listed, task.TaskID)
		}
		if page.Next == nil {
			break
		}
		after = *page.Next
	}
	if got, want := len(listed), len(awkward)+1; got != want {
		t.Errorf("%d tasks were listed, want %d: %q", got, want, listed)
	}
}

// The form with the name in the query is for names that a proxy would change in a path.
func TestAwkwardTaskIDsDoEverythingByQuery(t *testing.T) {
	t.Parallel()
	f := serve(t)
	for _, id := range append([]string{"x/../y", "ü ?&#"}, awkward...) {
		path := f.trigger(`{"tasks":[` + jsonString(id) + `]}`)
		query := "?taskId=" + url.QueryEscape(id)
		f.do("PUT", path+"/task/state"+query+"&attempt=3&epoch=0", `{"k":`+jsonString(id)+`}`).want(http.StatusOK)
		var task api.Task
		for _, form := range []string{"/task" + query, "/tasks/" + url.PathEscape(id)} { // both are about the same task
			f.do("GET", path+form, "").want(http.StatusOK).into(&task)
			if task.TaskID != id || task.Uploaded == nil {
				t.Errorf("task %q by %s: %+v", id, form, task)
			}
		}
		f.do("PUT", path+"/task/state"+query+"&attempt=3&ack=true", `{"k":`+jsonString(id)+`}`).want(http.StatusOK)
		var entry struct{ TaskID, Value string }
		f.do("GET", path+"/restore"+query, "").want(http.StatusOK).into(&entry)
		if entry.TaskID != id || entry.Value != id {
			t.Errorf("task %q was restored as %+v", id, entry)
		}
		next := f.trigger(`{"tasks":[` + jsonString(id) + `]}`)
		f.do("PUT", next+"/task/state"+query+"&attempt=2", `{}`).refused(coordinator.CodeStaleAttempt)
		f.do("DELETE", "/jobs/default/task"+query, "").want(http.StatusNoContent)
		f.do("PUT", next+"/task/state"+query+"&attempt=2&ack=true", `{}`).want(http.StatusOK)
	}
}

func jsonString(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // no string has one
	}
	return string(b)
}

func TestNamesThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":2}`)
	for _, route := range []string{
		path + "/state/" + strings.Repeat("k", 1025),
		path + "/entry?key=",
		path + "/entry?key=" + strings.Repeat("k", 1025),
		path + "/entry?key=%ff",
		path + "/state/%ff",
		path + "/tasks/-",
		path + "/task",
		path + "/task?taskId=",
		path + "/task?taskId=-",
		path + "/task?taskId=%20a",
		path + "/task?taskId=a&taskId=b",
		path + "/task?taskId=" + strings.Repeat("t", 1025),
		path + "/tasks/%20a",
		path + "/tasks/a%0A",
		path + "/tasks/" + strings.Repeat("t", 1025),
		"/checkpoints?notAckedBy=",
		"/checkpoints?job=-a",
		"/checkpoints?job=" + strings.Repeat("j", 129),
	} {
		f.do("GET", route, "").refused(coordinator.CodeInvalidParameter)
	}
	for _, id := range []string{"9007199254740992", "-1", "+1", "01", "1.0", "1e3", "latest%00", "a"} {
		problem := f.do("GET", "/checkpoints/"+id, "").refused(coordinator.CodeInvalidParameter)
		if *problem.Errors[0].Parameter != "id" {
			t.Errorf("id %s: the parameter is %s", id, *problem.Errors[0].Parameter)
		}
	}
	f.do("GET", "/checkpoints/9007199254740991", "").refused(coordinator.CodeCheckpointNotFound)
	f.do("GET", "/checkpoints/%30", "").want(http.StatusOK) // an escaped digit is the digit
}
