package filestore

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// hearing keeps what the observer is told of records that cannot be read.
type hearing struct {
	coordinator.Silence

	mu    sync.Mutex
	heard []string
}

func (h *hearing) BackgroundFailed(task string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, task+": "+err.Error())
}

func (h *hearing) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.heard, "\n")
}

// flip turns one bit of a value.
func flip(b *bolt.Bucket, key []byte, at int, bit uint) error {
	value := bytes.Clone(b.Get(key))
	value[at] ^= 1 << bit
	return b.Put(key, value)
}

// smallParts makes a completed checkpoint of two tasks with small parts, and shared state.
func smallParts(t *testing.T, s *Store) int64 {
	t.Helper()
	id := trigger(t, s, 2)
	_, err := s.WriteShared(t.Context(), coordinator.SharedWrite{Job: coordinator.DefaultJob, ID: id, Op: coordinator.SharedPut, Entries: []coordinator.SharedEntry{{Key: "k", Value: []byte("1234")}}})
	if err != nil {
		t.Fatal(err)
	}
	acknowledge(t, s, id, "big", []byte("{\"key\":\"b\",\"value\":1}\n"))
	acknowledge(t, s, id, "small", []byte("{\"key\":\"s\",\"value\":2}\n"))
	return id
}

func bucketOf(tx *bolt.Tx, id int64) *bolt.Bucket {
	return tx.Bucket(bucketJobs).Bucket([]byte(coordinator.DefaultJob)).Bucket(bucketCheckpoints).Bucket(idKey(id))
}

// restoredAs reads what a worker would: the whole, or the part of a task.
func restoredAs(ctx context.Context, s *Store, id int64, tasks ...string) (string, error) {
	restore, err := coordinator.New(s, coordinator.Options{}).OpenRestore(ctx, coordinator.RestoreRequest{Ref: ref(id), Tasks: tasks})
	if err != nil {
		return "", err
	}
	defer restore.Close()
	var got bytes.Buffer
	err = restore.WriteRange(&got, 0, restore.Size())
	return got.String(), err
}

// TestOneTurnedBitIsNeverAShortSuccess turns each bit of each record of a completed checkpoint in turn. Every
// restore gives what it gave before, or is refused.
func TestOneTurnedBitIsNeverAShortSuccess(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	s.db.NoSync = true
	id := smallParts(t, s)
	wants := [][]string{nil, {"small"}, {"big"}}
	var before []string
	for _, tasks := range wants {
		text, err := restoredAs(t.Context(), s, id, tasks...)
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, text)
	}
	for _, place := range []struct {
		bucket []byte
		key    string
	}{{nil, string(keyRecord)}, {bucketAcks, "small"}, {bucketParts, "small"}, {bucketContent, "small"}, {bucketState, "k"}} {
		in := func(tx *bolt.Tx) *bolt.Bucket {
			if place.bucket == nil {
				return bucketOf(tx, id)
			}
			return bucketOf(tx, id).Bucket(place.bucket)
		}
		var whole []byte
		behind(t, s, func(tx *bolt.Tx) error { whole = bytes.Clone(in(tx).Get([]byte(place.key))); return nil })
		for at := range whole {
			bit := uint(at % 8)
			behind(t, s, func(tx *bolt.Tx) error { return flip(in(tx), []byte(place.key), at, bit) })
			for i, tasks := range wants {
				text, err := restoredAs(t.Context(), s, id, tasks...)
				code := coordinator.CodeOf(err)
				if code != coordinator.CodeSnapshotDamaged && code != coordinator.CodeTaskNotInCheckpoint && (err != nil || text != before[i]) {
					t.Errorf("bit %d of byte %d of %s/%s turned: %v gives %q, %v", bit, at, place.bucket, place.key, tasks, text, err)
				}
			}
			behind(t, s, func(tx *bolt.Tx) error {
				return bucketOf(tx, id).Put(keyRecord, recordBefore(t, bucketOf(tx, id).Get(keyRecord), place.bucket == nil, whole))
			})
			behind(t, s, func(tx *bolt.Tx) error { return in(tx).Put([]byte(place.key), whole) })
		}
	}
}

// recordBefore is the record without the mark of damage that a restore has left in it.
func recordBefore(t *testing.T, text []byte, isRecord bool, whole []byte) []byte {
	t.Helper()
	if isRecord {
		return whole
	}
	var r record
	if err := decode(text, &r); err != nil {
		t.Fatal(err)
	}
	r.Damage = ""
	text, err := encode(&r)
	must(err)
	return text
}

