package filestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// FuzzStoredRecords puts what this version did not write into the database of a job: a
// newer server's record, or garbage. Whatever is asked then, there is an answer or an error, and
// another job hears nothing of it.
func FuzzStoredRecords(f *testing.F) {
	const places = 12
	for i, seed := range []string{
		"", "{}", "null", "[]", "x", `{"v":2}`, `{"v":1}`, `{"v":1,"status":"nonsense"}`, `{"v":1,"status":"completed","version":99,"entries":-1,"bytes":-5}`, `{"v":1,"next":-7,"pending":-1}`,
		`{"v":1,"status":"pending","start":-9223372036854775808,"timeout":9223372036854775807,"required":0}`, `{"e":-1,"b":-1,"f":true,"u":"../../x"}`, `{"a":-1}`, `{"type":"x","at":-1,"id":-1}`, "\x00\x01\x02\x03\x04\x05\x06\x07",
	} {
		for place := range uint8(places) {
			if place < 3 || int(place) == i%places { // records, and one of the others
				f.Add(place, []byte(seed))
			}
		}
	}
	s := open(f, Options{Clock: func() int64 { return 1_000_000 }})
	s.db.NoSync = true // nothing here outlives the process
	f.Fuzz(func(t *testing.T, place uint8, content []byte) {
		ctx := t.Context()
		setUp(ctx, t, s, "sound")
		setUp(ctx, t, s, "sick")
		before := answersOf(ctx, s, "sound")
		behind(t, s, func(tx *bolt.Tx) error {
			job := tx.Bucket(bucketJobs).Bucket([]byte("sick"))
			checkpoint := func(id int64) *bolt.Bucket { return job.Bucket(bucketCheckpoints).Bucket(idKey(id)) }
			switch place % places {
			case 0:
				return job.Put(keyRecord, content)
			case 1:
				return checkpoint(0).Put(keyRecord, content)
			case 2:
				return checkpoint(1).Put(keyRecord, content)
			case 3:
				return checkpoint(0).Bucket(bucketAcks).Put([]byte("a"), content)
			case 4:
				return checkpoint(0).Bucket(bucketParts).Put([]byte("a"), content)
			case 5:
				return checkpoint(0).Bucket(bucketContent).Put([]byte("a"), content)
			case 6:
				return checkpoint(0).Bucket(bucketState).Put([]byte("k"), content)
			case 7:
				return job.Bucket(bucketEvents).Put(idKey(1), content)
			case 8:
				return job.Bucket(bucketSamples).Put(idKey(0), content)
			case 9:
				return named(job, bucketCalls).Put(append([]byte("trigger\x00"), content...), content)
			case 10:
				return named(job, bucketDeadlines).Put(append([]byte{0}, content...), present)
			default:
				return named(job, bucketPending).Put(append([]byte{0}, content...), present)
			}
		})
		answersOf(ctx, s, "sick")
		for _, err := range changes(ctx, s, "sick") {
			if _, ours := errors.AsType[*coordinator.Error](err); err != nil && !ours {
				t.Errorf("%q at %d: %v", content, place%places, err)
			}
		}
		if diff := gocmp.Diff(before, answersOf(ctx, s, "sound")); diff != "" {
			t.Errorf("%q at %d changed another job:\n%s", content, place%places, diff)
		}
		// The next input finds neither job.
		behind(t, s, func(tx *bolt.Tx) error {
			return errors.Join(tx.Bucket(bucketJobs).DeleteBucket([]byte("sick")), tx.Bucket(bucketJobs).DeleteBucket([]byte("sound")))
		})
	})
}

