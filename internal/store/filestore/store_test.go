package filestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("a directory in use is refused with what to do", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		openIn(t, dir, Options{})
		_, err := Open(dir, Options{LockTimeout: 10 * time.Millisecond})
		if err == nil {
			t.Fatal("two stores are open in one directory")
		}
		for _, want := range []string{dir, "in use by another process", "--data"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
	})

	t.Run("a directory of a newer layout is refused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.committer.do(t.Context(), false, func(st *step) error {
			st.put(st.tx.Bucket(bucketMeta), keySchema, idKey(schemaVersion+1))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err = Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "layout 2") {
			t.Errorf("open: %v", err)
		}
	})

	t.Run("orphans are swept and foreign files are not", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		id := trigger(t, s, 1)
		content := bytes.Repeat([]byte("x"), InlineBytes+1)
		acknowledge(t, s, id, "task-1", content)
		named := names(t, dir)
		if len(named) != 1 {
			t.Fatalf("files of one large part: %v", named)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		foreign := "lost+found.txt"
		for _, name := range []string{newName(), newName() + partial, foreign} {
			if err := os.WriteFile(filepath.Join(dir, "parts", name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s = openIn(t, dir, Options{})
		if got := names(t, dir); len(got) != 2 || got[0] != named[0] || got[1] != foreign {
			t.Errorf("files = %v, want %s and %s", got, named[0], foreign)
		}
		if got := restored(t, s, id, 0); !bytes.Equal(got, content) {
			t.Errorf("restored %d bytes, want %d", len(got), len(content))
		}
	})

	for what, lose := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"new":     newDatabase,
	} {
		t.Run("parts beside a meta.db that is "+what+" are refused and stay", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			acknowledge(t, s, trigger(t, s, 1), "task-1", bytes.Repeat([]byte("x"), InlineBytes+1))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			meta := filepath.Join(dir, "meta.db")
			whole, err := os.ReadFile(meta)
			if err != nil {
				t.Fatal(err)
			}
			before := names(t, dir)
			if err := lose(meta); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a refusal must not make new what was missing
				_, err = Open(dir, Options{})
				if err == nil {
					t.Fatal("a directory that lost its records was opened")
				}
				for _, want := range []string{dir, "(1 of them)", "restore meta.db", "move parts/ away"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the error does not say %q: %v", want, err)
					}
				}
			}
			if diff := cmp.Diff(before, names(t, dir)); diff != "" || len(before) != 1 {
				t.Fatalf("parts/ changed:\n%s", diff)
			}
			// The first way out that the error names, and all is there again.
			if err := os.WriteFile(meta, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			s = openIn(t, dir, Options{})
			if got := restored(t, s, 0, 0); len(got) != InlineBytes+1 {
				t.Errorf("restored %d bytes after meta.db came back", len(got))
			}
		})
	}

	t.Run("an empty meta.db beside no parts is new", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "meta.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if id := trigger(t, openIn(t, dir, Options{}), 1); id != 0 {
			t.Errorf("the first id is %d", id)
		}
	})

	t.Run("a record of a newer server is not gone back behind and disturbs nobody", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		older, newer := trigger(t, s, 1), trigger(t, s, 1)
		for _, id := range []int64{older, newer} {
			acknowledge(t, s, id, "task-1", nil)
		}
		_, err := s.committer.do(t.Context(), false, func(st *step) error {
			c, err := st.job(coordinator.DefaultJob).checkpoint(newer)
			if err == nil {
				c.Schema = schemaVersion + 1
				st.touch(c)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []int64{newer, coordinator.Latest} {
			if _, err := s.Get(t.Context(), ref(id)); coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged || !strings.Contains(detailOf(err), "Checkpoint 1 ") {
				t.Errorf("get %d: %v", id, err)
			}
		}
		if _, err := s.Get(t.Context(), ref(older)); err != nil {
			t.Errorf("get the older: %v", err)
		}
		if next := trigger(t, s, 1); next != newer+1 {
			t.Errorf("next id = %d, want %d", next, newer+1)
		}
	})
}

// newDatabase puts a database in the place of another as a crash right after its creation leaves it.
func newDatabase(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	return db.Close()
}

// names lists parts/.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "parts"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func ref(id int64) coordinator.Ref { return coordinator.Ref{Job: coordinator.DefaultJob, ID: id} }

// trigger makes a checkpoint of the default job that never expires.
func trigger(t testing.TB, s *Store, required int) int64 {
	t.Helper()
	result, err := s.Trigger(t.Context(), coordinator.TriggerCall{Job: coordinator.DefaultJob, RequiredTaskAcks: required, Defaults: coordinator.Settings{MaxConcurrent: 1000, EventsToKeep: 10_000}})
	if err != nil {
		t.Fatalf("trigger: %v", err)
	}
	return result.Checkpoint.ID
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func content(b []byte) *coordinator.PartContent {
	return &coordinator.PartContent{Content: b, Entries: 1, Digest: digestOf(b)}
}

// acknowledge hands in content as a part; nil hands in none.
func acknowledge(t testing.TB, s *Store, id int64, task string, b []byte) {
	t.Helper()
	item := coordinator.AckItem{TaskID: task}
	if b != nil {
		item.Part = content(b)
	}
	result, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{item}})
	if err != nil {
		t.Fatalf("acknowledge: %v", err)
	}
	if refusal := result.Outcomes[0].Refusal; refusal != nil {
		t.Fatalf("acknowledge: %v", refusal)
	}
}

// openRestore opens a restore of everything until the test ends; leaseMs 0 takes no lease.
func openRestore(t testing.TB, s *Store, id, leaseMs int64) coordinator.RestoreSource {
	t.Helper()
	source, err := s.OpenRestore(t.Context(), coordinator.RestoreCall{Ref: ref(id), LeaseMs: leaseMs, Token: "restore"})
	if err != nil {
		t.Fatalf("open restore: %v", err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Errorf("close restore: %v", err)
		}
	})
	return source
}

// restored reads the parts of a snapshot, one after the other.
func restored(t testing.TB, s *Store, id, leaseMs int64) []byte {
	t.Helper()
	source := openRestore(t, s, id, leaseMs)
	var all []byte
	for i, p := range source.Parts() {
		from := len(all)
		for off := int64(0); off < p.Bytes; {
			buffer := make([]byte, coordinator.ChunkBytes)
			n, err := source.ReadAt(t.Context(), i, buffer, off)
			if err != nil {
				t.Fatalf("read part %d at %d: %v", i, off, err)
			}
			all = append(all, buffer[:n]...)
			off += int64(n)
		}
		if got := digestOf(all[from:]); got != p.Digest {
			t.Errorf("part %d of checkpoint %d has digest %s, its manifest says %s", i, id, got, p.Digest)
		}
	}
	return all
}
