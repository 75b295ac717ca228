package handlers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
	"github.com/checkpointd/checkpointd/internal/load"
)

// A body that lists more than there may be is given up at the first item too many, or wrong: what
// follows it is not even read as JSON.
func TestDecodingEndsAtTheFirstItemThatIsWrongOrTooMany(t *testing.T) {
	t.Parallel()
	many := func(n int, item func(i int) string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = item(i)
		}
		return strings.Join(items, ",")
	}
	const nonsense = `, "not JSON`
	for _, c := range []struct {
		name, body string
		into       any
		code       coordinator.Code
		// says is the limit's name or the place.
		says string
	}{
		{"empty acknowledgements", `{"acks":[{},{},{}` + nonsense, &api.AckBody{}, coordinator.CodeInvalidRequest, "/acks/0/taskId"},
		{"a wrong digest", `{"acks":[{"taskId":"a","digest":"x"}` + nonsense, &api.AckBody{}, coordinator.CodeInvalidRequest, "/acks/0/digest"},
		{
			"1001 acknowledgements", `{"acks":[` + many(1001, func(i int) string { return fmt.Sprintf(`{"taskId":"t-%d"}`, i) }) + nonsense, &api.AckBody{},
			coordinator.CodeLimitExceeded, "bulkAcks",
		},
		{
			"65 labels", `{"labels":{` + many(65, func(i int) string { return fmt.Sprintf(`"l%d":""`, i) }) + nonsense, &api.TriggerRequest{},
			coordinator.CodeLimitExceeded, "labels",
		},
		{"a label without a name", `{"labels":{"":""` + nonsense, &api.CheckpointUpdate{}, coordinator.CodeInvalidRequest, "/labels/"},
		{
			"10 001 tasks", `{"tasks":[` + many(10_001, func(i int) string { return fmt.Sprintf(`"t-%d"`, i) }) + nonsense, &api.TriggerRequest{},
			coordinator.CodeLimitExceeded, "tasks",
		},
		{"a task without a name", `{"tasks":["a",""` + nonsense, &api.JobSettings{}, coordinator.CodeInvalidRequest, "/tasks/1"},
	} {
		err := handlers.DecodeStrict([]byte(c.body), c.into)
		refusal, is := errors.AsType[*coordinator.Error](err)
		if !is || refusal.Code != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
			continue
		}
		if c.code == coordinator.CodeLimitExceeded {
			if refusal.Limit != c.says {
				t.Errorf("%s: the limit is %q, want %q", c.name, refusal.Limit, c.says)
			}
		} else if len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != c.says {
			t.Errorf("%s: the places are %+v, want %s", c.name, refusal.Fields, c.says)
		}
	}
}

func TestARefusalListsTwentyPlacesAtMost(t *testing.T) {
	t.Parallel()
	f := serve(t)
	var query []string
	for i := range 500 {
		query = append(query, fmt.Sprintf("unknown%d=1", i))
	}
	names := strings.Repeat(`"a",`, 200) + `"a"`
	for what, a := range map[string]answer{
		"unknown parameters": f.do("GET", "/checkpoints?"+strings.Join(query, "&"), ""),
		"repeated tasks":     f.do("POST", "/checkpoints", `{"tasks":[`+names+`]}`),
	} {
		var problem api.Problem
		if err := json.Unmarshal([]byte(a.body), &problem); err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusBadRequest || len(problem.Errors) == 0 || len(problem.Errors) > 20 || len(a.body) > 16<<10 {
			t.Errorf("%s: %d with %d places in %d bytes", what, a.status, len(problem.Errors), len(a.body))
		}
	}
}

// What decoding takes is asked for before it begins, and what is made of a state before it is made.
func TestDecodingAndRenderingAreCountedAsBuffered(t *testing.T) {
	t.Parallel()
	f := serveCrowded(t, func(l *load.Limits) { l.BufferedBytes, l.JobShare, l.ClientShare = 4<<20, 100, 100 })
	path := f.trigger(`{"requiredTaskAcks":9,"timeoutMs":0}`)
	// Three MiB of the four are taken.
	f.occupy("PUT", "/checkpoints/0/state/k?job="+hog, `"`+strings.Repeat("x", 1536<<10)+`"`)
	entries := func(n int) string {
		var state strings.Builder
		for i := range n {
			fmt.Fprintf(&state, `,"%d":1`, i)
		}
		return "{" + state.String()[1:] + "}"
	}
	// 128 KiB of tiny entries: the names alone take more than is left.
	f.do("POST", path+"/acks", `{"taskId":"many","state":`+entries(16<<10)+`}`).refused(coordinator.CodeOverloaded)
	// 20 KiB that become two MiB, since each entry names its task.
	long := strings.Repeat("t", 1000)
	f.do("POST", path+"/acks", `{"taskId":"`+long+`","state":`+entries(2_200)+`}`).refused(coordinator.CodeOverloaded)
	f.let()
	f.nothingIsHeld()
	f.do("POST", path+"/acks", `{"taskId":"many","state":`+entries(16<<10)+`}`).want(http.StatusOK)
	// A list of numbers takes nothing beside its text.
	f.do("POST", path+"/acks", `{"taskId":"numbers","state":{"k":[`+strings.Repeat("1,", 256<<10)+`1]}}`).want(http.StatusOK)
	f.do("POST", path+"/acks", `{"taskId":"`+long+`","state":`+entries(2_200)+`}`).want(http.StatusOK)
	f.nothingIsHeld()
}
