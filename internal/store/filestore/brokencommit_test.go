package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// brokenSync commits as a disk does whose last sync fails: the page that makes the transaction valid was
// written, and the caller is told that it failed.
func brokenSync(err error) *func(*bolt.Tx) error {
	commit := func(tx *bolt.Tx) error {
		if committed := tx.Commit(); committed != nil {
			return committed
		}
		return err
	}
	return &commit
}

// unwritten fails before that page is written.
func unwritten(err error) *func(*bolt.Tx) error {
	commit := func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), err) }
	return &commit
}

// largeUpload begins an upload that needs a file, and gives what commits it.
func largeUpload(t *testing.T, s *Store, id int64, part []byte) func() error {
	t.Helper()
	upload, err := s.BeginUpload(t.Context(), coordinator.UploadCall{Job: coordinator.DefaultJob, ID: id, TaskID: "task-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := upload.WriteChunk(t.Context(), 0, part); err != nil {
		t.Fatal(err)
	}
	return func() error {
		_, err := upload.Commit(t.Context(), coordinator.CommitCall{Ack: true, Part: coordinator.PartInfo{Entries: 1, Bytes: int64(len(part)), Digest: digestOf(part)}})
		if discarded := upload.Discard(t.Context()); discarded != nil {
			t.Errorf("discard: %v", discarded)
		}
		return err
	}
}

func TestAPartWhoseCommitIsUnknownIsThereAfterTheNextStart(t *testing.T) {
	t.Parallel()
	part := bytes.Repeat([]byte("x"), InlineBytes+1)
	for how, send := range map[string]func(*testing.T, *Store, int64) func() error{
		"upload": func(t *testing.T, s *Store, id int64) func() error { t.Helper(); return largeUpload(t, s, id, part) },
		"large acknowledgement": func(t *testing.T, s *Store, id int64) func() error {
			t.Helper()
			return func() error {
				_, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{{TaskID: "task-1", Part: content(part)}}})
				return err
			}
		},
	} {
		for _, fault := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT} {
			t.Run(fmt.Sprintf("%s, %v", how, fault), func(t *testing.T) {
				t.Parallel()
				dir, d := t.TempDir(), new(faultyDisk)
				s, err := Open(dir, Options{disk: d})
				if err != nil {
					t.Fatal(err)
				}
				id := trigger(t, s, 1)
				commit := send(t, s, id)
				d.commit.Store(brokenSync(fault))
				if err := commit(); coordinator.CodeOf(err) != coordinator.CodeOutcomeUnknown {
					t.Errorf("it is answered %v", err)
				}
				wantBroken(t, s)
				if err := s.Sweep(t.Context(), coordinator.SweepCall{}); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable && err != nil {
					t.Errorf("sweep: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if found := names(t, dir); len(found) != 1 {
					t.Fatalf("parts/ has %v", found)
				}
				s = openIn(t, dir, Options{})
				if got := restored(t, s, id, 0); !bytes.Equal(got, part) {
					t.Errorf("%d bytes are restored, want %d", len(got), len(part))
				}
				if findings := audit(t, s); len(findings) > 0 {
					t.Error(findings)
				}
			})
		}
	}
}

// wantBroken checks that every source says that the server has to be started again.
func wantBroken(t *testing.T, s *Store) {
	t.Helper()
	_, health := s.Health(t.Context())
	_, change := s.committer.do(t.Context(), false, note("later"))
	for what, err := range map[string]error{"health": health, "a change": change} {
		cause, said := errors.AsType[*coordinator.Cause](err)
		if coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable || !said || !cause.Restart || !strings.Contains(detailOf(err), "Start the server again") {
			t.Errorf("%s answers %v", what, err)
		}
	}
	if s.Alive() == nil {
		t.Error("it says that it is alive")
	}
}