func TestARecordThatCannotBeReadIsNamedAndNotGoneBackBehind(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(tx *bolt.Tx, id int64) error{
		"a turned bit": func(tx *bolt.Tx, id int64) error { return flip(bucketOf(tx, id), keyRecord, 30, 0) },
		"no record":    func(tx *bolt.Tx, id int64) error { return bucketOf(tx, id).Delete(keyRecord) },
		"no bucket": func(tx *bolt.Tx, id int64) error {
			return tx.Bucket(bucketJobs).Bucket([]byte(coordinator.DefaultJob)).Bucket(bucketCheckpoints).DeleteBucket(idKey(id))
		},
		"an unlisted one": func(tx *bolt.Tx, id int64) error {
			return tx.Bucket(bucketJobs).Bucket([]byte(coordinator.DefaultJob)).Bucket(bucketCompleted).Delete(idKey(id))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			heard := new(hearing)
			s := open(t, Options{Observer: heard})
			older, lost := smallParts(t, s), trigger(t, s, 1)
			acknowledge(t, s, lost, "task-1", bytes.Repeat([]byte("x"), InlineBytes+1))
			behind(t, s, func(tx *bolt.Tx) error { return spoil(tx, lost) })
			c := coordinator.New(s, coordinator.Options{})
			for name, ask := range map[string]func() error{
				"get":            func() error { _, err := s.Get(t.Context(), ref(lost)); return err },
				"latest":         func() error { _, err := c.Get(t.Context(), ref(coordinator.Latest)); return err },
				"restore":        func() error { _, err := restoredAs(t.Context(), s, lost); return err },
				"restore latest": func() error { _, err := restoredAs(t.Context(), s, coordinator.Latest); return err },
				"recover": func() error {
					_, err := c.Recover(t.Context(), coordinator.RecoverRequest{Job: coordinator.DefaultJob})
					return err
				},
			} {
				if err := ask(); coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged || !strings.Contains(detailOf(err), fmt.Sprintf("Checkpoint %d ", lost)) {
					t.Errorf("%s is answered %v", name, err)
				}
			}
			if !strings.Contains(heard.text(), fmt.Sprintf("unreadable_record: job %q: snapshot_damaged: Checkpoint %d ", coordinator.DefaultJob, lost)) {
				t.Errorf("the observer has heard %s", heard.text())
			}
			if warnings, err := s.Health(t.Context()); err != nil || len(warnings) != 1 || warnings[0].Code != "records_unreadable" {
				t.Errorf("health: %v, %v", warnings, err)
			}
			if err := s.Delete(t.Context(), coordinator.DeleteCall{Job: coordinator.DefaultJob, ID: lost}); err != nil {
				t.Fatalf("delete: %v", err)
			}
			if latest, err := c.Get(t.Context(), ref(coordinator.Latest)); err != nil || latest.ID != older {
				t.Errorf("then the latest is %d, %v", latest.ID, err)
			}
			if _, err := s.Get(t.Context(), ref(lost)); coordinator.CodeOf(err) != coordinator.CodeCheckpointDeleted {
				t.Errorf("then get is answered %v", err)
			}
			if warnings, err := s.Health(t.Context()); err != nil || len(warnings) > 0 {
				t.Errorf("health afterwards: %v, %v", warnings, err)
			}
			if left := leftovers(t, s); len(left) > 0 && what != "no bucket" {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

func TestDeletingAJobTakesAwayTheFilesOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(tx *bolt.Tx, id int64) error{
		"the record": func(tx *bolt.Tx, id int64) error { return flip(bucketOf(tx, id), keyRecord, 30, 0) },
		"the record of its part": func(tx *bolt.Tx, id int64) error {
			return flip(bucketOf(tx, id).Bucket(bucketParts), []byte("task-1"), 0, 0)
		},
	} {
		s := open(t, Options{})
		id := trigger(t, s, 1)
		acknowledge(t, s, id, "task-1", bytes.Repeat([]byte("x"), InlineBytes+1))
		behind(t, s, func(tx *bolt.Tx) error { return spoil(tx, id) })
		if _, err := s.DeleteJob(t.Context(), coordinator.DeleteJobCall{Job: coordinator.DefaultJob, Force: true, Max: 10}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if left := leftovers(t, s); len(left) > 0 {
			t.Errorf("%s: left over: %v", what, left)
		}
	}
}

func TestACheckpointWhoseListDoesNotFitItsCountIsNeverCompleted(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(*bolt.Bucket) error{
		"an acknowledgement is gone":     func(b *bolt.Bucket) error { return b.Bucket(bucketAcks).Delete([]byte("a")) },
		"an acknowledgement is changed":  func(b *bolt.Bucket) error { return flip(b.Bucket(bucketAcks), []byte("a"), 40, 1) },
		"the record of a part is gone":   func(b *bolt.Bucket) error { return b.Bucket(bucketParts).Delete([]byte("a")) },
		"a stranger has an entry":        func(b *bolt.Bucket) error { return b.Bucket(bucketAcks).Put([]byte("z"), []byte(`{"at":1,"n":1}`)) },
		"the staged part is not to read": func(b *bolt.Bucket) error { return flip(b.Bucket(bucketParts), []byte("b"), 0, 0) },
	} {
		s := open(t, Options{})
		id := trigger(t, s, 2)
		acknowledge(t, s, id, "a", []byte("{}\n"))
		upload, err := s.BeginUpload(t.Context(), coordinator.UploadCall{Job: coordinator.DefaultJob, ID: id, TaskID: "b"})
		if err != nil {
			t.Fatal(err)
		}
		part := []byte("{}\n")
		if err := upload.WriteChunk(t.Context(), 0, part); err != nil {
			t.Fatal(err)
		}
		if _, err := upload.Commit(t.Context(), coordinator.CommitCall{Part: coordinator.PartInfo{Entries: 1, Bytes: int64(len(part)), Digest: digestOf(part)}}); err != nil {
			t.Fatal(err)
		}
		behind(t, s, func(tx *bolt.Tx) error { return spoil(bucketOf(tx, id)) })
		result, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{{TaskID: "b"}}})
		if err == nil && result.Outcomes[0].Refusal != nil {
			err = result.Outcomes[0].Refusal
		}
		if coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged {
			t.Errorf("%s: the last acknowledgement is answered %+v, %v", what, result, err)
		}
		if what != "the staged part is not to read" {
			if _, err := s.Complete(t.Context(), coordinator.CompleteCall{Job: coordinator.DefaultJob, ID: id, Force: true}); coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged {
				t.Errorf("%s: completing by hand is answered %v", what, err)
			}
			if c, err := s.Get(t.Context(), ref(id)); err == nil && c.Status != coordinator.StatusPending {
				t.Errorf("%s: it is %s", what, c.Status)
			}
		}
	}
}

func TestAChangedSharedValueIsFoundBeforeItIsRead(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	id := smallParts(t, s)
	behind(t, s, func(tx *bolt.Tx) error { return bucketOf(tx, id).Bucket(bucketState).Put([]byte("k"), []byte("1235")) })
	_, opened := s.OpenRestore(t.Context(), coordinator.RestoreCall{Ref: ref(id)})
	_, state := s.SharedState(t.Context(), ref(id))
	_, entry := s.SharedEntry(t.Context(), ref(id), "k")
	for what, err := range map[string]error{"opening a restore": opened, "the state": state, "one entry": entry} {
		if coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged {
			t.Errorf("%s is answered %v", what, err)
		}
	}
}

func TestAListThatFindsLittleGoesOnByItsCursor(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	s.db.NoSync = true
	const n = listScan + listScan/2
	_, err := s.committer.do(t.Context(), false, func(st *step) error {
		j := st.makeJob(coordinator.DefaultJob)
		for range n {
			if _, err := st.create(j, coordinator.TriggerCall{Job: j.name, RequiredTaskAcks: 1}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	acknowledge(t, s, 0, "rare", nil)
	var found []int64
	for before := int64(-1); ; {
		page, err := s.List(t.Context(), coordinator.ListCall{Job: coordinator.DefaultJob, Before: before, Limit: 10, Status: coordinator.StatusCompleted})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Checkpoints {
			found = append(found, c.ID)
		}
		if before = page.Next; before < 0 {
			break
		}
	}
	if len(found) != 1 || found[0] != 0 {
		t.Errorf("found %v", found)
	}
	first, err := s.List(t.Context(), coordinator.ListCall{Job: coordinator.DefaultJob, Before: -1, Limit: n, NotAckedBy: "rare"})
	if err != nil || len(first.Checkpoints) != listScan || first.Next != first.Checkpoints[listScan-1].ID {
		t.Errorf("a call looked at %d and goes on at %d, %v", len(first.Checkpoints), first.Next, err)
	}
}
