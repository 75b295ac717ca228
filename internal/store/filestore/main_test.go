package filestore

import (
	"fmt"
	"os"
	"testing"

	"github.com/checkpointd/checkpointd/internal/pacetest"
)

// TestMain lets tests start this binary as a process of its own.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		workUntilKilled(dir)
		os.Exit(1) // not reached
	}
	if dir := os.Getenv(largeDir); dir != "" {
		if err := measureLarge(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pacetest.Waiting(4)
	os.Exit(m.Run())
}
