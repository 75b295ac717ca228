package snapshot_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestRestoreLinesAreFrozen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, taskID, key, value, want string }{
		{"shared state has no taskId", snapshot.Shared, "offsets", `{"p0":11}`, `{"key":"offsets","value":{"p0":11}}`},
		{"a part names its task", "task-1", "offsets", `{"p0":11}`, `{"taskId":"task-1","key":"offsets","value":{"p0":11}}`},
		{"quotes and backslashes are escaped", `a"b`, `c\d"`, `1`, `{"taskId":"a\"b","key":"c\\d\"","value":1}`},
		{"control characters are escaped", snapshot.Shared, "\b\f\n\r\t\x00\x1f\x0b", `1`, `{"key":"\b\f\n\r\t\u0000\u001f\u000b","value":1}`},
		{"everything else is raw", "é", "\x7f\u0080\u2028<&>/😀e\u0301", `"\u00e9"`, "{\"taskId\":\"é\",\"key\":\"\x7f\u0080\u2028<&>/😀e\u0301\",\"value\":\"\\u00e9\"}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := string(snapshot.AppendEntry([]byte("before "), test.taskID, test.key, []byte(test.value)))
			if want := "before " + test.want + "\n"; got != want {
				t.Errorf("got  %swant %s", got, want)
			}
			fromBytes := string(snapshot.AppendEntry(nil, test.taskID, []byte(test.key), []byte(test.value)))
			if want := test.want + "\n"; fromBytes != want {
				t.Errorf("from a key of bytes: got  %swant %s", fromBytes, want)
			}
		})
	}
}

func TestRestoreLinesReadBackAsTheirEntry(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(1, 50, 200)
		taskID, key := name.Draw(t, "taskID"), name.Draw(t, "key")
		value := []byte(rapid.SampledFrom(awkwardValues).Draw(t, "value"))
		for _, id := range []string{taskID, snapshot.Shared} {
			rendered := snapshot.AppendEntry(nil, id, key, value)
			if got := snapshot.EntrySize(id, key, value); got != len(rendered) {
				t.Fatalf("the size of %s is %d, not %d", rendered, len(rendered), got)
			}
			if got := snapshot.EntrySize(id, []byte(key), value); got != len(rendered) {
				t.Fatalf("the size of %s is %d, not %d, for a key of bytes", rendered, len(rendered), got)
			}
			if strings.Count(string(rendered), "\n") != 1 {
				t.Fatalf("not one line: %q", rendered)
			}
			var back struct {
				TaskID *string
				Key    string
				Value  json.RawMessage
			}
			if err := json.Unmarshal(rendered, &back); err != nil {
				t.Fatalf("%s: %v", rendered, err)
			}
			if back.Key != key || string(back.Value) != string(value) || (back.TaskID == nil) != (id == snapshot.Shared) || back.TaskID != nil && *back.TaskID != id {
				t.Fatalf("%s reads back as %+v", rendered, back)
			}
		}
	})
}
