package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// toTheGeneralDoor is a header that says nothing, and that only the general door reads.
var toTheGeneralDoor = []string{"Sec-Fetch-Site", "none"}

// The door for plain acknowledgements is a shortcut and nothing that anybody could notice.
func TestPlainAcknowledgementsAreAnsweredAsAllOthers(t *testing.T) {
	t.Parallel()
	const zeros = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	shortcut, general := serve(t), serve(t)
	both := func(path, body string, headers ...string) {
		t.Helper()
		got := shortcut.do("POST", path, body, headers...)
		want := general.do("POST", path, body, append(headers, toTheGeneralDoor...)...)
		if got.status != want.status {
			t.Errorf("%s %.60q: status %d, want %d", path, body, got.status, want.status)
		}
		if diff := cmp.Diff(withoutInstance(want.body), withoutInstance(got.body)); diff != "" {
			t.Errorf("%s %.60q: body (-want +got):\n%s", path, body, diff)
		}
		for _, answer := range []answer{got, want} {
			answer.header.Del("Date")
			answer.header.Del("Content-Length") // of a problem, which names its request
		}
		if diff := cmp.Diff(want.header, got.header); diff != "" {
			t.Errorf("%s %.60q: headers (-want +got):\n%s", path, body, diff)
		}
	}
	both("/checkpoints", `{"requiredTaskAcks":7,"timeoutMs":0}`)
	both("/checkpoints?job=orders", `{"tasks":["a","b"],"timeoutMs":0}`)
	for _, body := range []string{
		`{"taskId":"task-1"}`,
		`{"taskId":"task-1"}`,
		`{"taskId":"task-1","digest":"` + zeros + `"}`,
		`{"taskId":"task-2","attempt":3,"epoch":0,"state":{"n":1.0,"text":"\u00e9 é","deep":[[{"a":null}]]}}`,
		`{"taskId":"task-2","attempt":3,"epoch":0,"state":{"n":1.0,"text":"\u00e9 é","deep":[[{"a":null}]]}}`,
		`{"taskId":"task-2","attempt":3,"state":{"n":1}}`,
		`{"taskId":"task-2","attempt":2}`,
		` { "state" : { "k" : 1 } , "taskId" : "t\u00e4sk" } `,
		"{\"taskId\":\"tab\\t\"}", `{"taskId":" task"}`, `{"taskId":"-"}`, `{"taskId":""}`, `{"taskId":null}`, `{"taskId":7}`, `{}`,
		`{"taskId":"` + strings.Repeat("x", 1025) + `"}`,
		`{"taskId":"task-3","attempt":-1}`, `{"taskId":"task-3","attempt":1.0}`, `{"taskId":"task-3","attempt":1e3}`,
		`{"taskId":"task-3","attempt":01}`, `{"taskId":"task-3","attempt":9007199254740992}`, `{"taskId":"task-3","epoch":null}`,
		`{"taskId":"task-3","epoch":9007199254740991}`, `{"taskId":"task-3","epoch":99999999999999999999}`,
		`{"taskId":"task-3","digest":"sha256:0"}`, `{"taskId":"task-3","digest":"` + zeros + `"}`, `{"taskId":"task-3","digest":""}`,
		`{"taskId":"task-3","taskId":"task-4"}`, `{"taskId":"task-3","TaskId":"task-4"}`, `{"taskId":"task-3","more":1}`,
		`{"taskId":"task-3","state":null}`, `{"taskId":"task-3","state":[]}`, `{"taskId":"task-3","state":{"a":1,"a":2}}`,
		`{"taskId":"task-3","state":{"":1}}`, `{"taskId":"task-3","state":{"a":"\ud800"}}`, "{\"taskId\":\"task-3\",\"state\":{\"a\":\"\xff\"}}",
		`{"taskId":"task-3","state":{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}}`,
		`{"taskId":"task-4","state":{"a":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}}`,
		`{"acks":[{"taskId":"task-5"},{"taskId":"task-5"}]}`, `{"taskId":"task-6","acks":[]}`, `{"acks":[],"taskId":"task-6"}`,
		"\n{ \"acks\" : [ {\"taskId\":\"task-5\"} ,\t{ \"taskId\" : \"<task> 7&\" , \"epoch\" : 1 } ] }\r\n",
		`{"acks":[]}`, `{"acks":null}`, `{"acks":{}}`, `{"acks":[null]}`, `{"acks":[{}]}`, `{"acks":[{"taskId":"task-8"},]}`, `{"acks":[,]}`,
		`{"acks":[{"taskId":"task-8"}]`, `{"acks":[{"taskId":"task-8"}}`, `{"acks":[{"taskId":"task-8"}]}x`, `{"acks":[{"taskId":"task-8"}]}{}`,
		`{"acks":[{"taskId":"task-8"}],"acks":[{"taskId":"task-8"}]}`, `{"acks":[{"taskId":"task-8"}],"epoch":0}`,
		`{"acks":[{"taskId":"task-8"} {"taskId":"task-9"}]}`, `{"ack\u0073":[{"taskId":"task-8","epoch":5}]}`, `{"Acks":[{"taskId":"task-8"}]}`,
		`{"acks":[{"taskId":"task-8"},{"taskId":"-"}]}`, `{"acks":[{"taskId":"task-8"},{"taskId":"task-9","attempt":1.5}]}`,
		`{"acks":[{"taskId":"task-8"},{"taskId":"task-9","digest":"sha256:0"}]}`, `{"acks":[{"taskId":"task-8"},{"taskId":"task-9","acks":[]}]}`,
		`{"acks":[{"taskId":"task-8"},{"taskId":"task-9","state":{"a":1,"a":2}}]}`, `{"acks":[{"taskId":"task-8"},["task-9"]]}`,
		`{"acks":[{"taskId":"task-2","epoch":9},{"taskId":"task-2","state":{"n":2}},{"taskId":"task-3","digest":"` + zeros + `"}]}`,
		`{"acks":[` + strings.Repeat(`{"taskId":"task-8","epoch":9},`, 999) + `{"taskId":"task-8","epoch":9}]}`,
		`{"acks":[` + strings.Repeat(`{"taskId":"task-8","epoch":9},`, 1000) + `{"taskId":"task-8","epoch":9}]}`,
		`{"acks":[{"taskId":"task-8","epoch":9,"state":{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}}]}`,
		`{"acks":[{"taskId":"task-8","epoch":9,"state":{"a":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}}]}`,
		`{"acks":[{"taskId":"task-8","epoch":9,"state":{"a":"` + strings.Repeat("x", 130_000) + `"}},{"taskId":"task-1"}]}`,
		`{"acks":[{"taskId":"task-8","epoch":9,"state":{"a":"` + strings.Repeat("x", 140_000) + `"}},{"taskId":"task-1"}]}`,
		`{"taskId":"task-6"} x`, `{"taskId":"task-6"`, `["task-6"]`, `"task-6"`, "\xef\xbb\xbf{\"taskId\":\"task-6\"}",
		`{"taskId":"task-6","attempt":1,"epoch":0,"digest":"` + zeros + `","state":{},"more":{},"evenMore":{}}`,
		strings.Repeat(" ", 20_000) + `{"taskId":"task-6"}`,
	} {
		both("/checkpoints/0/acks", body)
	}
	for _, path := range []string{
		"/checkpoints/0/acks?job=orders", "/checkpoints/0/acks?job=nobody", "/checkpoints/0/acks?job=", "/checkpoints/0/acks?job=a&job=b",
		"/checkpoints/0/acks?jbo=orders", "/checkpoints/0/acks?job=o%72ders", "/checkpoints/0/acks?", "/checkpoints/%30/acks?job=orders",
		"/checkpoints/00/acks", "/checkpoints/x/acks", "/checkpoints/7/acks", "/checkpoints//acks", "/checkpoints/acks",
		"/checkpoints/9007199254740991/acks", "/checkpoints/9007199254740992/acks", "/checkpoints/0/acks/", "/checkpoints/0/tasks/acks",
	} {
		both(path, `{"taskId":"a"}`)
		both(path, `{"taskId":"z"}`)
		both(path, `{"acks":[{"taskId":"a"},{"taskId":"z"}]}`)
	}
	for _, headers := range [][]string{
		{"Accept", "text/html"},
		{"Accept", "application/json"},
		{"Accept", "*/*"},
		{"Content-Type", "text/plain"},
		{"Content-Encoding", "gzip"},
		{"Content-Type", "application/json; charset=latin1"},
		{"Content-Type", "application/json; charset=utf-8"},
		{"Content-Type", ""},
	} {
		both("/checkpoints/0/acks", `{"taskId":"task-8"}`, headers...)
	}
	both("/checkpoints/0/acks", `{"taskId":"task-9"}`)
	both("/checkpoints/0/acks", `{"taskId":"task-9"}`)
	both("/checkpoints/0/acks", `{"acks":[{"taskId":"task-9"},{"taskId":"task-10"},{"taskId":"task-11"}]}`)
	both("/checkpoints/0/acks", `{"acks":[{"taskId":"task-9"},{"taskId":"task-10"},{"taskId":"task-11"}]}`)
	both("/checkpoints/0/acks", `{"taskId":"task-11"}`)
	both("/checkpoints", `{"requiredTaskAcks":7,"timeoutMs":0}`)
	both("/checkpoints/1/abort", `{}`)
	both("/checkpoints/1/acks", `{"acks":[{"taskId":"task-1"}]}`)
	shortcut.do("POST", "/checkpoints/0/acks", `{"taskId":"task-1"}`, "Origin", "https://elsewhere.example").refused(coordinator.CodeForbidden)
}

