package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/pacetest"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

func TestMain(m *testing.M) {
	pacetest.Waiting(6)
	redistest.Main(m)
}

// leaveOut skips with -short what uses up the whole budget of dozens of calls.
func leaveOut(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short waits for no budget to be used up")
	}
}
