package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// Memory for the keys of large uploads is bounded however many there are: those that come
// later work with less, and find the same.
func TestManyLargeKeySetsShareTheirMemory(t *testing.T) { //nolint:paralleltest // The memory is the process'.
	const sets, keys = snapshot.MostLarge + 2, 40_000
	part := make([]string, keys)
	for i := range part {
		part[i] = fmt.Sprint("key-", i)
	}
	part[keys-1] = part[3] // comes twice
	whole := render("task-1", part)
	all := make([]*snapshot.KeySet, sets)
	for i := range all {
		all[i] = snapshot.NewKeySet(t.TempDir())
		for n, key := range part {
			if err := all[i].Add([]byte(key), whole.offsets[n], n+1); err != nil {
				t.Fatal(err)
			}
		}
		if spilled, small := all[i].Runs() > 0, i >= snapshot.MostLarge; spilled != small {
			t.Errorf("set %d of %d has spilled: %v", i+1, sets, spilled)
		}
	}
	for i, set := range all {
		duplicate, is := errors.AsType[*snapshot.DuplicateKeyError](set.Finish(bytes.NewReader(whole.bytes)))
		if !is || duplicate.Line != keys || duplicate.FirstLine != 4 {
			t.Errorf("set %d found %+v", i+1, duplicate)
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
	again := snapshot.NewKeySet(t.TempDir())
	defer again.Close()
	for n, key := range part {
		if err := again.Add([]byte(key), whole.offsets[n], n+1); err != nil {
			t.Fatal(err)
		}
	}
	if again.Runs() > 0 {
		t.Error("what was given back is not there for the next")
	}
}