// withoutInstance blanks what names a single request.
func withoutInstance(body string) string {
	if before, after, found := strings.Cut(body, `"instance":"`); found {
		_, after, _ = strings.Cut(after, `"`)
		return before + after
	}
	return body
}

func TestAcknowledgementsAsClientsWriteThemArePlain(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"taskId":"task-1"}`: 1,
		`{"taskId": "task-1", "attempt": 3, "epoch": 0, "state": {"k": [1, {"n": null}]}}` + "\n":                             1,
		`{"acks":[{"taskId":"task-1","epoch":0},{"taskId":"task-2","epoch":0,"state":{}}]}`:                                   2,
		`{"acks": [{"taskId": "task-1", "attempt": 3}, {"taskId": "tâche 2", "digest": "` + coordinator.EmptyDigest + `"}]}`:  2,
		"{\n  \"acks\": [\n    {\n      \"taskId\": \"task-1\"\n    },\n    {\n      \"taskId\": \"task-2\"\n    }\n  ]\n}\n": 2,
		`{"acks":[` + strings.Repeat(`{"taskId":"task-1"},`, coordinator.MaxBulkAcks-1) + `{"taskId":"task-1"}]}`:             coordinator.MaxBulkAcks,
	} {
		if items, _, plain := handlers.PlainAckItems([]byte(body)); !plain || len(items) != want {
			t.Errorf("%.100q is plain: %t, with %d items", body, plain, len(items))
		}
	}
	tooMany := `{"acks":[` + strings.Repeat(`{"taskId":"task-1"},`, coordinator.MaxBulkAcks) + `{"taskId":"task-1"}]}`
	if _, _, plain := handlers.PlainAckItems([]byte(tooMany)); plain {
		t.Error("a list beyond the limit is plain")
	}
}

func FuzzPlainAcknowledgementsMeanWhatStrictOnesDo(f *testing.F) {
	for _, seed := range []string{
		`{"taskId":"task-1"}`, `{"taskId":"a","attempt":3,"epoch":0,"digest":"x","state":{"k":[1,{"é":"\n"}]}}`,
		`{"taskId":"a\u0041"}`, `{"taskId":"a","epoch":9007199254740991}`, ` {"state":{},"taskId":"b"} `, `{"acks":[]}`,
		`{"acks":[{"taskId":"a","epoch":0},{"taskId":"b","attempt":1,"digest":"x","state":{"k":{"n":[]}}}]}`,
		" {\t\"acks\" :\n[ {\"taskId\":\"a\"} ,\r{\"taskId\":\"b\",\"state\":{ }} ] } ",
		`{"acks":[{"taskId":"a"},]}`, `{"acks":[{"taskId":"a"}],"acks":[]}`, `{"acks":[{"taskId":"a"}]}}`, `{"acks":[{"taskId":"a"}{"taskId":"b"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, list, plain := handlers.PlainAckItems(bytes.Clone(body))
		if !plain {
			return
		}
		want, wantList, err := handlers.StrictAckItems(body)
		if err != nil {
			t.Fatalf("%q is plain, but: %v", body, err)
		}
		if list != wantList {
			t.Fatalf("%q is a list: %t, want %t", body, list, wantList)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-strict +plain):\n%s", body, diff)
		}
	})
}

