package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// fullDisk is a store on a disk without a free byte, and two checkpoints: a completed
// one with a large part, and a pending one with shared state that can expire.
type fullDisk struct {
	*Store
	dir       string
	now       atomic.Int64
	completed int64
	part      []byte
	pending   int64
}

const fullDiskTimeout = 60_000

func newFullDisk(t *testing.T) *fullDisk {
	t.Helper()
	d := &fullDisk{dir: smallDisk(t, 8<<20), part: bytes.Repeat([]byte("y"), 1<<20)}
	d.now.Store(1_000_000)
	d.Store = openIn(t, d.dir, Options{Clock: d.now.Load})
	d.completed = trigger(t, d.Store, 1)
	acknowledge(t, d.Store, d.completed, "task-1", d.part)
	d.pending = d.trigger(t)
	if err := d.write(t, "state", 8*InlineBytes); err != nil {
		t.Fatal(err)
	}
	d.fill(t)
	return d
}

// write writes a shared entry of the pending checkpoint.
func (d *fullDisk) write(t *testing.T, key string, size int) error {
	t.Helper()
	_, err := d.WriteShared(t.Context(), coordinator.SharedWrite{
		Job: coordinator.DefaultJob, ID: d.pending, Op: coordinator.SharedPut,
		Entries: []coordinator.SharedEntry{{Key: key, Value: bytes.Repeat([]byte("1"), size)}},
	})
	return err
}

func (d *fullDisk) trigger(t *testing.T) int64 {
	t.Helper()
	result, err := d.Trigger(t.Context(), coordinator.TriggerCall{
		Job: coordinator.DefaultJob, RequiredTaskAcks: 2, Defaults: coordinator.Settings{MaxConcurrent: 1000, EventsToKeep: 10_000}, TimeoutMs: new(int64(fullDiskTimeout)),
	})
	if err != nil {
		t.Fatalf("trigger: %v", err)
	}
	return result.Checkpoint.ID
}

