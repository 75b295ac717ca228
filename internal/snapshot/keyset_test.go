package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// rendered is a part that knows where its lines begin.
type rendered struct {
	bytes   []byte
	offsets []int64
}

func render(taskID string, keys []string) rendered {
	var r rendered
	for _, key := range keys {
		r.offsets = append(r.offsets, int64(len(r.bytes)))
		r.bytes = snapshot.AppendEntry(r.bytes, taskID, key, []byte(`{"key":"not this"}`))
	}
	return r
}

// firstRepeat is what a set in memory finds.
func firstRepeat(keys []string) error {
	seen := map[string]int{}
	for i, key := range keys {
		if first, ok := seen[key]; ok {
			return &snapshot.DuplicateKeyError{Key: key, Line: i + 1, FirstLine: first}
		}
		seen[key] = i + 1
	}
	return nil
}

func TestKeySetFindsWhatAMapFinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.StringMatching(`[a-e"\n]{1,4}`), 0, 60).Draw(t, "keys")
		maxRecords := rapid.IntRange(1, 70).Draw(t, "maxRecords")
		buckets := rapid.SampledFrom([]uint64{0, 1, 3}).Draw(t, "buckets")
		part := render(rapid.SampledFrom([]string{"task-1", snapshot.Shared, `t"`}).Draw(t, "taskID"), keys)

		set := snapshot.NewSmallKeySet(dir, maxRecords)
		for i, key := range keys {
			var err error
			if buckets == 0 {
				err = set.Add([]byte(key), part.offsets[i], i+1)
			} else {
				// Fingerprints that collide all the time.
				err = set.AddFingerprint(uint64(len(key))%buckets, part.offsets[i], i+1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(firstRepeat(keys), set.Finish(bytes.NewReader(part.bytes))); diff != "" {
			t.Fatalf("a map (-) and the set (+) disagree:\n%s", diff)
		}
		if spilled := len(keys) > maxRecords; spilled != (set.Runs() > 0) {
			t.Fatalf("%d keys of which %d fit were spilled in %d runs", len(keys), maxRecords, set.Runs())
		}
		if err := set.Close(); err != nil {
			t.Fatal(err)
		}
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestKeySetFindsARepeatAmongManyCollisions(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range 100 { // 4950 pairs with one fingerprint
		keys = append(keys, fmt.Sprintf("key-%d", i))
	}
	finish := func(keys []string) error {
		part := render("t", keys)
		set := snapshot.NewSmallKeySet(t.TempDir(), 7)
		defer set.Close()
		for i := range keys {
			if err := set.AddFingerprint(42, part.offsets[i], i+1); err != nil {
				t.Fatal(err)
			}
		}
		return set.Finish(bytes.NewReader(part.bytes))
	}
	if err := finish(keys); err != nil {
		t.Errorf("distinct keys: %v", err)
	}
	want := &snapshot.DuplicateKeyError{Key: "key-99", Line: 101, FirstLine: 100}
	if diff := cmp.Diff(error(want), finish(append(keys, "key-99"))); diff != "" {
		t.Errorf("wrong error (-want +got):\n%s", diff)
	}
}

func TestKeySetStopsEarlyWhereEveryLineRepeats(t *testing.T) {
	t.Parallel()
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = "same"
	}
	part := render("t", keys)
	reads := 0
	source := snapshot.ReaderAtFunc(func(p []byte, off int64) (int, error) {
		reads++
		return bytes.NewReader(part.bytes).ReadAt(p, off)
	})
	set := snapshot.NewSmallKeySet(t.TempDir(), 1000)
	defer set.Close()
	for i := range keys {
		if err := set.Add([]byte("same"), part.offsets[i], i+1); err != nil {
			t.Fatal(err)
		}
	}
	want := &snapshot.DuplicateKeyError{Key: "same", Line: 2, FirstLine: 1}
	if diff := cmp.Diff(error(want), set.Finish(source)); diff != "" {
		t.Errorf("wrong error (-want +got):\n%s", diff)
	}
	if reads > 2 {
		t.Errorf("%d lines were read back", reads)
	}
}

func TestKeySetReadsBackTheLongestNames(t *testing.T) {
	t.Parallel()
	keys := []string{strings.Repeat("\x01", 1023) + "a", strings.Repeat("\x01", 1023) + "b", strings.Repeat("\x01", 1023) + "a"}
	part := render(strings.Repeat("\x02", 1024), keys)
	set := snapshot.NewKeySet(t.TempDir())
	for i := range keys {
		if err := set.AddFingerprint(1, part.offsets[i], i+1); err != nil {
			t.Fatal(err)
		}
	}
	want := &snapshot.DuplicateKeyError{Key: keys[0], Line: 3, FirstLine: 1}
	err := set.Finish(bytes.NewReader(part.bytes))
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("wrong error (-want +got):\n%s", diff)
	}
	if got, want := want.Detail(), `key "\u0001`; !strings.HasPrefix(got, want) || len(got) > 500 {
		t.Errorf("the sentence is %s", got)
	}
}

func TestKeySetHasNoFileWhereEverythingFits(t *testing.T) {
	t.Parallel()
	set := snapshot.NewSmallKeySet(filepath.Join(t.TempDir(), "missing"), 3)
	for i := range 3 {
		if err := set.Add(fmt.Append(nil, i), int64(i), i+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Finish(nil); err != nil {
		t.Errorf("the end: %v", err)
	}
	if err := set.Finish(nil); err == nil {
		t.Error("finished twice")
	}
	if err := set.Add([]byte("late"), 4, 5); err == nil {
		t.Error("added after the end")
	}
	if err := set.Close(); err != nil {
		t.Error(err)
	}
}

func TestKeySetSaysWhatItCannotDo(t *testing.T) {
	t.Parallel()
	t.Run("spill into a folder that is not there", func(t *testing.T) {
		t.Parallel()
		set := snapshot.NewSmallKeySet(filepath.Join(t.TempDir(), "missing"), 1)
		if err := set.Add([]byte("a"), 0, 1); err != nil {
			t.Fatal(err)
		}
		err := set.Add([]byte("b"), 1, 2)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
		if again := set.Finish(nil); !errors.Is(again, err) {
			t.Errorf("the end: %v", again)
		}
	})
	t.Run("read lines back from a store that is away", func(t *testing.T) {
		t.Parallel()
		away := errors.New("store away")
		set := snapshot.NewKeySet(t.TempDir())
		for i := range 2 {
			if err := set.Add([]byte("a"), int64(i), i+1); err != nil {
				t.Fatal(err)
			}
		}
		err := set.Finish(snapshot.ReaderAtFunc(func([]byte, int64) (int, error) { return 0, away }))
		if !errors.Is(err, away) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("find entries where there are none", func(t *testing.T) {
		t.Parallel()
		for _, damaged := range []string{"", "{", `{"taskId":"t"`, `{"taskId":"t","key":"a`, `{"taskId":"t","kex":"a"}`, strings.Repeat("x", 20_000)} {
			set := snapshot.NewKeySet(t.TempDir())
			for i := range 2 {
				if err := set.Add([]byte("a"), 0, i+1); err != nil {
					t.Fatal(err)
				}
			}
			var duplicate *snapshot.DuplicateKeyError
			if err := set.Finish(strings.NewReader(damaged)); err == nil || errors.As(err, &duplicate) {
				t.Errorf("%.20q: %v", damaged, err)
			}
		}
	})
}