func TestThePlainAnswerIsWhatTheContractsTypeWouldWrite(t *testing.T) {
	t.Parallel()
	result := api.AckResult{CheckpointID: coordinator.MaxID, Status: api.CheckpointStatusCompleted, AcknowledgedTasks: 3, RequiredTaskAcks: 4, Duplicate: true}
	want, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(handlers.AppendAckResult(result)); got != string(want)+"\n" {
		t.Errorf("got %s, want %s", got, want)
	}
}

// ackStore does something else than acknowledging.
type ackStore struct {
	coordinator.Store
	do func(context.Context) (coordinator.AckResult, error)
}

func (s ackStore) Acknowledge(ctx context.Context, _ coordinator.AckCall) (coordinator.AckResult, error) {
	return s.do(ctx)
}

func TestAPlainAcknowledgementInTroubleIsAProblem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(context.Context) (coordinator.AckResult, error)
		code coordinator.Code
	}{
		"the store does not answer in time": {func(ctx context.Context) (coordinator.AckResult, error) {
			<-ctx.Done()
			return coordinator.AckResult{}, ctx.Err()
		}, coordinator.CodeOutcomeUnknown},
		"the store fails":  {func(context.Context) (coordinator.AckResult, error) { return coordinator.AckResult{}, errSecret }, coordinator.CodeInternal},
		"the store panics": {func(context.Context) (coordinator.AckResult, error) { panic(errSecret) }, coordinator.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, setup{impatient: true, store: func(s coordinator.Store) coordinator.Store { return ackStore{s, test.do} }})
			path := f.trigger("")
			for i, body := range []string{`{"taskId":"a"}`, `{"acks":[{"taskId":"a"}]}`} {
				a := f.do("POST", path+"/acks", body)
				a.refused(test.code)
				if strings.Contains(a.body, "secret") {
					t.Errorf("the problem says %s", a.body)
				}
				if causes := f.log.read(); len(causes) != i+1 {
					t.Errorf("the log has %v", causes)
				}
			}
		})
	}
}