// behind changes what is stored behind the store's back.
func behind(t testing.TB, s *Store, change func(*bolt.Tx) error) {
	t.Helper()
	_, err := s.committer.do(t.Context(), false, func(st *step) error {
		st.dirty = true
		return change(st.tx)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func named(job *bolt.Bucket, name []byte) *bolt.Bucket {
	b, err := job.CreateBucketIfNotExists(name)
	must(err)
	return b
}

// setUp makes a job with a completed checkpoint and a pending one.
func setUp(ctx context.Context, t *testing.T, s *Store, job string) {
	t.Helper()
	defaults := coordinator.Settings{MaxConcurrent: 10, EventsToKeep: 100}
	for id := range int64(2) {
		if _, err := s.Trigger(ctx, coordinator.TriggerCall{Job: job, RequiredTaskAcks: 1, Defaults: defaults}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.WriteShared(ctx, coordinator.SharedWrite{Job: job, ID: id, Op: coordinator.SharedPut, Entries: []coordinator.SharedEntry{{Key: "k", Value: []byte("1")}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Acknowledge(ctx, coordinator.AckCall{Job: job, ID: 0, Items: []coordinator.AckItem{{TaskID: "a", Part: content([]byte("{}\n"))}}}); err != nil {
		t.Fatal(err)
	}
}

// answersOf is what all reads of a job answer, errors among it.
func answersOf(ctx context.Context, s *Store, job string) []string {
	var all []string
	took := func(value any, err error) {
		text, unwritten := json.Marshal(value)
		if err = cmp.Or(err, unwritten); err != nil {
			text = []byte(err.Error())
		}
		all = append(all, string(text))
	}
	for _, id := range []int64{0, 1, coordinator.Latest} {
		ref := coordinator.Ref{Job: job, ID: id}
		took(s.Get(ctx, ref))
		took(s.Tasks(ctx, coordinator.TasksCall{Ref: ref, Limit: 10}))
		took(s.Task(ctx, ref, "a"))
		took(s.SharedState(ctx, ref))
		took(s.SharedEntry(ctx, ref, "k"))
		took(restoredText(ctx, s, ref))
	}
	took(s.List(ctx, coordinator.ListCall{Job: job, Before: -1, Limit: 10}))
	took(s.List(ctx, coordinator.ListCall{Job: job, Before: -1, Limit: 10, NotAckedBy: "a"}))
	took(s.Job(ctx, job))
	took(s.History(ctx, job))
	took(s.Events(ctx, coordinator.EventsCall{Job: job, Limit: 100}))
	took(s.Events(ctx, coordinator.EventsCall{Job: job, Limit: 100, After: &coordinator.EventID{Seq: 1}}))
	return all
}

// restoredText reads a whole restore, which may be damaged.
func restoredText(ctx context.Context, s *Store, ref coordinator.Ref) (string, error) {
	source, err := s.OpenRestore(ctx, coordinator.RestoreCall{Ref: ref})
	if err != nil {
		return "", err
	}
	defer func() { _ = source.Close() }()
	var text []byte
	for i, part := range source.Parts() {
		for offset := int64(0); offset < min(part.Bytes, 1<<20); {
			buffer := make([]byte, coordinator.ChunkBytes)
			n, err := source.ReadAt(ctx, i, buffer, offset)
			if err != nil {
				return "", err
			}
			if n == 0 {
				return "", errors.New("a read without end")
			}
			text, offset = append(text, buffer[:n]...), offset+int64(n)
		}
	}
	return string(text), nil
}

// changes makes every change to a job, and gives what it was answered.
func changes(ctx context.Context, s *Store, job string) []error {
	var all []error
	took := func(_ any, err error) { all = append(all, err) }
	defaults := coordinator.Settings{MaxConcurrent: 10, EventsToKeep: 100}
	for id := range int64(2) {
		took(s.Acknowledge(ctx, coordinator.AckCall{Job: job, ID: id, Items: []coordinator.AckItem{{TaskID: "a", Part: content([]byte("{}\n"))}, {TaskID: "b"}}}))
		took(s.WriteShared(ctx, coordinator.SharedWrite{Job: job, ID: id, Op: coordinator.SharedPut, Entries: []coordinator.SharedEntry{{Key: "k", Value: []byte("2")}}}))
		took(s.Update(ctx, coordinator.UpdateCall{Job: job, ID: id, Pinned: new(true)}))
		took(s.Extend(ctx, coordinator.ExtendCall{Job: job, ID: id, TimeoutMs: 1000}))
	}
	took(s.Trigger(ctx, coordinator.TriggerCall{Job: job, RequiredTaskAcks: 1, Defaults: defaults, Idempotency: coordinator.Idempotency{Key: "k", Fingerprint: "f"}}))
	took(s.TriggerIfDue(ctx, coordinator.DueCall{Job: job, Defaults: defaults}))
	took(s.Abort(ctx, coordinator.AbortCall{Job: job, ID: 1, TaskID: "a"}))
	took(s.Recover(ctx, coordinator.RecoverCall{Job: job}))
	took(nil, s.Sweep(ctx, coordinator.SweepCall{}))
	took(nil, s.ForgetTask(ctx, job, "a"))
	took(nil, s.Delete(ctx, coordinator.DeleteCall{Job: job, ID: 0, Force: true}))
	took(s.Cleanup(ctx, coordinator.CleanupCall{Job: job, Max: 10}))
	took(s.DeleteJob(ctx, coordinator.DeleteJobCall{Job: job, Force: true, Max: 10}))
	return all
}
