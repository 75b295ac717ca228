package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Storage {
		t.Helper()
		dir := t.TempDir()
		var last *Store
		return storetest.Storage{
			Open: func(t testing.TB, options storetest.Options) coordinator.Store {
				t.Helper()
				s, err := Open(dir, Options{Clock: options.Clock, Observer: options.Observer})
				if err != nil {
					t.Fatalf("open: %v", err)
				}
				last = s
				return s
			},
			Leftovers: func(t testing.TB) []string {
				t.Helper()
				return append(leftovers(t, last), audit(t, last)...)
			},
			Damage: func(t testing.TB, damage storetest.Damage) {
				t.Helper()
				damagePart(t, dir, damage)
			},
			Spoil: func(t testing.TB, job string, id int64, kind storetest.SpoilKind) {
				t.Helper()
				spoil(t, dir, job, id, kind)
			},
		}
	})
}

// leftovers lists what no record accounts for: in parts/, and in the database.
func leftovers(t testing.TB, s *Store) []string {
	t.Helper()
	onDisk, err := s.folder.list()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	err = s.db.View(func(tx *bolt.Tx) error {
		named := map[string]bool{}
		for job := range ascend(tx.Bucket(bucketJobs), nil) {
			left = append(left, jobLeftovers(tx, string(job), named)...)
		}
		for name := range ascend(tx.Bucket(bucketFiles), nil) {
			if !named[string(name)] {
				left = append(left, fmt.Sprintf("files lists %s, which no part names", name))
			}
		}
		for _, name := range onDisk {
			if !named[name] {
				left = append(left, "parts/"+name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// jobLeftovers lists what is too much in one job, and adds the files of its parts to named.
func jobLeftovers(tx *bolt.Tx, name string, named map[string]bool) []string {
	var left []string
	odd := func(format string, args ...any) { left = append(left, name+": "+fmt.Sprintf(format, args...)) }
	b := tx.Bucket(bucketJobs).Bucket([]byte(name))
	for key := range ascend(child(b, bucketCheckpoints), nil) {
		id, c := idOf(key), child(child(b, bucketCheckpoints), key)
		var rec record
		if json.Unmarshal(c.Get(keyRecord), &rec) != nil {
			odd("checkpoint %d has no record", id)
		}
		if rec.Schema == importSchema {
			odd("checkpoint %d is under import", id)
		}
		failed := rec.Status == coordinator.StatusExpired || rec.Status == coordinator.StatusAborted
		for task, text := range ascend(child(c, bucketParts), nil) {
			var p part
			if err := json.Unmarshal(text, &p); err != nil {
				odd("the part of %q in %d: %v", task, id, err)
			}
			if p.File {
				named[p.Upload] = true
			}
			acked := get(child(c, bucketAcks), task) != nil
			if rec.Status == coordinator.StatusCompleted && !acked {
				odd("completed %d has a part of %q, which did not acknowledge", id, task)
			}
			if failed && p.File {
				odd("%s %d has a file of %q", rec.Status, id, task)
			}
		}
		for task := range ascend(child(c, bucketContent), nil) {
			if failed || get(child(c, bucketParts), task) == nil {
				odd("%s %d has content of %q", rec.Status, id, task)
			}
		}
		for key := range ascend(child(c, bucketState), nil) {
			if failed {
				odd("%s %d has shared state %q", rec.Status, id, key)
			}
		}
	}
	for _, index := range [][]byte{bucketPending, bucketCompleted, bucketRetained, bucketEnded} {
		for key := range ascend(child(b, index), nil) {
			if child(child(b, bucketCheckpoints), key) == nil {
				odd("%s lists %d, which is gone", index, idOf(key))
			}
		}
	}
	for key := range ascend(child(b, bucketImporting), nil) {
		odd("importing lists %d", idOf(key[len(idKey(0)):]))
	}
	for key := range ascend(child(b, bucketDeadlines), nil) {
		if get(child(b, bucketPending), key[len(idKey(0)):]) == nil {
			odd("deadlines lists %d, which is not pending", idOf(key[len(idKey(0)):]))
		}
	}
	return left
}

// damagePart falsifies a record, or a part in its file or in the database, whichever has it.
func damagePart(t testing.TB, dir string, damage storetest.Damage) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = db.Update(func(tx *bolt.Tx) error {
		job := tx.Bucket(bucketJobs).Bucket([]byte(damage.Job))
		c := job.Bucket(bucketCheckpoints).Bucket(idKey(damage.ID))
		if damage.Kind == storetest.NewerVersion {
			var rec record
			if err := json.Unmarshal(c.Get(keyRecord), &rec); err != nil {
				return fmt.Errorf("read the record: %w", err)
			}
			rec.Version = 2
			text, err := json.Marshal(rec)
			if err != nil {
				return fmt.Errorf("write the record: %w", err)
			}
			return c.Put(keyRecord, text)
		}
		task := []byte(damage.TaskID)
		var p part
		if err := json.Unmarshal(c.Bucket(bucketParts).Get(task), &p); err != nil {
			return fmt.Errorf("read the part: %w", err)
		}
		file := filepath.Join(dir, "parts", p.Upload)
		switch {
		case p.File && damage.Kind == storetest.LoseLast:
			return os.Remove(file)
		case p.File:
			return os.Truncate(file, p.Bytes-1)
		case damage.Kind == storetest.LoseLast:
			return c.Bucket(bucketContent).Delete(task)
		default:
			content := c.Bucket(bucketContent).Get(task)
			return c.Bucket(bucketContent).Put(task, append([]byte(nil), content[:len(content)-1]...))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// spoil makes what is recorded of a checkpoint contradict itself.
func spoil(t testing.TB, dir, job string, id int64, kind storetest.SpoilKind) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketJobs).Bucket([]byte(job)).Bucket(bucketCheckpoints).Bucket(idKey(id))
		var rec record
		if err := decode(b.Get(keyRecord), &rec); err != nil {
			return err
		}
		switch kind {
		case storetest.RecordGone:
			return b.Delete(keyRecord)
		case storetest.RecordCut:
			return b.Put(keyRecord, bytes.Replace(b.Get(keyRecord), []byte(`"epoch"`), []byte(`"xpoch"`), 1))
		case storetest.RecordNewer:
			rec.Schema++
		case storetest.TotalChanged:
			rec.Bytes++
		case storetest.AckGone:
			first, _ := b.Bucket(bucketAcks).Cursor().First()
			return b.Bucket(bucketAcks).Delete(first)
		case storetest.SharedChanged:
			key, value := b.Bucket(bucketState).Cursor().First()
			value = bytes.Clone(value)
			value[len(value)/2] ^= 1
			return b.Bucket(bucketState).Put(key, value)
		}
		text, err := encode(&rec)
		if err != nil {
			return err
		}
		return b.Put(keyRecord, text)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
