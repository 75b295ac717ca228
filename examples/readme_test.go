package examples_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

// workersSection is what the README says about workers in Go and elsewhere.
func workersSection(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### Workers in Go, and elsewhere\n")
	if !found {
		t.Fatal("README.md has no section about workers")
	}
	section, _, _ = strings.Cut(section, "\n### ")
	return section
}

// block is the first one in this language.
func block(t *testing.T, section, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(section, "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("README.md shows nothing in %s", language)
	}
	return text
}

func TestTheReadmesFirstWorkerIsTheExample(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("go/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), block(t, workersSection(t), "go")); diff != "" {
		t.Errorf("README.md shows another worker than examples/go/main.go (-file +README):\n%s", diff)
	}
}

func TestTheReadmesFirstWorkerGoesOnWhereItWasKilledAsPrinted(t *testing.T) {
	t.Parallel()
	section := workersSection(t)
	server := checkpointtest.Start(t)
	// Whoever has followed the README until here has a state of another kind in the same job.
	upload(t, server, "task-1", []entry{{Key: "b", Value: json.RawMessage("[2.50]")}})

	trigger, run, found := strings.Cut(block(t, section, "sh"), "\ngo run ./examples/go http://127.0.0.1:8080 ")
	if !found {
		t.Fatalf("README.md does not start the worker:\n%s", block(t, section, "sh"))
	}
	command := exec.CommandContext(t.Context(), "sh", "-euc", strings.ReplaceAll(trigger, "http://127.0.0.1:8080", server.URL))
	if output, err := command.CombinedOutput(); err != nil || !strings.Contains(string(output), `"intervalMs":1000`) {
		t.Fatalf("%s\n%v\n%s", trigger, err, output)
	}
	l, latest := leg{t, languages["go"]}, int64(0)
	var said strings.Builder
	for range 2 {
		life := l.start(server.URL, strings.TrimSpace(run))
		latest = completedAfter(t, server, completedAfter(t, server, latest))
		life.kill()
		said.WriteString(life.said.String())
	}
	// The numbers depend on how long a life was, and on whether something completed before the first.
	shown := regexp.MustCompile(`-?\d+`).ReplaceAllString(regexp.QuoteMeta(block(t, section, "text")), `-?\d+`)
	logged := regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (DEBUG|INFO|WARN) .*\n`) // what README.md leaves out
	if !logged.MatchString(said.String()) {
		t.Errorf("the worker logs nothing:\n%s", said.String())
	}
	if !regexp.MustCompile("^" + shown + "$").MatchString(logged.ReplaceAllString(said.String(), "")) {
		t.Errorf("two lives of the worker printed\n%s, but README.md shows\n%s", said.String(), block(t, section, "text"))
	}
}

// completedAfter waits for a checkpoint that is completed and younger than this one.
func completedAfter(t *testing.T, server *checkpointtest.Server, id int64) int64 {
	t.Helper()
	answer, err := client.Get(fmt.Sprintf("%s/checkpoints/latest?after=%d&wait=60", server.URL, id))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var latest checkpointtest.Checkpoint
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || json.Unmarshal(text, &latest) != nil {
		t.Fatalf("nothing completes after checkpoint %d: %s (%v)\n%s", id, answer.Status, err, text)
	}
	return latest.ID
}

func TestEveryWorkerIsInTheReadmeWithItsLengthAndItsCommand(t *testing.T) {
	t.Parallel()
	section := workersSection(t)
	for name, l := range languages {
		if !strings.Contains(section, "(examples/"+l.file+")") {
			t.Errorf("README.md does not lead to the worker in %s", name)
		}
	}
	rows := regexp.MustCompile(`(?m)^\| \[examples/(\S+)\].*\| (under )?(\d+) \| `+"`"+`(.+) http://127\.0\.0\.1:8080 first`+"`"+` \|$`).FindAllStringSubmatch(section, -1)
	if len(rows) != 4 {
		t.Errorf("README.md has a table of %d workers", len(rows))
	}
	for _, row := range rows {
		text, err := os.ReadFile(row[1])
		if err != nil {
			t.Fatal(err)
		}
		lines, most := strings.Count(string(text), "\n"), 0
		if _, err := fmt.Sscan(row[3], &most); err != nil || lines > most || (row[2] != "" && lines == most) {
			t.Errorf("%s has %d lines, README.md says %s%s", row[1], lines, row[2], row[3])
		}
		if !strings.HasSuffix(row[4], "examples/"+row[1]) {
			t.Errorf("README.md starts %s by %s", row[1], row[4])
		}
	}
}