// fill takes every free byte of the disk and then every free page of the database.
func (d *fullDisk) fill(t *testing.T) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(d.dir, "ballast"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for size := InlineBytes / 2; size > 0; size /= 2 {
		for i := 0; err == nil || i == 0; i++ {
			err = d.write(t, fmt.Sprintf("%d-%d", size, i), size)
		}
		if coordinator.CodeOf(err) != coordinator.CodeStoreFull {
			t.Fatalf("writing shared state to a full disk: %v", err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	for what, works := range map[string]func(t *testing.T, d *fullDisk) error{
		"abort": func(t *testing.T, d *fullDisk) error {
			t.Helper()
			_, err := d.Abort(t.Context(), coordinator.AbortCall{Job: coordinator.DefaultJob, ID: d.pending})
			return err
		},
		"delete": func(t *testing.T, d *fullDisk) error {
			t.Helper()
			return d.Delete(t.Context(), coordinator.DeleteCall{Job: coordinator.DefaultJob, ID: d.completed})
		},
		"cleanup": func(t *testing.T, d *fullDisk) error {
			t.Helper()
			result, err := d.Cleanup(t.Context(), coordinator.CleanupCall{Job: coordinator.DefaultJob, Max: 100})
			if len(result.Deleted) != 2 {
				t.Errorf("deleted = %v, want both", result.Deleted)
			}
			return err
		},
		"recover": func(t *testing.T, d *fullDisk) error {
			t.Helper()
			_, err := d.Recover(t.Context(), coordinator.RecoverCall{Job: coordinator.DefaultJob, LeaseMs: 1000})
			return err
		},
		"expiry": func(t *testing.T, d *fullDisk) error {
			t.Helper()
			d.now.Add(fullDiskTimeout + 1)
			return d.Sweep(t.Context(), coordinator.SweepCall{})
		},
	} {
		t.Run(what+" works and makes room", func(t *testing.T) {
			t.Parallel()
			d := newFullDisk(t)
			if err := works(t, d); err != nil {
				t.Fatalf("on a full disk: %v", err)
			}
			next := trigger(t, d.Store, 1)
			acknowledge(t, d.Store, next, "task-1", []byte("small"))
			if findings := audit(t, d.Store); len(findings) > 0 {
				t.Error(findings)
			}
		})
	}

	t.Run("an upload is refused, and its bytes are given back", func(t *testing.T) {
		t.Parallel()
		d := newFullDisk(t)
		upload, err := d.BeginUpload(t.Context(), coordinator.UploadCall{Job: coordinator.DefaultJob, ID: d.pending, TaskID: "task-1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := upload.WriteChunk(t.Context(), 0, d.part[:coordinator.ChunkBytes]); coordinator.CodeOf(err) != coordinator.CodeStoreFull {
			t.Errorf("write chunk: %v", err)
		}
		if err := upload.Discard(t.Context()); err != nil {
			t.Errorf("discard: %v", err)
		}
		_, err = d.Acknowledge(t.Context(), coordinator.AckCall{
			Job: coordinator.DefaultJob, ID: d.pending, Items: []coordinator.AckItem{{TaskID: "task-1", Part: content(d.part)}},
		})
		if coordinator.CodeOf(err) != coordinator.CodeStoreFull {
			t.Errorf("acknowledge: %v", err)
		}
		if err := d.Sweep(t.Context(), coordinator.SweepCall{}); err != nil {
			t.Errorf("sweep: %v", err)
		}
		if findings := audit(t, d.Store); len(findings) > 0 {
			t.Error(findings)
		}
	})

	t.Run("reading goes on, with the reserve and without it", func(t *testing.T) {
		t.Parallel()
		for what, give := range map[string]bool{"with": false, "without": true} {
			d := newFullDisk(t)
			if give {
				d.reserve.give()
				d.fill(t)
			}
			if got := restored(t, d.Store, d.completed, 60_000); !bytes.Equal(got, d.part) {
				t.Errorf("%s the reserve: restored %d bytes, want %d", what, len(got), len(d.part))
			}
			if _, err := d.Get(t.Context(), ref(d.pending)); err != nil {
				t.Errorf("%s the reserve: get: %v", what, err)
			}
		}
	})

	t.Run("a change that fits is not refused for one beside it that does not", func(t *testing.T) {
		t.Parallel()
		s := openIn(t, smallDisk(t, 4<<20), Options{})
		errs := together(t, s,
			func(st *step) error {
				st.put(st.tx.Bucket(bucketMeta), []byte("large"), make([]byte, 8<<20))
				return nil
			},
			note("small"))
		if coordinator.CodeOf(errs[0]) != coordinator.CodeStoreFull || errs[1] != nil {
			t.Errorf("errors = %v", errs)
		}
		if !noted(t, s, "small") || noted(t, s, "large") {
			t.Error("the wrong one is there")
		}
	})

	t.Run("a store opens, and takes its reserve again once there is room", func(t *testing.T) {
		t.Parallel()
		d := newFullDisk(t)
		d.reserve.give()
		d.fill(t)
		if err := d.Store.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(d.dir, Options{Clock: d.now.Load})
		if err != nil {
			t.Fatalf("open on a full disk: %v", err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		if warnings, err := s.Health(t.Context()); err != nil || len(warnings) != 1 || warnings[0].Code != "disk_full" {
			t.Errorf("health on a full disk: %v, %v", warnings, err)
		}
		if err := os.Remove(filepath.Join(d.dir, "ballast")); err != nil {
			t.Fatal(err)
		}
		d.now.Add(reserveRetryMs)
		if err := s.Sweep(t.Context(), coordinator.SweepCall{}); err != nil {
			t.Fatal(err)
		}
		if found, err := os.Stat(s.reserve.path); err != nil || found.Size() != reserveBytes {
			t.Errorf("the reserve: %v, %v", found, err)
		}
		if warnings, err := s.Health(t.Context()); err != nil || len(warnings) > 0 {
			t.Errorf("health with room: %v, %v", warnings, err)
		}
	})
}
