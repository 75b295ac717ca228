package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
)

func TestEveryGroupHasExactlyOneOwner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		group, of := rapid.String().Draw(t, "group"), rapid.IntRange(1, 2000).Draw(t, "of")
		owners := 0
		for index := range of {
			if (worker.Share{Index: index, Of: of}).Owns(group) {
				owners++
			}
		}
		if owners != 1 {
			t.Errorf("%q has %d owners of %d", group, owners, of)
		}
	})
}

func TestTheRuleOfSharingIsTheOneThatIsWrittenDown(t *testing.T) {
	t.Parallel()
	for group, want := range map[string][2]int{"p0": {1, 0}, "": {1, 2}, "a": {0, 1}, "ü": {0, 0}} {
		for n, of := range []int{2, 3} {
			if !(worker.Share{Index: want[n], Of: of}).Owns(group) {
				t.Errorf("%q does not belong to %d of %d", group, want[n], of)
			}
		}
	}
	if !(worker.Share{}).Owns("p0") {
		t.Error("without a fleet p0 belongs to nobody")
	}
}

func TestShortNumberedNamesAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	for _, of := range []int{2, 3, 4, 5, 8} {
		owned := make([]int, of)
		for n := range 16 {
			for index := range of {
				if (worker.Share{Index: index, Of: of}).Owns(fmt.Sprintf("p%d", n)) {
					owned[index]++
				}
			}
		}
		for index, n := range owned {
			if fair := 16 / of; n < fair-1 || n > fair+2 {
				t.Errorf("worker %d of %d has %d of 16: %v", index, of, n, owned)
			}
		}
	}
}

// send makes a request that must succeed.
func send(t *testing.T, server *checkpointtest.Server, method, path, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode >= 300 {
		t.Fatalf("%s %s is answered %s", method, path, text)
	}
}

// handsIn completes a checkpoint of these parts and this shared state, without any worker.
func handsIn(t *testing.T, server *checkpointtest.Server, shared string, parts map[string]string) int64 {
	t.Helper()
	var tasks []string
	for task := range parts {
		tasks = append(tasks, task)
	}
	id := server.Trigger(tasks...).ID
	if shared != "" {
		send(t, server, http.MethodPatch, fmt.Sprintf("/checkpoints/%d/state", id), `{"state":`+shared+`}`)
	}
	for task, state := range parts {
		send(t, server, http.MethodPost, fmt.Sprintf("/checkpoints/%d/acks", id), fmt.Sprintf(`{"taskId":%q,"state":%s}`, task, state))
	}
	if got := server.Ended(id); got.Status != "completed" {
		t.Fatalf("the checkpoint ended as %+v", got)
	}
	return id
}

// restoring is a worker whose Restore writes down what comes back, as "task/key=value".
func restoring(t *testing.T, server *checkpointtest.Server, task string) (*counter, func() map[string]int) {
	t.Helper()
	c := newCounter(t, server, task)
	got := map[string]int{}
	c.Restore = func(_ context.Context, from worker.Checkpoint, entries worker.Entries) error {
		for entry, err := range entries {
			if err != nil {
				return err
			}
			got[fmt.Sprintf("%s/%s=%s", entry.TaskID, entry.Key, entry.Value)]++
		}
		c.restored <- from
		return nil
	}
	return c, func() map[string]int {
		clear(got)
		life, _ := c.run(t)
		life.stop()
		return maps.Clone(got)
	}
}

func TestAFleetOfAnotherSizeComesBackToAllOfItEachEntryOnce(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	want, parts := map[string]int{}, map[string]string{}
	for n := range 3 {
		task, state := fmt.Sprintf("old-%d", n), map[string]int{"same": n}
		for k := range 20 {
			state[fmt.Sprintf("key-%d", 20*n+k)] = k
		}
		for key, value := range state {
			want[fmt.Sprintf("%s/%s=%d", task, key, value)] = 1
		}
		text, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		parts[task] = string(text)
	}
	handsIn(t, server, `{"config":7}`, parts)
	for _, of := range []int{1, 2, 5, 7} {
		for _, group := range []func(string) string{nil, func(key string) string { return key[len(key)-1:] }} {
			all, groups := map[string]int{}, map[string]int{}
			for index := range of {
				c, restore := restoring(t, server, fmt.Sprintf("new-%d", index))
				c.RecoveryKey = fmt.Sprintf("rescale-%d-%t", of, group == nil)
				c.Share = worker.Share{Index: index, Of: of, Group: group}
				mine := restore()
				seen := map[string]bool{}
				for entry, times := range mine {
					all[entry] += times
					_, key, _ := strings.Cut(entry, "/")
					key, _, _ = strings.Cut(key, "=")
					if group != nil {
						key = group(key)
					}
					seen[key] = true
				}
				for key := range seen {
					groups[key]++
				}
			}
			if diff := cmp.Diff(want, all); diff != "" {
				t.Errorf("a fleet of %d came back to %s", of, diff)
			}
			for key, workers := range groups {
				if workers != 1 {
					t.Errorf("the group %q came back to %d workers of %d", key, workers, of)
				}
			}
		}
	}
}

func TestSharedStateComesBackWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	handsIn(t, server, `{"config":7,"other":8}`, map[string]string{"task-1": `{"a":1}`, "task-2": `{"b":2}`})
	for _, with := range []struct {
		name, task string
		share      int
		shared     bool
		want       map[string]int
	}{
		{"own part", "task-1", 0, false, map[string]int{"task-1/a=1": 1}},
		{"own part and shared", "task-1", 0, true, map[string]int{"/config=7": 1, "/other=8": 1, "task-1/a=1": 1}},
		{"no part", "task-3", 0, false, map[string]int{}},
		{"no part and shared", "task-3", 0, true, map[string]int{"/config=7": 1, "/other=8": 1}},
		{"share", "task-3", 1, false, map[string]int{"task-1/a=1": 1, "task-2/b=2": 1}},
		{"share and shared", "task-3", 1, true, map[string]int{"/config=7": 1, "/other=8": 1, "task-1/a=1": 1, "task-2/b=2": 1}},
	} {
		t.Run(with.name, func(t *testing.T) {
			t.Parallel()
			c, restore := restoring(t, server, with.task)
			c.Shared, c.Share.Of = with.shared, with.share
			if diff := cmp.Diff(with.want, restore()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAShareThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for share, want := range map[[2]int]string{{2, 2}: "Index", {-1, 2}: "Index", {1, 0}: "Index", {0, -1}: "Index", {0, 2}: "RecoveryKey"} {
		c := newCounter(t, &checkpointtest.Server{URL: "http://127.0.0.1:1"}, "task-1")
		c.Share = worker.Share{Index: share[0], Of: share[1]}
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the share %v is answered with %v", share, err)
		}
	}
}

func TestARestoreThatEndsEarlyIsAnErrorAlsoWhereNobodyToldTheLength(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	handsIn(t, server, "", map[string]string{"task-1": `{"a":1,"b":2}`})
	front := server.Front()
	front.Script(fault.On(fault.Restore).Answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Checkpoint-Entries", "2")
		_ = http.NewResponseController(w).Flush() // chunked from here
		_, _ = io.WriteString(w, `{"taskId":"task-1","key":"a","value":1}`+"\n")
	}))
	c := newCounter(t, server, "task-1")
	c.URL = front.URL
	c.Work = func(context.Context) error { return nil }
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "1 entries arrived of 2") {
		t.Errorf("the worker ended with %v", err)
	}
}
