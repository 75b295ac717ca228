//go:build unix

package snapshot_test

import (
	"os"
	"testing"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// A process that is killed must not leave its spilled keys behind.
func TestKeySetSpillsToAFileWithoutAName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	set := snapshot.NewSmallKeySet(dir, 1)
	defer set.Close()
	for i, key := range []string{"a", "b"} {
		if err := set.Add([]byte(key), int64(i), i+1); err != nil {
			t.Fatal(err)
		}
	}
	if set.Runs() != 1 {
		t.Fatalf("%d runs were spilled", set.Runs())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}
