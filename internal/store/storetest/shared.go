package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// entries makes entries of shared state from keys and values in turn.
func entries(keysAndValues ...string) []coordinator.SharedEntry {
	var list []coordinator.SharedEntry
	for i := 0; i < len(keysAndValues); i += 2 {
		list = append(list, coordinator.SharedEntry{Key: keysAndValues[i], Value: []byte(keysAndValues[i+1])})
	}
	return list
}

// shared puts entries into the shared state, all in one call.
func (r *rig) shared(id int64, keysAndValues ...string) coordinator.SharedWritten {
	r.t.Helper()
	written, err := r.store.WriteShared(r.t.Context(), coordinator.SharedWrite{Job: r.job, ID: id, Op: coordinator.SharedPut, Entries: entries(keysAndValues...)})
	r.check("write shared state", err)
	return written
}

// single changes one entry.
func (r *rig) single(id int64, op coordinator.SharedOp, key, value string, condition coordinator.Precondition) (coordinator.SharedWritten, error) {
	return r.store.WriteShared(r.t.Context(), coordinator.SharedWrite{Job: r.job, ID: id, Op: op, Single: true, Entries: entries(key, value), If: condition})
}

func (r *rig) sharedState(id int64) []coordinator.SharedEntry {
	r.t.Helper()
	state, err := r.store.SharedState(r.t.Context(), r.ref(id))
	r.check("read shared state", err)
	return state.Entries
}

func (r *rig) wantShared(id int64, keysAndValues ...string) {
	r.t.Helper()
	var got []string
	for _, entry := range r.sharedState(id) {
		got = append(got, entry.Key, string(entry.Value))
	}
	wantSame(r.t, keysAndValues, got)
}

