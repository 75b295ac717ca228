package coordinator_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func open(t *testing.T, store *scriptedStore, source *memorySource) *coordinator.Restore {
	t.Helper()
	store.source = func(coordinator.RestoreCall) (coordinator.RestoreSource, error) { return source, nil }
	c := coordinator.New(store, coordinator.Options{Pace: coordinator.Pace{RestoreLease: 3 * time.Millisecond}})
	restore, err := c.OpenRestore(t.Context(), coordinator.RestoreRequest{Ref: coordinator.Ref{Job: "default", ID: 7}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore.Close)
	return restore
}

// Every range of a restore is the same range of the whole.
func TestWriteRangeGivesTheBytesOfTheRange(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", coordinator.ChunkBytes/16) + "tail"
	contents := []string{"shared\n", "", big, "x\n"}
	whole := strings.Join(contents, "")
	size := int64(len(whole))
	edges := []int64{0, 1, 6, 7, 8, 7 + coordinator.ChunkBytes - 1, 7 + coordinator.ChunkBytes, 7 + coordinator.ChunkBytes + 1, size - 3, size - 2, size - 1, size}
	for _, from := range edges {
		for _, to := range edges {
			if to < from {
				continue
			}
			source := newMemorySource(contents...)
			var got bytes.Buffer
			if err := open(t, &scriptedStore{}, source).WriteRange(&got, from, to-from); err != nil {
				t.Fatalf("bytes %d to %d: %v", from, to, err)
			}
			if got.String() != whole[from:to] {
				t.Errorf("bytes %d to %d differ from the whole", from, to)
			}
			if !source.released.Load() {
				t.Errorf("bytes %d to %d: the lease was not given back", from, to)
			}
		}
	}
}

// leaseWatcher fails when the last byte arrives before the lease was given back.
type leaseWatcher struct {
	t      *testing.T
	source *memorySource
	left   int64
}

func (w *leaseWatcher) Write(p []byte) (int, error) {
	w.left -= int64(len(p))
	if w.left == 0 && !w.source.released.Load() {
		w.t.Error("the last byte came before the lease was given back")
	}
	return len(p), nil
}

func TestTheLeaseIsGivenBackBeforeTheLastByte(t *testing.T) {
	t.Parallel()
	source := newMemorySource("shared\n", "part\n")
	restore := open(t, &scriptedStore{}, source)
	if err := restore.WriteRange(&leaseWatcher{t: t, source: source, left: restore.Size()}, 0, restore.Size()); err != nil {
		t.Fatal(err)
	}
}

type brokenPipe struct{ after int }

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

func TestABrokenTransferKeepsItsLease(t *testing.T) {
	t.Parallel()
	source := newMemorySource("shared\n", "part\n")
	restore := open(t, &scriptedStore{}, source)
	if err := restore.WriteRange(&brokenPipe{}, 0, restore.Size()); err == nil {
		t.Fatal("a broken pipe was taken for success")
	}
	restore.Close()
	if source.released.Load() {
		t.Error("the lease was given back, so the checkpoint may go before the reader resumes")
	}
	if !source.closed.Load() {
		t.Error("the source was not closed")
	}
}

func TestAPartWithOtherBytesThanRecordedNeverArrivesWhole(t *testing.T) {
	t.Parallel()
	source := newMemorySource("shared\n", "part\n", "last\n")
	source.content[1] = []byte("pXrt\n")
	restore := open(t, &scriptedStore{}, source)
	var got bytes.Buffer
	err := restore.WriteRange(&got, 0, restore.Size())
	if code := coordinator.CodeOf(err); code != coordinator.CodeSnapshotDamaged {
		t.Fatalf("got %q, want snapshot_damaged", code)
	}
	if got.String() != "shared\n" {
		t.Errorf("the reader got %q", got.String())
	}
	if source.released.Load() {
		t.Error("the lease was given back")
	}
}

// Who resumes a transfer that broke off at wrong bytes has these already.
func TestAResumedTransferIsHeldAgainstAllOfItsPart(t *testing.T) {
	t.Parallel()
	for _, size := range []int{5, coordinator.ChunkBytes, 3*coordinator.ChunkBytes + 7} {
		part := strings.Repeat("x", size-1) + "\n"
		for _, from := range []int64{1, int64(size) / 2, int64(size) - 1} {
			source := newMemorySource("shared\n", part)
			if got, err := rest(t, source, from); err != nil || got != part[from:] {
				t.Errorf("the end of %d bytes from %d: %d bytes, %v", size, from, len(got), err)
			}
			source = newMemorySource("shared\n", part)
			source.content[1] = append([]byte("Y"), part[1:]...)
			got, err := rest(t, source, from)
			if coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged || len(got) >= size-int(from) {
				t.Errorf("the end of %d bytes from %d, of which the first is wrong: %d bytes, %v", size, from, len(got), err)
			}
		}
	}
}

// rest reads all from a byte of the second part on.
func rest(t *testing.T, source *memorySource, from int64) (string, error) {
	t.Helper()
	restore := open(t, &scriptedStore{}, source)
	offset := restore.Parts()[0].Bytes + from
	var got bytes.Buffer
	err := restore.WriteRange(&got, offset, restore.Size()-offset)
	return got.String(), err
}

func TestAShortPartBreaksOff(t *testing.T) {
	t.Parallel()
	source := newMemorySource("shared\n", "part\n")
	source.content[1] = nil
	restore := open(t, &scriptedStore{}, source)
	var got bytes.Buffer
	if err := restore.WriteRange(&got, 0, restore.Size()); err == nil {
		t.Error("a missing part was taken for success")
	}
}

func TestADeletedCheckpointBreaksTheTransferOff(t *testing.T) {
	t.Parallel()
	source := newMemorySource("shared\n", "part\n")
	source.renew = func() error { return coordinator.ErrCheckpointDeleted("default", 7) }
	source.slow = 1 // reading the second part takes until the transfer is broken off
	restore := open(t, &scriptedStore{}, source)
	var got bytes.Buffer
	err := restore.WriteRange(&got, 0, restore.Size())
	if code := coordinator.CodeOf(err); code != coordinator.CodeCheckpointDeleted {
		t.Errorf("got %v", err)
	}
	if got.Len() >= int(restore.Size()) {
		t.Error("the reader got everything")
	}
}

func TestTheSnapshotDigestIsTheSHA256OfTheManifest(t *testing.T) {
	t.Parallel()
	store := &scriptedStore{}
	restore := open(t, store, newMemorySource("shared\n", "part\n"))
	sum := sha256.Sum256(coordinator.AppendManifest(nil, restore.Parts()))
	if want := "sha256:" + hex.EncodeToString(sum[:]); restore.Digest() != want {
		t.Errorf("digest %s, want %s", restore.Digest(), want)
	}
	wantFirst := strings.TrimPrefix(digestOf("shared\n"), "sha256:") + " 7 1 -\n"
	if got := string(coordinator.AppendManifest(nil, restore.Parts())); !strings.HasPrefix(got, wantFirst) || !strings.HasSuffix(got, " 5 1 b\n") {
		t.Errorf("manifest:\n%s", got)
	}
	if store.savedTimes.Load() != 1 {
		t.Errorf("the digest was saved %d times", store.savedTimes.Load())
	}
}

// Whoever audits restores must see the broken ones too, with what the reader really got.
func TestEveryTransferIsRecordedWithWhatItMoved(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		to   io.Writer
		want coordinator.RestoreRecord
	}{
		{"a finished transfer", io.Discard, coordinator.RestoreRecord{CheckpointID: 7, Bytes: 12, Finished: true, By: "worker-3"}},
		{"a broken transfer", &brokenPipe{after: 1}, coordinator.RestoreRecord{CheckpointID: 7, Bytes: 7, By: "worker-3"}},
		{"a transfer that broke before its first byte", &brokenPipe{}, coordinator.RestoreRecord{CheckpointID: 7, By: "worker-3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []coordinator.RestoreRecord
			store := &scriptedStore{
				record: func(job string, record coordinator.RestoreRecord) error {
					if job != coordinator.DefaultJob {
						t.Errorf("recorded in job %q", job)
					}
					got = append(got, record)
					return errors.New("a record that fails must not fail the transfer")
				},
				source: func(coordinator.RestoreCall) (coordinator.RestoreSource, error) {
					return newMemorySource("shared\n", "part\n"), nil
				},
			}
			c := coordinator.New(store, coordinator.Options{})
			request := coordinator.RestoreRequest{Ref: coordinator.Ref{Job: coordinator.DefaultJob, ID: 7}, By: "worker-3"}
			restore, err := c.OpenRestore(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			defer restore.Close()
			if err := restore.WriteRange(tc.to, 0, restore.Size()); (err == nil) != tc.want.Finished {
				t.Errorf("the transfer answered %v", err)
			}
			if diff := cmp.Diff([]coordinator.RestoreRecord{tc.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheLatestThatIsDeletedWhileItIsOpenedGivesWayToTheOneBefore(t *testing.T) {
	t.Parallel()
	source := newMemorySource("shared\n")
	store := &scriptedStore{}
	opened := 0
	store.source = func(coordinator.RestoreCall) (coordinator.RestoreSource, error) {
		if opened++; opened < 3 {
			return nil, coordinator.ErrCheckpointDeleted("default", 9)
		}
		return source, nil
	}
	c := coordinator.New(store, coordinator.Options{})
	restore, err := c.OpenRestore(t.Context(), coordinator.RestoreRequest{Ref: coordinator.Ref{Job: "default", ID: coordinator.Latest}})
	if err != nil {
		t.Fatal(err)
	}
	restore.Close()
	opened = 0
	if _, err := c.OpenRestore(t.Context(), coordinator.RestoreRequest{Ref: coordinator.Ref{Job: "default", ID: 9}}); coordinator.CodeOf(err) != coordinator.CodeCheckpointDeleted {
		t.Errorf("a restore by its id of what is deleted: %v", err)
	}
}
