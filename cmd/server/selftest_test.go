package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/pacetest"
)

// asMain makes the test binary the command itself.
const asMain = "CHECKPOINTD_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	pacetest.Waiting(6)
	os.Exit(m.Run())
}

func TestSelftestIsACommandWithFlagsOfItsOwnThatHelpLeadsTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "checkpointd selftest --help"},
		{[]string{"selftest", "--help"}, 0, "--only"},
		{[]string{"selftest", "https://127.0.0.1"}, 1, "not of the form http://HOST:PORT"},
		{[]string{"selftest", "http://127.0.0.1:0", "--only", "fresh-start", "--", "true"}, 1, "FAILED  fresh-start"},
	} {
		var out bytes.Buffer
		command := exec.CommandContext(t.Context(), os.Args[0], c.args...)
		// A server's setting must not be taken for one of selftest.
		command.Env = append(os.Environ(), asMain+"=1", "CHECKPOINTD_REDIS=redis://127.0.0.1:1", "CHECKPOINTD_TIMEOUT=never")
		command.Stdout, command.Stderr = &out, &out
		_ = command.Run() // judged by its code
		if got := command.ProcessState.ExitCode(); got != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q ended with %d and wrote\n%s", c.args, got, out.String())
		}
	}
}
