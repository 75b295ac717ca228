package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const securityPath = "../../docs/security.md"

func TestMakingATokenWorksAsPrinted(t *testing.T) {
	t.Parallel()
	needTools(t)
	steps, folder := readSteps(t, securityPath, "token"), t.TempDir()
	places := map[string]string{"ops.txt": filepath.Join(folder, "ops.txt"), "tokens.json": filepath.Join(folder, "tokens.json")}
	walk(t, steps[:1], 1, places)
	config := defaults(t)
	config.Data, config.Tokens = filepath.Join(folder, "data"), places["tokens.json"]
	places["127.0.0.1:8080"] = start(t, config)
	walk(t, steps[1:], 1, places)
}

func TestATokenIsMadeForWhatItsFlagsSayOrNotAtAll(t *testing.T) {
	t.Parallel()
	run := func(args ...string) string {
		command := exec.CommandContext(t.Context(), os.Args[0], append([]string{"token"}, args...)...)
		command.Env = append(os.Environ(), asMain+"=1")
		out, _ := command.CombinedOutput() // judged by what it says
		return string(out)
	}
	first, second := run("task-1", "--roles", "ack,read", "--jobs", "orders,orders-*", "--tasks", "task-1"), run("task-1", "--roles", "ack")
	if !strings.Contains(first, `"roles":["ack","read"],"jobs":["orders","orders-*"],"tasks":["task-1"]}`) {
		t.Errorf("it printed %s", first)
	}
	if token, _, _ := strings.Cut(first, "\n"); len(token) != len("cpd_")+43 || strings.Contains(second, token) {
		t.Errorf("the token %q is no random one of 32 bytes", token)
	}
	for want, args := range map[string][]string{
		"missing flags: --roles":                       {"ops"},
		"roles/1: the roles are trigger, ack":          {"ops", "--roles", "read,root"},
		"name: a name has 1 to 64 letters":             {"two words", "--roles", "read"},
		"jobs/0: no job has a name like this":          {"ops", "--roles", "read", "--jobs", "a b"},
		"the only copy of the token":                   {"--help"},
		"What the log and the events call it; not sec": {"--help"},
	} {
		if got := strings.Join(strings.Fields(run(args...)), " "); !strings.Contains(got, want) || strings.Contains(got, "cpd_") {
			t.Errorf("%q printed %s\nwant %s", args, got, want)
		}
	}
}

// Nothing that the command prints has what the environment and the flags keep secret.
func TestHelpAndComplaintsDoNotShowSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	for _, args := range [][]string{
		{"--help"},
		{"--no-such-flag"},
		{"--redis", "http://user:" + secret + "@example.org"},
		{"--redis", "redis://user:" + secret + "@%zz"},
		{"--redis", "redis://user:" + secret + "@127.0.0.1:1/x?protocol=" + secret},
		{"--redis", "redis://user:" + secret + "@127.0.0.1:1", "--listen", "nowhere"},
		{"--healthcheck", "--listen", "127.0.0.1:1"},
		{"adopt", "--help"},
		{"adopt"},
	} {
		command := exec.CommandContext(t.Context(), os.Args[0], args...)
		command.Env = append(os.Environ(), asMain+"=1")
		if len(args) == 1 || args[0] == "--healthcheck" {
			command.Env = append(command.Env, "CHECKPOINTD_REDIS=redis://user:"+secret+"@127.0.0.1:1")
		}
		out, err := command.CombinedOutput()
		if strings.Contains(string(out), secret) {
			t.Errorf("%q printed\n%s", args, out)
		}
		if err == nil && !strings.Contains(strings.Join(args, " "), "--help") {
			t.Errorf("%q succeeded, and shows nothing of complaints", args)
		}
	}
}
