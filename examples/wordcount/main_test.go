package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/internal/pacetest"
)

// folder is for what all tests share.
var folder string

// TestMain also is a worker of the fleets that the tests start: the driver runs its own program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
		return
	}
	pacetest.Waiting(4)
	pacetest.Long("a fleet of processes that is killed and compared")
	var err error
	if folder, err = os.MkdirTemp("", "wordcount-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

// built is the server, built once for all tests; it goes with the folder of the tests.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(folder, "checkpointd")
	return path, buildServer(context.Background(), path)
})

// builtServer is the path of the server.
func builtServer(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// setting is a number from the environment.
func setting(t *testing.T, name string, fallback int) string {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return strconv.Itoa(fallback)
	}
	if _, err := strconv.Atoi(text); err != nil {
		t.Fatalf("%s=%q is no number", name, text)
	}
	return text
}

// shortText is a folder with so many lines of text.
func shortText(t *testing.T, lines int) string {
	t.Helper()
	folder := t.TempDir()
	var text strings.Builder
	text.WriteString("package text\n")
	for i := range lines {
		fmt.Fprintf(&text, "// Line %s is one of %s lines.\n", strings.Repeat("i", i%50), strings.Repeat("x", i%7))
	}
	if err := os.WriteFile(filepath.Join(folder, "text.go"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// The full size is CHECKPOINTD_WORDCOUNT_KILLS=50 CHECKPOINTD_WORDCOUNT_SERVER_KILLS=5.
func TestKillingWorkersAndTheServerAndResizingTheFleetChangesNothingThatIsCounted(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{
		"-server", builtServer(t), "-workers", "3,5,2", "-lines", "12000", "-gap", "900ms", "-interval", "300ms", "-dir", t.TempDir(),
		"-kills", setting(t, "CHECKPOINTD_WORDCOUNT_KILLS", 6), "-server-kills", setting(t, "CHECKPOINTD_WORDCOUNT_SERVER_KILLS", 1),
		"-seed", setting(t, "CHECKPOINTD_WORDCOUNT_SEED", 0),
	}, nil, t.Output(), t.Output())
	if err != nil {
		t.Error(err)
	}
}

func TestARunWhoseInputEndsBeforeEverythingWasKilledFails(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{
		"-server", builtServer(t), "-text", shortText(t, 120), "-lines", "120", "-pace", "100000", "-interval", "50ms", "-kills", "1", "-server-kills", "1", "-gap", "1h",
		"-dir", t.TempDir(),
	}, nil, t.Output(), t.Output())
	if err == nil || !strings.Contains(err.Error(), "after killing 0 workers, and the server 0 times: the input ended before everything was killed") {
		t.Errorf("it ended with %v", err)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{
		"-workers 3,0", "-workers 13", "-workers x", "-kills -1", "-kills 1 -workers 3,5,2", "-lines 1", "-interval 1ms", "more",
		"-text /nowhere -server /nowhere -lines 12",
	} {
		if err := run(t.Context(), append([]string{"-dir", t.TempDir()}, strings.Fields(arguments)...), nil, t.Output(), t.Output()); err == nil {
			t.Errorf("%s is taken", arguments)
		}
	}
}
