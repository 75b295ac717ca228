package examples_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

const clientsPath = "../docs/clients.md"

func TestTheCallsOfTheGuideForClientsWorkAsPrinted(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(clientsPath)
	if err != nil {
		t.Fatal(err)
	}
	server := checkpointtest.Start(t)
	steps := regexp.MustCompile("(?s)```sh\n(.*?)```\n```json\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if blocks := strings.Count(string(guide), "```sh\n"); len(steps) != blocks || blocks < 6 {
		t.Fatalf("%s shows %d steps, %d of them with their answer", clientsPath, blocks, len(steps))
	}
	for _, step := range steps {
		// Answers end without a line break, so each call gets one for the comparison.
		script := "curl() { command curl -w '\\n' \"$@\"; }\n" + strings.ReplaceAll(step[1], "http://127.0.0.1:8080", server.URL)
		command := exec.CommandContext(t.Context(), "sh", "-euc", script)
		var complaint bytes.Buffer
		command.Stderr = &complaint
		output, err := command.Output()
		if err != nil {
			t.Fatalf("%s\nfailed: %v\n%s", step[1], err, complaint.String())
		}
		got := regexp.MustCompile(`\n+`).ReplaceAllString(strings.TrimSpace(string(output)), "\n")
		// "…" stands for anything.
		shown := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(step[2])), "…", ".*")
		if !regexp.MustCompile("^" + shown + "$").MatchString(got) {
			t.Fatalf("%s\nprinted\n%s\nbut %s shows\n%s", step[1], got, clientsPath, step[2])
		}
	}
}

// What a client must know by name has to be a name that the server uses.
func TestEveryCodeInTheGuideForClientsIsACodeOfTheContract(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(clientsPath)
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)`").FindAllStringSubmatch(string(guide), -1)
	if len(codes) < 10 {
		t.Errorf("%s names %d codes only", clientsPath, len(codes))
	}
	for _, code := range codes {
		if !strings.Contains(string(catalogue), `<a id="`+code[1]+`">`) {
			t.Errorf("%s names %s, which docs/errors.md does not have", clientsPath, code[1])
		}
	}
}
