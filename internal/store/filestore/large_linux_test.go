package filestore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// largeDir is the variable that makes the test binary measure itself in a directory.
const largeDir = "CHECKPOINTD_FILESTORE_LARGE_DIR"

const (
	largePart   = 256 << 20
	mayGrow     = 64 << 20
	chunksLarge = largePart / coordinator.ChunkBytes
)

// A process of its own is measured, since the memory of this one is everybody's.
func TestLargePartsStayOutOfMemory(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes and reads 256 MiB")
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), largeDir+"="+t.TempDir())
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	grown, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("uploading and restoring %d MiB took %d MiB of memory", largePart>>20, grown>>20)
	if grown > mayGrow {
		t.Errorf("memory grew by %d bytes, want at most %d", grown, mayGrow)
	}
}

// measureLarge uploads and restores a large part and prints how many bytes of memory,
// mapped files included, that took at its peak.
func measureLarge(dir string) error {
	ctx := context.Background()
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	before, err := peakMemory()
	if err != nil {
		return err
	}
	triggered, err := s.Trigger(ctx, coordinator.TriggerCall{Job: coordinator.DefaultJob, RequiredTaskAcks: 1, Defaults: coordinator.Settings{MaxConcurrent: 1, EventsToKeep: 10_000}})
	if err != nil {
		return err
	}
	id := triggered.Checkpoint.ID
	upload, err := s.BeginUpload(ctx, coordinator.UploadCall{Job: coordinator.DefaultJob, ID: id, TaskID: "task-1"})
	if err != nil {
		return err
	}
	chunk := make([]byte, coordinator.ChunkBytes)
	for index := range chunksLarge {
		if err := upload.WriteChunk(ctx, index, chunk); err != nil {
			return err
		}
	}
	info := coordinator.PartInfo{Entries: 1, Bytes: largePart, Digest: coordinator.EmptyDigest[:70] + "0"}
	if _, err := upload.Commit(ctx, coordinator.CommitCall{Part: info, Ack: true}); err != nil {
		return err
	}
	source, err := s.OpenRestore(ctx, coordinator.RestoreCall{Ref: ref(id), LeaseMs: 60_000, Token: "restore"})
	if err != nil {
		return err
	}
	for index := range chunksLarge {
		if _, err := source.ReadAt(ctx, 1, chunk, int64(index)*coordinator.ChunkBytes); err != nil {
			return err
		}
	}
	after, err := peakMemory()
	if err != nil {
		return err
	}
	fmt.Println(after - before)
	return s.Close()
}

// peakMemory is the highest resident set of this process so far, in bytes.
func peakMemory() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in %q", status)
}
