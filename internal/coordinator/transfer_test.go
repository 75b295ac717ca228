package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// countedSource counts how often it is read.
type countedSource struct {
	*memorySource
	reads atomic.Int64
}

func (s *countedSource) ReadAt(ctx context.Context, part int, p []byte, off int64) (int, error) {
	s.reads.Add(1)
	return s.memorySource.ReadAt(ctx, part, p, off)
}

// stoppedReader reads nothing until it is let go.
type stoppedReader struct {
	bytes.Buffer
	letGo chan struct{}
}

func (r *stoppedReader) Write(p []byte) (int, error) {
	<-r.letGo
	return r.Buffer.Write(p)
}

// transfer opens a restore of a source; its lease is long enough to play no part.
func transfer(t *testing.T, source coordinator.RestoreSource) *coordinator.Restore {
	t.Helper()
	store := &scriptedStore{source: func(coordinator.RestoreCall) (coordinator.RestoreSource, error) { return source, nil }}
	restore, err := coordinator.New(store, coordinator.Options{}).OpenRestore(t.Context(), coordinator.RestoreRequest{Ref: coordinator.Ref{Job: "default", ID: 7}})
	if err != nil {
		t.Fatal(err)
	}
	return restore
}

func TestAStoppedReaderHoldsTwoChunksAndNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("0123456789abcdef", 10*coordinator.ChunkBytes/16)
		source := &countedSource{memorySource: newMemorySource("shared\n", big)}
		restore := transfer(t, source)
		defer restore.Close()
		reader := &stoppedReader{letGo: make(chan struct{})}
		ended := make(chan error)
		go func() { ended <- restore.WriteRange(reader, 0, restore.Size()) }()
		synctest.Wait()
		if reads := source.reads.Load(); reads != 2 {
			t.Errorf("%d chunks were read for a reader that took none, want 2", reads)
		}
		close(reader.letGo)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if reader.String() != "shared\n"+big {
			t.Error("the reader got other bytes")
		}
	})
}

// Whatever ends a transfer early, nothing of it may stay: synctest fails for what reads on.
func TestATransferThatBreaksOffInTheMiddleReadsNoMore(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 5*coordinator.ChunkBytes/16)
	for after := range 6 {
		synctest.Test(t, func(t *testing.T) {
			source := newMemorySource("shared\n", big)
			restore := transfer(t, source)
			defer restore.Close()
			if err := restore.WriteRange(&brokenPipe{after: after}, 0, restore.Size()); err == nil {
				t.Errorf("a pipe that broke after %d pieces was taken for success", after)
			}
			if source.released.Load() && after < 5 {
				t.Errorf("after %d pieces the lease was given back", after)
			}
		})
	}
}

func TestALargePartWithAnotherByteNeverArrivesWhole(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 3*coordinator.ChunkBytes/16)
	source := newMemorySource("shared\n", big, "last\n")
	source.content[1] = append([]byte("X"), big[1:]...)
	restore := transfer(t, source)
	defer restore.Close()
	var got bytes.Buffer
	if err := restore.WriteRange(&got, 0, restore.Size()); coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged {
		t.Fatalf("got %v, want snapshot_damaged", err)
	}
	if got.Len() > len("shared\n")+2*coordinator.ChunkBytes {
		t.Errorf("the reader got %d bytes, the last piece of the part among them", got.Len())
	}
	if source.released.Load() {
		t.Error("the lease was given back")
	}
}

// failingSource fails with what a store says when it goes away.
type failingSource struct{ *memorySource }

func (failingSource) ReadAt(context.Context, int, []byte, int64) (int, error) {
	return 0, coordinator.ErrStoreUnavailable(errors.New("away"))
}

// panickingSource is a defect of a store.
type panickingSource struct{ *memorySource }

func (panickingSource) ReadAt(context.Context, int, []byte, int64) (int, error) {
	panic("at the disco")
}

func TestAPanicOfAStoreBreaksTheTransferOffAndNothingElse(t *testing.T) {
	t.Parallel()
	restore := transfer(t, panickingSource{newMemorySource("shared\n", strings.Repeat("x", 3*coordinator.ChunkBytes))})
	defer restore.Close()
	if err := restore.WriteRange(io.Discard, 0, restore.Size()); coordinator.CodeOf(err) != coordinator.CodeInternal {
		t.Errorf("got %v, want internal", err)
	}
}

func TestAStoreThatGoesAwayBreaksTheTransferOff(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 3 * coordinator.ChunkBytes} {
		restore := transfer(t, failingSource{newMemorySource("shared\n", strings.Repeat("x", size))})
		if err := restore.WriteRange(io.Discard, 0, restore.Size()); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
			t.Errorf("%d bytes: got %v, want store_unavailable", size, err)
		}
		restore.Close()
	}
}

// BenchmarkWriteRange is the whole way of a restore between a store and a connection that
// take no time: reading ahead, and hashing.
func BenchmarkWriteRange(b *testing.B) {
	source := newMemorySource("shared\n", strings.Repeat("0123456789abcdef", 64*coordinator.ChunkBytes/16))
	store := &scriptedStore{source: func(coordinator.RestoreCall) (coordinator.RestoreSource, error) { return source, nil }}
	c := coordinator.New(store, coordinator.Options{})
	b.ReportAllocs()
	for b.Loop() {
		restore, err := c.OpenRestore(b.Context(), coordinator.RestoreRequest{Ref: coordinator.Ref{Job: "default", ID: 7}})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(restore.Size())
		if err := restore.WriteRange(io.Discard, 0, restore.Size()); err != nil {
			b.Fatal(err)
		}
		restore.Close()
	}
}
