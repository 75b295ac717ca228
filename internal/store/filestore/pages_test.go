package filestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// worked gives a directory with a database that has grown through several pages of each kind: jobs,
// checkpoints, acknowledgements, parts in the database and in files, and shared state.
func worked(t testing.TB) (dir string, meta []byte) {
	t.Helper()
	dir = t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		var items []coordinator.AckItem
		for task := range 40 {
			items = append(items, coordinator.AckItem{
				TaskID: fmt.Sprintf("task-%d", task), Part: content(bytes.Repeat([]byte("x"), 100*task*(i%3))),
			})
		}
		call := coordinator.AckCall{Job: coordinator.DefaultJob, ID: trigger(t, s, len(items)), Items: items}
		if _, err := s.Acknowledge(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	acknowledge(t, s, trigger(t, s, 1), "task-1", bytes.Repeat([]byte("x"), InlineBytes+1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if meta, err = os.ReadFile(filepath.Join(dir, "meta.db")); err != nil {
		t.Fatal(err)
	}
	return dir, meta
}

// reopen opens a directory with other bytes in meta.db. If that is refused, it must be with an error
// that names the directory, calls it damaged and leaves parts/ alone; if not, the store must do its work.
func reopen(t *testing.T, dir string, meta []byte) error {
	t.Helper()
	before := names(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "meta.db"), meta, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		for _, want := range []string{dir, "is damaged", "from a backup"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("the error has several lines: %v", err)
		}
		if diff := cmp.Diff(before, names(t, dir)); diff != "" {
			t.Errorf("parts/ changed:\n%s", diff)
		}
		return err
	}
	// What the records say may be wrong now, and then it is refused call by call.
	_ = s.Sweep(t.Context(), coordinator.SweepCall{})
	_, _ = s.Jobs(t.Context())
	_, _ = s.Get(t.Context(), ref(coordinator.Latest))
	_ = s.Close()
	return nil
}

func TestADamagedDatabaseIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	dir, meta := worked(t)
	for what, cut := range map[string]int{
		"half": len(meta) / 2, "5000 bytes": 5000, "one page": 4096, "two pages": 8192, "one byte": 1, "all but one of its pages": used(t, dir, meta) - 1,
	} {
		if err := reopen(t, dir, meta[:cut]); err == nil {
			t.Errorf("a database cut to %s was opened", what)
		}
	}
	if err := reopen(t, dir, make([]byte, len(meta))); err == nil {
		t.Error("a database of zeroes was opened")
	}
	if err := reopen(t, dir, meta); err != nil {
		t.Errorf("the whole database: %v", err)
	}
}

// used is how many bytes of a database have something in them.
func used(t *testing.T, dir string, meta []byte) int {
	t.Helper()
	p, _, _, err := openPages(bytes.NewReader(meta), uint64(len(meta)))
	if err != nil {
		t.Fatal(dir, err)
	}
	return int(p.end * p.size)
}

// Whatever 60 bytes are others, a start is refused or goes well: nothing panics, in no goroutine.
func TestADatabaseWithOtherBytesIsRefusedOrWorks(t *testing.T) {
	t.Parallel()
	dir, meta := worked(t)
	end, refused := used(t, dir, meta), 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 60))
		other := bytes.Clone(meta)
		for range 60 {
			other[random.IntN(end)] ^= byte(1 + random.IntN(255))
		}
		if reopen(t, dir, other) != nil {
			refused++
		}
	}
	t.Logf("%d of 60 refused", refused)
	if refused < 30 {
		t.Errorf("only %d of 60 damaged databases were refused", refused)
	}
}

// In the places that say where things are, a single byte is enough.
func TestADatabaseWithAnotherByteInTheHeadOfAPageIsRefusedOrWorks(t *testing.T) {
	t.Parallel()
	dir, meta := worked(t)
	pages, random := used(t, dir, meta)/4096, rand.New(rand.NewPCG(1, 2))
	for range 40 {
		other := bytes.Clone(meta)
		at := random.IntN(pages)*4096 + random.IntN(200)
		other[at] ^= 1 << random.IntN(8)
		_ = reopen(t, dir, other)
	}
}
