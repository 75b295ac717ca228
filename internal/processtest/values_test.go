package processtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// values are what a server that reads numbers or strings would give back otherwise.
var values = []string{
	"1.0", "1", "1e0", "-0", "0.1", "9007199254740993", "18446744073709551615", "1e21", "null", `""`, "{}", "[]",
	"true", "-0.0E-0", "1E400", `"\u00e9"`, `"é"`, `"<&>\u2028"`, `"\/"`, `{"b":1,"a":2.50,"":null}`, `[1.0,[],{"x":{}}]`,
}

// longName is as long as names may be, and of characters of several bytes.
var longName = strings.Repeat("é", 500) + strings.Repeat("☃", 8)

// awkwardNames are keys and task ids that a path, a query or JSON may bend.
var awkwardNames = []string{
	"a/b", "%2F", "a%2Fb", "a b", "a+b", `say "hi"`, `back\slash`, "😀", "é", "e\u0301", longName,
	"?", "#", "a?b=c&d", "a;b", "..a", "a..", "*", "{id}", "0", "-1", "state", "latest", "%", "%zz", "a\u2028b", "~", ":", "a//b", "/",
}

// awkwardKeys may also be what no task may be called.
var awkwardKeys = append([]string{".", "..", "-", " ", "\t", "\n", "\u0000", "\u007f"}, awkwardNames...)

// line is a line of a restore: only what must be is escaped in names.
func line(task, key, value string) string {
	if task != "" {
		task = `"taskId":` + quoted(task) + ","
	}
	return "{" + task + `"key":` + quoted(key) + `,"value":` + value + "}\n"
}

