package filestore

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// runOnce opens a store, lets it work, and closes it.
func runOnce(t *testing.T, dir string, work func(*Store)) {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	work(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func copyAll(from, to string) error { return exec.Command("cp", "-a", from, to).Run() }

func TestAStartOnAnOlderCopyPassesOverWhatItMayBeBehind(t *testing.T) {
	t.Parallel()
	for what, putBack := range map[string]func(dir, backup string) error{
		"the directory":          func(dir, backup string) error { return errors.Join(os.RemoveAll(dir), copyAll(backup, dir)) },
		"the directory, renamed": func(dir, backup string) error { return errors.Join(os.RemoveAll(dir), os.Rename(backup, dir)) },
		"meta.db, in place": func(dir, backup string) error {
			old, err := os.ReadFile(filepath.Join(backup, "meta.db"))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "meta.db"), old, 0o600))
		},
		"meta.db without generation": func(dir, backup string) error {
			return errors.Join(os.RemoveAll(dir), copyAll(backup, dir), os.Remove(filepath.Join(dir, "generation")))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
			recovered := func(s *Store) int64 {
				result, err := s.Recover(t.Context(), coordinator.RecoverCall{Job: coordinator.DefaultJob})
				if err != nil {
					t.Fatal(err)
				}
				return result.Epoch
			}
			state := func(s *Store) coordinator.JobState {
				state, err := s.Job(t.Context(), coordinator.DefaultJob)
				if err != nil {
					t.Fatal(err)
				}
				return state
			}
			runOnce(t, dir, func(s *Store) { trigger(t, s, 1); recovered(s) })
			if err := copyAll(dir, backup); err != nil {
				t.Fatal(err)
			}
			var lost coordinator.JobState
			runOnce(t, dir, func(s *Store) { trigger(t, s, 1); recovered(s); lost = state(s) })
			if err := putBack(dir, backup); err != nil {
				t.Fatal(err)
			}
			runOnce(t, dir, func(s *Store) {
				now := state(s)
				if now.NextID <= lost.NextID || now.Epoch <= lost.Epoch || now.LastEvent.Seq <= lost.LastEvent.Seq {
					t.Errorf("ids go on at %d in epoch %d after event %d, and before the loss it was %d, %d, %d", now.NextID, now.Epoch, now.LastEvent.Seq, lost.NextID, lost.Epoch, lost.LastEvent.Seq)
				}
				if events, err := s.Events(t.Context(), coordinator.EventsCall{Job: coordinator.DefaultJob, After: &lost.LastEvent, Limit: 10}); err != nil || !events.Gap {
					t.Errorf("who has seen what was lost is told of no gap: %+v, %v", events, err)
				}
				if warnings, err := s.Health(t.Context()); err != nil || len(warnings) != 1 || warnings[0].Code != "data_copied" {
					t.Errorf("health: %v, %v", warnings, err)
				}
			})
			wantNoCopy(t, dir)
		})
	}
}

// wantNoCopy checks that a start is taken for one on the same files.
func wantNoCopy(t *testing.T, dir string) {
	t.Helper()
	runOnce(t, dir, func(s *Store) {
		if warnings, err := s.Health(t.Context()); err != nil || len(warnings) > 0 {
			t.Errorf("the next start: %v, %v", warnings, err)
		}
	})
}

func TestAnOrdinaryStartPassesOverNothing(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	for want := range int64(3) {
		runOnce(t, dir, func(s *Store) {
			if got := trigger(t, s, 1); got != want {
				t.Errorf("id %d, want %d", got, want)
			}
		})
	}
	// The same volume elsewhere.
	moved := filepath.Join(parent, "moved")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	wantNoCopy(t, moved)
	// A server before this one has noted nothing.
	runOnce(t, moved, func(s *Store) {
		behind(t, s, func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(keyOrigin) })
	})
	if err := os.Remove(filepath.Join(moved, "generation")); err != nil {
		t.Fatal(err)
	}
	wantNoCopy(t, moved)
}

func TestPartsThatAreNotThereAtAStartAreNotTakenForDamage(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(parts string) error{
		"missing": func(string) error { return nil },
		"another": func(parts string) error { return os.Mkdir(parts, 0o750) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			parts, aside := filepath.Join(dir, "parts"), filepath.Join(t.TempDir(), "aside")
			part := bytes.Repeat([]byte("x"), InlineBytes+1)
			runOnce(t, dir, func(s *Store) { acknowledge(t, s, trigger(t, s, 1), "task-1", part) })
			if err := errors.Join(os.Rename(parts, aside), lose(parts)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "put parts/ back") {
					t.Fatalf("open: %v", err)
				}
			}
			if err := errors.Join(os.RemoveAll(parts), os.Rename(aside, parts)); err != nil {
				t.Fatal(err)
			}
			runOnce(t, dir, func(s *Store) {
				if got := restored(t, s, 0, 0); !bytes.Equal(got, part) {
					t.Errorf("%d bytes are restored", len(got))
				}
			})
			// The other way out that the error names.
			if err := errors.Join(os.RemoveAll(parts), os.Mkdir(parts, 0o750), os.WriteFile(filepath.Join(parts, "lost"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			runOnce(t, dir, func(s *Store) {
				if _, err := restoredAs(t.Context(), s, 0); coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged {
					t.Errorf("a restore is answered %v", err)
				}
			})
		})
	}
}

func TestAFileThatOnlyTheIndexHasLostIsNotSwept(t *testing.T) {
	t.Parallel()
	dir, part := t.TempDir(), bytes.Repeat([]byte("x"), InlineBytes+1)
	runOnce(t, dir, func(s *Store) {
		acknowledge(t, s, trigger(t, s, 1), "task-1", part)
		behind(t, s, func(tx *bolt.Tx) error {
			file := partNames(dir)[0]
			changed := strings.Repeat("0", len(file)) // a name still
			return errors.Join(tx.Bucket(bucketFiles).Delete([]byte(file)), tx.Bucket(bucketFiles).Put([]byte(changed), present))
		})
	})
	runOnce(t, dir, func(s *Store) {
		if got := restored(t, s, 0, 0); !bytes.Equal(got, part) {
			t.Errorf("%d bytes are restored", len(got))
		}
	})
}
