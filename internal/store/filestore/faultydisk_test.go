package filestore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// faultyDisk is the real disk until a test has some of it fail.
type faultyDisk struct {
	realDisk

	// fails gives the error of an operation on a file of parts/, or on parts/ itself; nil lets it happen.
	fails atomic.Pointer[func(operation, path string) error]
	// commit stands in for the commit of a transaction while it is set.
	commit atomic.Pointer[func(*bolt.Tx) error]
}

// failing has one operation fail, "" any of them, until heal.
func (d *faultyDisk) failing(operation string, err error) {
	fails := func(what, _ string) error {
		if operation == "" || operation == what {
			return err
		}
		return nil
	}
	d.fails.Store(&fails)
}

func (d *faultyDisk) heal() { d.fails.Store(nil); d.commit.Store(nil) }

func (d *faultyDisk) fault(operation, path string) error {
	fails := d.fails.Load()
	if fails == nil || !strings.Contains(path, "parts") {
		return nil
	}
	return (*fails)(operation, path)
}

func (d *faultyDisk) Open(path string, flag int) (*os.File, error) {
	if err := d.fault("open", path); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return d.realDisk.Open(path, flag)
}

func (d *faultyDisk) Stat(path string) (fs.FileInfo, error) {
	if err := d.fault("stat", path); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return d.realDisk.Stat(path)
}

func (d *faultyDisk) ReadAt(file *os.File, p []byte, off int64) (int, error) {
	if err := d.fault("read", file.Name()); err != nil {
		return 0, &fs.PathError{Op: "read", Path: file.Name(), Err: err}
	}
	return d.realDisk.ReadAt(file, p, off)
}

func (d *faultyDisk) Sync(file *os.File) error {
	if err := d.fault("sync", file.Name()); err != nil {
		return &fs.PathError{Op: "sync", Path: file.Name(), Err: err}
	}
	return d.realDisk.Sync(file)
}

func (d *faultyDisk) Writable(folder string) error {
	if err := d.fault("writable", folder); err != nil {
		return err
	}
	return d.realDisk.Writable(folder)
}

func (d *faultyDisk) Commit(tx *bolt.Tx) error {
	if commit := d.commit.Load(); commit != nil {
		return (*commit)(tx)
	}
	return d.realDisk.Commit(tx)
}

// twoCompleted makes two completed checkpoints, each with one part in a file.
func twoCompleted(t *testing.T, s *Store) (older, newer int64, part []byte) {
	t.Helper()
	part = bytes.Repeat([]byte("x"), InlineBytes+1)
	older, newer = trigger(t, s, 1), trigger(t, s, 1)
	for _, id := range []int64{older, newer} {
		acknowledge(t, s, id, "task-1", part)
	}
	return older, newer, part
}

func detailOf(err error) string {
	if refusal, is := errors.AsType[*coordinator.Error](err); is {
		return refusal.Detail
	}
	return ""
}

// checkAgain has the next read look at the data directory.
func (g *guard) checkAgain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looked = time.Time{}
}

func restoreLatest(t *testing.T, s *Store) (string, error) {
	t.Helper()
	restore, err := coordinator.New(s, coordinator.Options{}).OpenRestore(t.Context(), coordinator.RestoreRequest{Ref: ref(coordinator.Latest)})
	if err != nil {
		return "", err
	}
	defer restore.Close()
	var got bytes.Buffer
	err = restore.WriteRange(&got, 0, restore.Size())
	return got.String(), err
}

// wantUnharmed checks that nobody has taken the newer checkpoint for damaged.
func wantUnharmed(t *testing.T, s *Store, newer int64, part []byte) {
	t.Helper()
	s.guard.checkAgain()
	latest, err := s.Get(t.Context(), ref(coordinator.Latest))
	if err != nil || latest.ID != newer || latest.Damage != "" {
		t.Errorf("afterwards the latest is %d with damage %q (%v), want %d", latest.ID, latest.Damage, err, newer)
	}
	if got, err := restoreLatest(t, s); err != nil || got != string(part) {
		t.Errorf("afterwards %d bytes are restored (%v), want %d", len(got), err, len(part))
	}
}

func TestWhatCouldNotBeLookedAtIsNoDamage(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EIO, syscall.ENOMEM, syscall.ESTALE, syscall.ENOTDIR} {
		for _, operation := range []string{"stat", "open", "read", ""} {
			t.Run(operation+" "+errno.Error(), func(t *testing.T) {
				t.Parallel()
				d := new(faultyDisk)
				s := open(t, Options{disk: d})
				_, newer, part := twoCompleted(t, s)
				d.failing(operation, errno)
				for range 2 { // however often it is asked for
					_, err := restoreLatest(t, s)
					if coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable || !strings.Contains(detailOf(err), errno.Error()) {
						t.Errorf("a restore: %v", err)
					}
					recovered, err := coordinator.New(s, coordinator.Options{}).Recover(t.Context(), coordinator.RecoverRequest{Job: coordinator.DefaultJob})
					looked := operation == "open" || operation == "read" // a recovery looks without opening
					if looked && (err != nil || recovered.Checkpoint.ID != newer) || !looked && coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
						t.Errorf("a recovery: %+v, %v", recovered.Checkpoint, err)
					}
				}
				d.heal()
				wantUnharmed(t, s, newer, part)
			})
		}
	}
}

func TestPartsThatAreAwayAsAWholeAreNoDamage(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]func(path string) error{
		"gone":    func(string) error { return nil },
		"empty":   func(path string) error { return os.Mkdir(path, 0o750) },
		"a file":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a link":  func(path string) error { return os.Symlink("nowhere", path) },
		"another": func(path string) error { return os.Symlink(filepath.Dir(path)+".aside", path) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openIn(t, dir, Options{})
			_, newer, part := twoCompleted(t, s)
			parts, aside := filepath.Join(dir, "parts"), filepath.Join(t.TempDir(), "aside")
			if err := os.Rename(parts, aside); err != nil {
				t.Fatal(err)
			}
			if err := put(parts); err != nil {
				t.Fatal(err)
			}
			if _, err := restoreLatest(t, s); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
				t.Errorf("a restore: %v", err)
			}
			if err := os.RemoveAll(parts); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(aside, parts); err != nil {
				t.Fatal(err)
			}
			wantUnharmed(t, s, newer, part)
		})
	}
}