func testShared(t *testing.T, s suite) {
	s.rule(t, "a put replaces the named keys and leaves the others, read in byte order of keys", func(t *testing.T, r *rig) {
		c := r.trigger()
		r.shared(c.ID, "b", "1", "a", "2", "Z", "3", "é", "4", "\U0001F600", "5", "\uffff", "6")
		r.shared(c.ID, "b", "null", "c", "{}")
		r.wantShared(c.ID, "Z", "3", "a", "2", "b", "null", "c", "{}", "é", "4", "\uffff", "6", "\U0001F600", "5")
	})
	s.rule(t, "values come back byte for byte", func(t *testing.T, r *rig) {
		c := r.trigger()
		values := []string{
			"1.0", "1", "1e0", "-0", "0.1", "9007199254740993", "18446744073709551615", "1e21", "null", `""`, "{}", "[]",
			"true", `"\u00e9"`, `"é"`, `{"b":1,"a":2,"b2":{"z":0,"y":0}}`, `" "`, `"\\"`, `[1.50,-1E+2]`, `"` + strings.Repeat("x", 3*coordinator.ChunkBytes) + `"`,
		}
		var all []string
		for i, value := range values {
			key := fmt.Sprintf("k%02d", i)
			all = append(all, key, value)
			_, err := r.single(c.ID, coordinator.SharedPut, key, value, coordinator.Precondition{})
			r.check("put", err)
			got, err := r.store.SharedEntry(t.Context(), r.ref(c.ID), key)
			r.check("read entry", err)
			equal(t, "value", string(got.Value), value)
		}
		r.wantShared(c.ID, all...)
		r.accept(c.ID, "task-1")
		r.wantShared(c.ID, all...)
		equal(t, "the snapshot is as written", r.restored(c.ID) == sharedLines(all...), true)
	})
	s.rule(t, "any key names an entry of its own", func(t *testing.T, r *rig) {
		c := r.trigger()
		keys := append(awkwardNames(), ".", "..", "-", " ", " a", "\x00", "\n", "\x7f", "\u2028", "a\tb")
		var all []string
		for i, key := range keys {
			all = append(all, key, fmt.Sprint(i))
			written, err := r.single(c.ID, coordinator.SharedPut, key, fmt.Sprint(i), coordinator.Precondition{})
			r.check("put", err)
			equal(t, fmt.Sprintf("created %q", key), written.Created, true)
		}
		for i, key := range keys {
			got, err := r.store.SharedEntry(t.Context(), r.ref(c.ID), key)
			r.check(fmt.Sprintf("read %q", key), err)
			equal(t, fmt.Sprintf("value of %q", key), string(got.Value), fmt.Sprint(i))
		}
		r.accept(c.ID, "task-1")
		sorted := entries(all...)
		slices.SortFunc(sorted, func(a, b coordinator.SharedEntry) int { return strings.Compare(a.Key, b.Key) })
		all = nil
		for _, e := range sorted {
			all = append(all, e.Key, string(e.Value))
		}
		equal(t, "the snapshot", r.restored(c.ID), sharedLines(all...))
	})
	s.rule(t, "a single put tells whether it made the entry", func(t *testing.T, r *rig) {
		c := r.trigger()
		for _, created := range []bool{true, false} {
			written, err := r.single(c.ID, coordinator.SharedPut, "k", "1", coordinator.Precondition{})
			r.check("put", err)
			equal(t, "created", written.Created, created)
		}
	})
	s.rule(t, "a delete removes one entry, an absent one is not found", func(t *testing.T, r *rig) {
		c := r.trigger()
		r.shared(c.ID, "a", "1", "b", "2")
		_, err := r.single(c.ID, coordinator.SharedDelete, "a", "", coordinator.Precondition{})
		r.check("delete", err)
		r.wantShared(c.ID, "b", "2")
		_, err = r.single(c.ID, coordinator.SharedDelete, "a", "", coordinator.Precondition{})
		r.refused(err, coordinator.CodeKeyNotFound)
		_, err = r.store.SharedEntry(t.Context(), r.ref(c.ID), "a")
		r.refused(err, coordinator.CodeKeyNotFound)
	})
	s.rule(t, "a clear removes all, and an empty state is a state", func(t *testing.T, r *rig) {
		c := r.trigger()
		r.shared(c.ID, "a", "1", "b", "2")
		for range 2 {
			_, err := r.store.WriteShared(t.Context(), coordinator.SharedWrite{Job: r.job, ID: c.ID, Op: coordinator.SharedClear})
			r.check("clear", err)
			r.wantShared(c.ID)
		}
		r.accept(c.ID, "task-1")
		equal(t, "entries", r.get(c.ID).Entries, 0)
		equal(t, "the snapshot", r.restored(c.ID), "")
	})
	s.rule(t, "counts and sizes are kept as restore lines", func(t *testing.T, r *rig) {
		c := r.trigger()
		r.shared(c.ID, "a\"", "[1,2]", "b", "2")
		got := r.shared(c.ID, "b", `"longer"`).Checkpoint
		equal(t, "entries", got.SharedEntries, 2)
		equal(t, "bytes", got.SharedBytes, int64(len(sharedLines("a\"", "[1,2]", "b", `"longer"`))))
		_, err := r.single(c.ID, coordinator.SharedDelete, "a\"", "", coordinator.Precondition{})
		r.check("delete", err)
		equal(t, "bytes after a delete", r.get(c.ID).SharedBytes, int64(len(sharedLines("b", `"longer"`))))
	})
	s.rule(t, "it is writable only while pending, and nothing changes otherwise", func(t *testing.T, r *rig) {
		done := r.trigger()
		r.shared(done.ID, "k", "1")
		r.accept(done.ID, "task-1")
		gone, late := r.aborted(), r.trigger(timeout(10))
		r.clock.Advance(11)
		for id, want := range map[int64]coordinator.Code{
			done.ID: coordinator.CodeCheckpointCompleted, gone.ID: coordinator.CodeCheckpointAborted,
			late.ID: coordinator.CodeCheckpointExpired, late.ID + 1: coordinator.CodeCheckpointNotFound,
		} {
			for _, op := range []coordinator.SharedOp{coordinator.SharedPut, coordinator.SharedDelete} {
				_, err := r.single(id, op, "k", "2", coordinator.Precondition{})
				r.refused(err, want)
			}
			_, err := r.store.WriteShared(t.Context(), coordinator.SharedWrite{Job: r.job, ID: id, Op: coordinator.SharedClear})
			r.refused(err, want)
		}
		r.wantShared(done.ID, "k", "1")
	})
	s.rule(t, "an entry is replaced only while it is what the writer has read", func(t *testing.T, r *rig) {
		c := r.trigger()
		first, err := r.single(c.ID, coordinator.SharedPut, "k", "1", coordinator.Precondition{IfNoneMatch: true})
		r.check("put of a new entry", err)
		_, err = r.single(c.ID, coordinator.SharedPut, "k", "2", coordinator.Precondition{IfNoneMatch: true})
		r.refused(err, coordinator.CodePreconditionFailed)
		read, err := r.store.SharedEntry(t.Context(), r.ref(c.ID), "k")
		r.check("read", err)
		equal(t, "tag as read and as written", read.Tag, first.Tag)
		r.shared(c.ID, "other", "1") // another entry is another resource
		_, err = r.single(c.ID, coordinator.SharedPut, "k", "2", coordinator.Precondition{IfMatch: []string{first.Tag}})
		r.check("put with the tag", err)
		for _, op := range []coordinator.SharedOp{coordinator.SharedPut, coordinator.SharedDelete} {
			_, err = r.single(c.ID, op, "k", "3", coordinator.Precondition{IfMatch: []string{first.Tag}})
			r.refused(err, coordinator.CodePreconditionFailed)
		}
		_, err = r.single(c.ID, coordinator.SharedPut, "absent", "3", coordinator.Precondition{IfMatch: []string{"*"}})
		r.refused(err, coordinator.CodePreconditionFailed)
		r.wantShared(c.ID, "k", "2", "other", "1")
		_, err = r.single(c.ID, coordinator.SharedDelete, "k", "", coordinator.Precondition{IfMatch: []string{"*"}})
		r.check("delete of any", err)
	})
	s.rule(t, "the state as a whole is changed only while it is what the writer has read", func(t *testing.T, r *rig) {
		c := r.trigger()
		write := func(tag string) error {
			_, err := r.store.WriteShared(t.Context(), coordinator.SharedWrite{Job: r.job, ID: c.ID, Op: coordinator.SharedPut, Entries: entries("k", "1"), If: coordinator.Precondition{IfMatch: []string{tag}}})
			return err
		}
		tag := r.sharedTag(c.ID)
		r.check("write with the tag", write(tag))
		r.refused(write(tag), coordinator.CodePreconditionFailed)
		r.check("write with the new tag", write(r.sharedTag(c.ID)))
		written := r.shared(c.ID, "k", "2")
		equal(t, "tag as answered", written.Tag, r.sharedTag(c.ID))
	})
	s.rule(t, "keys are limited in number, replacing one is no new key", func(t *testing.T, r *rig) {
		c := r.trigger()
		var all []string
		for i := range coordinator.MaxSharedKeys {
			all = append(all, fmt.Sprintf("k%05d", i), "1")
		}
		r.shared(c.ID, all...)
		_, err := r.single(c.ID, coordinator.SharedPut, "one more", "1", coordinator.Precondition{})
		r.refused(err, coordinator.CodeLimitExceeded)
		r.shared(c.ID, "k00000", "2")
		equal(t, "entries", r.get(c.ID).SharedEntries, coordinator.MaxSharedKeys)
	})
	s.rule(t, "bytes are limited, and a refused write changes nothing", func(t *testing.T, r *rig) {
		c := r.trigger()
		value := `"` + string(bytes.Repeat([]byte("x"), 6<<20)) + `"`
		r.shared(c.ID, "a", value)
		r.shared(c.ID, "b", value)
		_, err := r.store.WriteShared(t.Context(), coordinator.SharedWrite{Job: r.job, ID: c.ID, Op: coordinator.SharedPut, Entries: entries("a", "1", "c", value, "d", value)})
		r.refused(err, coordinator.CodeTooLarge)
		r.shared(c.ID, "a", value)
		equal(t, "entries", r.get(c.ID).SharedEntries, 2)
		got, err := r.store.SharedEntry(t.Context(), r.ref(c.ID), "a")
		r.check("read", err)
		equal(t, "the value is unchanged", string(got.Value) == value, true)
	})
	s.rule(t, "latest reads the state of the latest completed checkpoint", func(t *testing.T, r *rig) {
		_, err := r.store.SharedState(t.Context(), r.ref(coordinator.Latest))
		r.refused(err, coordinator.CodeNoCompletedCheckpoint)
		_, err = r.store.SharedEntry(t.Context(), r.ref(coordinator.Latest), "k")
		r.refused(err, coordinator.CodeNoCompletedCheckpoint)
		c := r.trigger()
		r.shared(c.ID, "k", "1")
		r.accept(c.ID, "task-1")
		r.shared(r.trigger().ID, "k", "2")
		r.wantShared(coordinator.Latest, "k", "1")
		got, err := r.store.SharedEntry(t.Context(), r.ref(coordinator.Latest), "k")
		r.check("read", err)
		equal(t, "checkpoint", got.Checkpoint.ID, c.ID)
	})
}