var escapes = strings.NewReplacer(
	`"`, `\"`, `\`, `\\`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\u0000", `\u0000`,
)

func quoted(name string) string { return `"` + escapes.Replace(name) + `"` }

// object is a JSON object of these keys, in their order.
func object(keys []string, value func(key string) string) string {
	var members []string
	for _, key := range keys {
		members = append(members, quoted(key)+":"+value(key))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// sameMembers compares an object with exactly these keys, value by value, byte by byte.
func sameMembers(t *testing.T, what, got string, keys []string, value func(key string) string) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got), &members); err != nil {
		t.Errorf("%s: %v in %.300s", what, err, got)
		return
	}
	if len(members) != len(keys) {
		t.Errorf("%s has %d members, want %d", what, len(members), len(keys))
	}
	for _, key := range keys {
		same(t, fmt.Sprintf("%s at %q", what, key), string(members[key]), value(key))
	}
}

// valueOf gives each key one of the values.
func valueOf(keys []string) func(key string) string {
	return func(key string) string { return values[slices.Index(keys, key)%len(values)] }
}

// inBytesOrder sorts as the restore does.
func inBytesOrder(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return sorted
}

func TestSharedEntriesComeBackByteForByteByEveryRoute(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			p := serve(t, where)
			id := p.trigger(t, `{"requiredTaskAcks":1}`)
			keys := slices.Clone(awkwardKeys)
			for i := range values {
				keys = append(keys, fmt.Sprintf("value-%d", i))
			}
			value := valueOf(keys)

			byPath := func(of, key string) string { return "/checkpoints/" + of + "/state/" + url.PathEscape(key) }
			byQuery := func(of, key string) string { return "/checkpoints/" + of + "/entry?key=" + url.QueryEscape(key) }
			this := fmt.Sprint(id)
			document := func(path string) string {
				var body struct{ State json.RawMessage }
				if err := json.Unmarshal([]byte(p.must(t, http.StatusOK, "GET", path, "").body), &body); err != nil {
					t.Fatal(err)
				}
				return string(body.State)
			}
			look := func(of string) {
				for _, key := range keys {
					same(t, fmt.Sprintf("%s, %q by path", of, key), p.must(t, http.StatusOK, "GET", byPath(of, key), "").body, value(key))
					same(t, fmt.Sprintf("%s, %q by query", of, key), p.must(t, http.StatusOK, "GET", byQuery(of, key), "").body, value(key))
				}
				sameMembers(t, "the state of "+of, document("/checkpoints/"+of+"/state"), keys, value)
			}
			for route, put := range []func(key, value string) answer{
				func(key, value string) answer { return p.call(t, "PUT", byPath(this, key), value) },
				func(key, value string) answer { return p.call(t, "PUT", byQuery(this, key), value) },
				func(key, value string) answer {
					return p.call(t, "PATCH", at(id, "/state"), `{"state":{`+quoted(key)+`:`+value+`}}`)
				},
			} {
				for _, key := range keys {
					// White space around is no part of a value.
					if got := put(key, " "+value(key)+"\n"); got.status >= http.StatusMultipleChoices {
						t.Errorf("%s at %q by route %d: %s", value(key), key, route, got)
					}
				}
				look(this)
				p.must(t, http.StatusNoContent, "DELETE", byQuery(this, keys[route]), "")
				p.refused(t, http.StatusNotFound, "key_not_found", "GET", byPath(this, keys[route]), "")
				p.must(t, http.StatusCreated, "PUT", byPath(this, keys[route]), value(keys[route]))
			}
			p.acknowledge(t, id, "task-1")
			look(this)
			look("latest")

			var want strings.Builder
			for _, key := range inBytesOrder(keys) {
				want.WriteString(line("", key, value(key)))
			}
			for _, of := range []string{this, "latest"} {
				same(t, "the restore of "+of, p.must(t, http.StatusOK, "GET", "/checkpoints/"+of+"/restore", "").body, want.String())
				sameMembers(t, "the snapshot of "+of, document("/checkpoints/"+of+"/snapshot"), keys, value)
			}
		})
	}
}

func TestPartsComeBackByteForByteByEveryRoute(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			p := serve(t, where)
			names := fmt.Sprintf(`{"tasks":[%s]}`, strings.Join(mapped(awkwardNames, quoted), ","))
			id := p.trigger(t, names)
			keys := slices.Clone(awkwardKeys)
			slices.Reverse(keys) // upload order is not the order of bytes
			value := valueOf(keys)
			ndjson := strings.Join(mapped(keys, func(key string) string { return line("", key, value(key)) }), "")
			for i, task := range awkwardNames {
				state := at(id, "/tasks/") + url.PathEscape(task) + "/state"
				switch i % 4 {
				case 0:
					p.must(t, http.StatusOK, "POST", at(id, "/acks"), `{"taskId":`+quoted(task)+`,"state":`+object(keys, value)+`}`)
				case 1:
					p.must(t, http.StatusOK, "PUT", state+"?ack=true", ndjson, "Content-Type", typeNDJSON)
				case 2:
					p.must(t, http.StatusOK, "PUT", state+"?ack=true", object(keys, value))
				case 3:
					// The lines of a restore are taken as they are, and the acknowledgement comes later.
					digest := p.must(t, http.StatusOK, "PUT", state, strings.Join(mapped(keys, func(key string) string { return line(task, key, value(key)) }), ""), "Content-Type", typeNDJSON).message().Digest
					p.must(t, http.StatusOK, "POST", at(id, "/acks"), `{"acks":[{"taskId":`+quoted(task)+`,"digest":"`+digest+`"}]}`)
				}
				got := p.must(t, http.StatusOK, "GET", at(id, "/tasks/")+url.PathEscape(task), "")
				var seen struct{ TaskID, Status string }
				if err := json.Unmarshal([]byte(got.body), &seen); err != nil || seen.TaskID != task || seen.Status != "acknowledged" {
					t.Errorf("task %q looks like %s (%v)", task, got, err)
				}
			}

			var whole strings.Builder
			for _, task := range inBytesOrder(awkwardNames) {
				var part strings.Builder
				for _, key := range keys {
					part.WriteString(line(task, key, value(key)))
				}
				whole.WriteString(part.String())
				same(t, fmt.Sprintf("the part of %q", task), p.must(t, http.StatusOK, "GET", at(id, "/restore?taskId=")+url.QueryEscape(task), "").body, part.String())
			}
			for _, of := range []string{fmt.Sprint(id), "latest"} {
				same(t, "the restore of "+of, p.must(t, http.StatusOK, "GET", "/checkpoints/"+of+"/restore", "").body, whole.String())
				var snapshot struct{ Tasks map[string]json.RawMessage }
				if err := json.Unmarshal([]byte(p.must(t, http.StatusOK, "GET", "/checkpoints/"+of+"/snapshot", "").body), &snapshot); err != nil {
					t.Fatal(err)
				}
				if len(snapshot.Tasks) != len(awkwardNames) {
					t.Errorf("the snapshot of %s has %d tasks, want %d", of, len(snapshot.Tasks), len(awkwardNames))
				}
				for _, task := range awkwardNames {
					sameMembers(t, fmt.Sprintf("task %q in the snapshot of %s", task, of), string(snapshot.Tasks[task]), keys, value)
				}
			}
			p.lookAtTasks(t, id)
		})
	}
}

// lookAtTasks pages through the tasks, with a cursor that is a task id itself.
func (p *process) lookAtTasks(t *testing.T, id int64) {
	t.Helper()
	var listed []string
	for after := ""; ; {
		var page struct {
			Tasks []struct{ TaskID string }
			Next  string
		}
		path := at(id, "/tasks?limit=7")
		if after != "" {
			path += "&after=" + url.QueryEscape(after)
		}
		if err := json.Unmarshal([]byte(p.must(t, http.StatusOK, "GET", path, "").body), &page); err != nil {
			t.Fatal(err)
		}
		for _, task := range page.Tasks {
			listed = append(listed, task.TaskID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if want := inBytesOrder(awkwardNames); !slices.Equal(listed, want) {
		t.Errorf("the tasks are listed as\n%q\nwant\n%q", listed, want)
	}
}

func mapped(names []string, f func(string) string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = f(name)
	}
	return out
}
