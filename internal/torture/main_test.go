package torture

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/checkpointd/checkpointd/internal/pacetest"
)

func TestMain(m *testing.M) {
	pacetest.Waiting(4)
	pacetest.Long("servers that are besieged")
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

// builtIn is the folder of the binary, once there is one.
var builtIn string

// serverBinary builds the server as an operator gets it, once, or is the one that
// CHECKPOINTD_TORTURE_BINARY names: an older version, say.
var serverBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("CHECKPOINTD_TORTURE_BINARY"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "checkpointd-torture-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "checkpointd")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", path, "../../cmd/server")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/server: %w: %s", err, said)
	}
	return path, nil
})