func TestACommitThatWasNotWrittenChangedNothing(t *testing.T) {
	t.Parallel()
	part := bytes.Repeat([]byte("x"), InlineBytes+1)
	for fault, want := range map[error]coordinator.Code{syscall.ENOSPC: coordinator.CodeStoreFull, syscall.EIO: coordinator.CodeStoreUnavailable} {
		dir, d := t.TempDir(), new(faultyDisk)
		s, err := Open(dir, Options{disk: d})
		if err != nil {
			t.Fatal(err)
		}
		id := trigger(t, s, 1)
		commit := largeUpload(t, s, id, part)
		d.commit.Store(unwritten(fault))
		if err := commit(); coordinator.CodeOf(err) != want {
			t.Errorf("%v is answered %v", fault, err)
		}
		d.heal()
		if errors.Is(fault, syscall.ENOSPC) {
			acknowledge(t, s, id, "task-1", part)
		} else {
			wantBroken(t, s)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		s = openIn(t, dir, Options{})
		if findings := audit(t, s); len(findings) > 0 {
			t.Error(findings)
		}
	}
}

func TestASyncThatFailedIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), new(faultyDisk)
	s := openIn(t, dir, Options{disk: d})
	id, part := trigger(t, s, 1), bytes.Repeat([]byte("x"), InlineBytes+1)
	upload, err := s.BeginUpload(t.Context(), coordinator.UploadCall{Job: coordinator.DefaultJob, ID: id, TaskID: "task-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := upload.WriteChunk(t.Context(), 0, part); err != nil {
		t.Fatal(err)
	}
	whole := coordinator.CommitCall{Part: coordinator.PartInfo{Entries: 1, Bytes: int64(len(part)), Digest: digestOf(part)}}
	d.failing("sync", syscall.EIO)
	_, first := upload.Commit(t.Context(), whole)
	d.heal()
	_, second := upload.Commit(t.Context(), whole)
	for _, err := range []error{first, second} {
		if coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
			t.Errorf("it is answered %v", err)
		}
	}
	acknowledge(t, s, id, "task-1", part) // a new file has nothing to do with that one

	// Of the names in a folder every later file depends.
	next := trigger(t, s, 1)
	folderOnly := func(operation, path string) error {
		if operation == "sync" && path == filepath.Join(dir, "parts") {
			return syscall.EIO
		}
		return nil
	}
	d.fails.Store(&folderOnly)
	_, err = s.Acknowledge(t.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: next, Items: []coordinator.AckItem{{TaskID: "task-1", Part: content(part)}}})
	if coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
		t.Errorf("it is answered %v", err)
	}
	d.heal()
	wantBroken(t, s)
}

func TestPartsThatCannotBeWrittenAreSaidToBe(t *testing.T) {
	t.Parallel()
	for operation, errno := range map[string]syscall.Errno{"writable": syscall.EACCES, "open": syscall.EMFILE} {
		d := new(faultyDisk)
		s := openIn(t, t.TempDir(), Options{disk: d})
		id := trigger(t, s, 1)
		d.failing(operation, errno)
		if operation == "open" {
			_, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{{TaskID: "task-1", Part: content(bytes.Repeat([]byte("x"), InlineBytes+1))}}})
			if coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable || !strings.Contains(detailOf(err), "parts/") || !strings.Contains(detailOf(err), errno.Error()) {
				t.Errorf("it is answered %v", err)
			}
		}
		warnings, err := s.Health(t.Context())
		if err != nil || len(warnings) != 1 || warnings[0].Code != "parts_failing" || !strings.Contains(warnings[0].Detail, errno.Error()) {
			t.Errorf("health with %v: %v, %v", errno, warnings, err)
		}
		d.heal()
		if warnings, err := s.Health(t.Context()); err != nil || len(warnings) > 0 {
			t.Errorf("health afterwards: %v, %v", warnings, err)
		}
		if left := leftovers(t, s); len(left) > 0 {
			t.Errorf("the probe has left %v", left)
		}
	}
}

func TestADataDirectoryThatWasReplacedIsNoticed(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+".aside") },
		"replaced": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".aside"), os.CopyFS(dir, os.DirFS(dir+".aside")))
		},
		"meta.db moved": func(dir string) error {
			return os.Rename(filepath.Join(dir, "meta.db"), filepath.Join(dir, "meta.old"))
		},
		"meta.db new": func(dir string) error {
			meta := filepath.Join(dir, "meta.db")
			whole, err := os.ReadFile(meta)
			return errors.Join(err, os.WriteFile(meta+".new", whole, 0o600), os.Rename(meta+".new", meta))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			s, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			id := trigger(t, s, 1)
			if err := replace(dir); err != nil {
				t.Fatal(err)
			}
			before := map[string]bool{}
			for _, name := range partNames(dir) {
				before[name] = true
			}
			if _, err := s.committer.do(t.Context(), false, note("lost")); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
				t.Errorf("a change is answered %v", err)
			}
			s.guard.checkAgain()
			if _, err := s.Get(t.Context(), ref(id)); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
				t.Errorf("a read is answered %v", err)
			}
			if _, err := s.Health(t.Context()); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable || !strings.Contains(detailOf(err), "moved, removed or replaced") {
				t.Errorf("health answers %v", err)
			}
			_ = s.Close()
			for _, name := range partNames(dir) {
				delete(before, name)
			}
			if len(before) > 0 {
				t.Errorf("it has removed files of another directory: %v", before)
			}
		})
	}
}

func partNames(dir string) []string {
	names, _ := listParts(realDisk{}, filepath.Join(dir, "parts"))
	return names
}

func TestADatabaseThatWasWrittenOverIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	trigger(t, s, 1)
	backup, err := os.ReadFile(filepath.Join(dir, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	trigger(t, s, 1)
	file, err := os.OpenFile(filepath.Join(dir, "meta.db"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(backup, 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.committer.do(t.Context(), false, note("lost")); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable || !strings.Contains(detailOf(err), "overwritten") {
		t.Errorf("a change is answered %v", err)
	}
	wantBroken(t, s)
}
