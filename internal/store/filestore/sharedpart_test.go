package filestore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestSharedPart(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	id := trigger(t, s, 1)
	var want []byte
	var entries []coordinator.SharedEntry
	for i := range 40 {
		// Lines of very different lengths, some longer than what is read at once.
		value := `"` + strings.Repeat(fmt.Sprint(i), 1+i*i*i%977) + `"`
		key := fmt.Sprintf("key \"%02d\"\n", i)
		entries = append(entries, coordinator.SharedEntry{Key: key, Value: []byte(value)})
		want = snapshot.AppendEntry(want, snapshot.Shared, key, []byte(value))
	}
	_, err := s.WriteShared(t.Context(), coordinator.SharedWrite{Job: coordinator.DefaultJob, ID: id, Op: coordinator.SharedPut, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	acknowledge(t, s, id, "task-1", nil)
	if got := openRestore(t, s, id, 0).Parts()[0].PartInfo; got != (coordinator.PartInfo{Entries: 40, Bytes: int64(len(want)), Digest: digestOf(want)}) {
		t.Errorf("the part is %+v", got)
	}

	read := func(t *testing.T, source coordinator.RestoreSource, off, n int) {
		t.Helper()
		p := make([]byte, n)
		got, err := source.ReadAt(t.Context(), 0, p, int64(off))
		if err != nil || got != n || string(p) != string(want[off:off+n]) {
			t.Fatalf("%d bytes from %d: %d, %v", n, off, got, err)
		}
	}
	t.Run("onwards in pieces of any length", func(t *testing.T) {
		t.Parallel()
		source := openRestore(t, s, id, 0)
		for _, n := range []int{5, 64, 100, 4096, len(want)} {
			for off := 0; off < len(want); off += n {
				read(t, source, off, min(n, len(want)-off))
			}
		}
	})
	t.Run("from anywhere to anywhere", func(t *testing.T) {
		t.Parallel()
		source := openRestore(t, s, id, 0)
		for off := len(want) - 1; off >= 0; off -= 13 {
			read(t, source, off, min(50, len(want)-off))
			read(t, source, off/2, min(50, len(want)-off/2))
		}
	})
}
