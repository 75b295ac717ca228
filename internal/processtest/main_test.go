package processtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/checkpointd/checkpointd/internal/pacetest"
)

// binary is the server that all tests start.
var binary string

func TestMain(m *testing.M) {
	if clients := os.Getenv(bareLoopVariable); clients != "" {
		fmt.Fprintln(os.Stderr, runBareLoop(clients))
		os.Exit(1) // it ends by being killed
	}
	if url := os.Getenv(proberVariable); url != "" {
		if err := runProber(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	pacetest.Waiting(6)
	pacetest.Long("servers as processes, killed and drained")
	os.Exit(buildAndRun(m))
}

// buildAndRun builds the server as an operator gets it, without the race detector of
// the tests: its memory is measured here.
func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "checkpointd-processtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "checkpointd")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "../../cmd/server")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build cmd/server:", err)
		return 1
	}
	return m.Run()
}

// setting is a number from the environment.
func setting(t testing.TB, name string, fallback int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number above 0", name, text)
	}
	return n
}
