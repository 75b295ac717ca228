package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestPartWriterCutsTheRenderedLinesIntoChunks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want, got bytes.Buffer
		var sizes []int
		w := snapshot.NewPartWriter("task-1", 1<<30, func(index int, chunk []byte) error {
			if index != len(sizes) {
				t.Fatalf("chunk %d came as number %d", index, len(sizes))
			}
			sizes = append(sizes, len(chunk))
			got.Write(chunk)
			clear(chunk) // the slice is ours only until we return
			return nil
		})
		entries := rapid.IntRange(0, 6).Draw(t, "entries")
		for i := range entries {
			key := fmt.Appendf(nil, "key\n%d", i)
			length := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(snapshot.ChunkSize-200, snapshot.ChunkSize+200), rapid.IntRange(0, 2*snapshot.ChunkSize)).Draw(t, "length")
			value := []byte(`"` + strings.Repeat(string(rune('a'+i)), length) + `"`)
			if int(w.Bytes()) != want.Len() || int(w.Entries()) != i {
				t.Fatalf("entry %d begins at %d, not at %d", w.Entries(), want.Len(), w.Bytes())
			}
			want.Write(snapshot.AppendEntry(nil, "task-1", key, value))
			if err := w.Add(key, value); err != nil {
				t.Fatal(err)
			}
		}
		part, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("the chunks are not the lines: %d bytes, not %d", got.Len(), want.Len())
		}
		for i, size := range sizes {
			if size > snapshot.ChunkSize || size == 0 || size < snapshot.ChunkSize && i < len(sizes)-1 {
				t.Fatalf("chunk %d of %d has %d bytes", i, len(sizes), size)
			}
		}
		sum := sha256.Sum256(want.Bytes())
		if want := (coordinator.PartInfo{Entries: int64(entries), Bytes: int64(want.Len()), Digest: "sha256:" + hex.EncodeToString(sum[:])}); part != want {
			t.Fatalf("got %+v, want %+v", part, want)
		}
	})
}

func TestPartWriterFillsTheLastChunkExactly(t *testing.T) {
	t.Parallel()
	chunks := 0
	w := snapshot.NewPartWriter(snapshot.Shared, 2*snapshot.ChunkSize, func(_ int, chunk []byte) error {
		chunks++
		if len(chunk) != snapshot.ChunkSize {
			t.Errorf("a chunk of %d bytes", len(chunk))
		}
		return nil
	})
	key := []byte("k")
	value := bytes.Repeat([]byte("1"), 2*snapshot.ChunkSize-snapshot.EntrySize(snapshot.Shared, key, nil))
	if err := w.Add(key, value); err != nil {
		t.Fatalf("a part as large as allowed: %v", err)
	}
	if part, err := w.Finish(); err != nil || part.Bytes != 2*snapshot.ChunkSize || chunks != 2 {
		t.Errorf("got %+v in %d chunks, %v", part, chunks, err)
	}
}

func TestPartWriterOfNothingHasNoChunk(t *testing.T) {
	t.Parallel()
	w := snapshot.NewPartWriter("t", 0, func(int, []byte) error {
		t.Error("a chunk")
		return nil
	})
	part, err := w.Finish()
	if want := (coordinator.PartInfo{Digest: coordinator.EmptyDigest}); err != nil || part != want {
		t.Errorf("got %+v, %v", part, err)
	}
	if _, err := w.Finish(); err == nil {
		t.Error("finished twice")
	}
	if err := w.Add([]byte("k"), []byte("1")); err == nil {
		t.Error("added after the end")
	}
}

func TestPartWriterRefusesAPartThatIsTooLarge(t *testing.T) {
	t.Parallel()
	size := int64(snapshot.EntrySize("t", "a", []byte("1")))
	chunks := 0
	w := snapshot.NewPartWriter("t", 2*size-1, func(int, []byte) error {
		chunks++
		return nil
	})
	if err := w.Add([]byte("a"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	want := &snapshot.TooLargeError{What: "part", Max: 2*size - 1, Detail: fmt.Sprintf("the part is larger than %d bytes", 2*size-1)}
	if diff := cmp.Diff(error(want), w.Add([]byte("b"), []byte("1"))); diff != "" {
		t.Errorf("wrong error (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(error(want), w.Add([]byte("c"), nil)); diff != "" {
		t.Errorf("wrong error of the next entry (-want +got):\n%s", diff)
	}
	if _, err := w.Finish(); !errors.Is(err, want) && cmp.Diff(error(want), err) != "" || chunks != 0 {
		t.Errorf("finished with %d chunks, %v", chunks, err)
	}
}

func TestPartWriterStopsAtTheFirstChunkThatCannotBePut(t *testing.T) {
	t.Parallel()
	away := errors.New("store away")
	calls := 0
	w := snapshot.NewPartWriter("t", 1<<30, func(index int, _ []byte) error {
		calls++
		if index == 1 {
			return away
		}
		return nil
	})
	value := bytes.Repeat([]byte("1"), 4*snapshot.ChunkSize)
	if err := w.Add([]byte("a"), value); !errors.Is(err, away) || err.Error() != "put chunk 1: store away" {
		t.Errorf("got %v", err)
	}
	if err := w.Add([]byte("b"), value); !errors.Is(err, away) {
		t.Errorf("the next entry: %v", err)
	}
	if _, err := w.Finish(); !errors.Is(err, away) {
		t.Errorf("the end: %v", err)
	}
	if calls != 2 || w.Entries() != 0 {
		t.Errorf("%d calls, %d entries", calls, w.Entries())
	}
}

func TestPartWriterPutsNothingOnceItIsClosed(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	w := snapshot.NewPartWriter("t", 1<<30, func(int, []byte) error {
		close(began)
		<-goOn
		ended.Store(true)
		return nil
	})
	if err := w.Add([]byte("a"), bytes.Repeat([]byte("1"), snapshot.ChunkSize)); err != nil {
		t.Fatal(err)
	}
	<-began
	go close(goOn)
	w.Close()
	if !ended.Load() {
		t.Error("a chunk is still being put")
	}
	if err := w.Add([]byte("b"), nil); err == nil {
		t.Error("added after the end")
	}
	w.Close()
}

func TestPartWriterSurvivesAPanic(t *testing.T) {
	t.Parallel()
	w := snapshot.NewPartWriter("t", 1<<30, func(int, []byte) error { panic("at the disco") })
	if err := w.Add([]byte("a"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); coordinator.CodeOf(err) != coordinator.CodeInternal || !strings.Contains(err.Error(), "disco") {
		t.Errorf("got %v", err)
	}
}
