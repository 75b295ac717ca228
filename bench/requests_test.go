package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestEachTaskAcknowledgesEachCheckpointOnce(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]*acks{
		"one checkpoint after the other":  {group: 1, tasks: 12, batch: 1, tail: `"}`},
		"three checkpoints in turn":       {group: 3, tasks: 12, batch: 1, tail: `"}`},
		"four tasks a request":            {group: 1, tasks: 12, batch: 4, separator: `"},{"taskId":"`, tail: `"}]}`},
		"bulks of two checkpoints a time": {group: 2, tasks: 12, batch: 4, separator: `"},{"taskId":"`, tail: `"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paths := []string{"/0", "/1", "/2", "/3", "/4", "/5"}
			for _, path := range paths {
				a.add(path, "application/json", `{"taskId":"`)
			}
			requests := len(paths) * a.tasks / a.batch
			seen := map[string]int{}
			for n := range requests {
				path, body := parsed(t, a.next(nil, int64(n)))
				tasks := strings.Split(strings.TrimSuffix(strings.TrimPrefix(body, `{"taskId":"`), a.tail), `"},{"taskId":"`)
				if len(tasks) != a.batch {
					t.Fatalf("request %d has %d tasks: %s", n, len(tasks), body)
				}
				for _, task := range tasks {
					if task > "task-000011" {
						t.Errorf("request %d is for %s, which is beyond the last task", n, task)
					}
					seen[path+" "+task]++
				}
				if group := n * a.batch / a.tasks / a.group; !strings.Contains(strings.Join(paths[group*a.group:(group+1)*a.group], " "), path) {
					t.Errorf("request %d goes to %s, ahead of its group", n, path)
				}
			}
			if len(seen) != len(paths)*a.tasks {
				t.Errorf("%d acknowledgements differ, want %d: %v", len(seen), len(paths)*a.tasks, seen)
			}
			if _, _, err := a.at(int64(requests)); err == nil {
				t.Error("there is a request after the last one")
			}
		})
	}
}

// parsed reads a request the way that a server does, and sees that its length is right.
func parsed(t *testing.T, raw []byte) (path, body string) {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(raw))
	request, err := http.ReadRequest(reader)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	text, err := io.ReadAll(request.Body)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if rest, _ := io.ReadAll(reader); len(rest) > 0 {
		t.Fatalf("%q follows the request %s", rest, raw)
	}
	return request.URL.Path, string(text)
}

func TestAPutForEtcdIsOneRequest(t *testing.T) {
	t.Parallel()
	next := etcdPuts()
	_, first := parsed(t, next(nil, 1))
	_, second := parsed(t, next(nil, 2))
	if first == second || !strings.HasPrefix(first, `{"key":"YmVuY2gtMDAwMDAx","value":"`) {
		t.Errorf("%s\n%s", first, second)
	}
}

func TestTheWordsOfACommandAreReadFromMonitor(t *testing.T) {
	t.Parallel()
	words, err := monitored(`+1790000000.000001 [0 127.0.0.1:5000] "EVALSHA" "ab" "1" "a \"quoted\" key" "" "\x00\xff"` + "\r\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"EVALSHA", "ab", "1", `a "quoted" key`, "", "\x00\xff"}
	if strings.Join(words, "|") != strings.Join(want, "|") {
		t.Errorf("read %q, want %q", words, want)
	}
	if words, err := monitored(`+1790000000.000001 [0 lua] "HGET" "a" "b"`); err != nil || len(words) > 0 {
		t.Errorf("what a script sent was read as %q, %v", words, err)
	}
}

func TestEntriesHaveValuesOfAHundredBytes(t *testing.T) {
	t.Parallel()
	lines := strings.Split(string(entries(3)), "\n")
	if len(lines) != 4 || lines[3] != "" {
		t.Fatalf("%q", lines)
	}
	for _, line := range lines[:3] {
		if _, value, _ := strings.Cut(strings.TrimSuffix(line, "}"), `"value":`); len(value) != 100 {
			t.Errorf("the value of %s has %d bytes", line, len(value))
		}
	}
}