func TestAPlainAcknowledgementWhoseBodyBreaksOffIsNone(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	broken := io.MultiReader(strings.NewReader(`{"taskId":`), brokenReader{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+path+"/acks", broken)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = 20
	request.Header.Set("Content-Type", "application/json")
	if response, err := f.client.Do(request); err == nil {
		_ = response.Body.Close()
	}
	same(t, f.do("POST", path+"/acks", `{"taskId":"a"}`).want(http.StatusOK),
		`{"checkpointId":0,"status":"completed","acknowledgedTasks":1,"requiredTaskAcks":1,"duplicate":false}`)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

// silentWriter is an answer that goes nowhere.
type silentWriter struct{ header http.Header }

func (w *silentWriter) Header() http.Header         { return w.header }
func (w *silentWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *silentWriter) WriteHeader(int)             {}

// BenchmarkAcknowledge is the way of acknowledgements through the handlers to a store
// that takes no time.
func BenchmarkAcknowledge(b *testing.B) {
	outcomes := make([]coordinator.AckOutcome, 64)
	for i := range outcomes {
		outcomes[i] = coordinator.AckOutcome{
			TaskID: fmt.Sprintf("task-%06d", i), Outcome: coordinator.AckAccepted, Status: coordinator.StatusPending, AcknowledgedTasks: 1, RequiredTaskAcks: 2,
		}
	}
	var tasks, states []string
	for _, outcome := range outcomes {
		tasks = append(tasks, fmt.Sprintf(`{"taskId":%q,"epoch":0}`, outcome.TaskID))
		states = append(states, fmt.Sprintf(`{"taskId":%q,"state":{"offset":12345}}`, outcome.TaskID))
	}
	list := func(items []string) string { return `{"acks":[` + strings.Join(items, ",") + `]}` }
	for _, bench := range []struct {
		name, body, header string
		items              int
	}{
		{"plain", `{"taskId":"task-1","attempt":3,"epoch":0}`, "X-Nothing", 1},
		{"plain with state", `{"taskId":"task-1","state":{"offset":12345}}`, "X-Nothing", 1},
		{"general", `{"taskId":"task-1","attempt":3,"epoch":0}`, toTheGeneralDoor[0], 1},
		{"plain list", list(tasks), "X-Nothing", 64},
		{"plain list with states", list(states), "X-Nothing", 64},
		{"general list", list(tasks), toTheGeneralDoor[0], 64},
		{"general list with states", list(states), toTheGeneralDoor[0], 64},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			store := ackStore{do: func(context.Context) (coordinator.AckResult, error) {
				return coordinator.AckResult{Outcomes: outcomes[:bench.items], Status: coordinator.StatusPending, AcknowledgedTasks: 64, RequiredTaskAcks: 1000}, nil
			}}
			handler := handlers.New(coordinator.New(store, coordinator.Options{}), handlers.Options{})
			w := &silentWriter{}
			body := strings.NewReader(bench.body)
			for b.Loop() {
				w.header = http.Header{}
				body.Reset(bench.body)
				handler.ServeHTTP(w, &http.Request{
					Method: http.MethodPost, URL: &url.URL{Path: "/checkpoints/7/acks"}, ProtoMajor: 1, Body: io.NopCloser(body),
					ContentLength: int64(len(bench.body)), Header: http.Header{"Content-Type": {"application/json"}, bench.header: toTheGeneralDoor[1:]},
				})
			}
		})
	}
}
