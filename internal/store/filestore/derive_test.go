package filestore

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// firstStart is when the first release wrote testdata/first.db.gz. In job default it
// triggered six checkpoints, one each second; 0 is pinned; 0, 2, 3 and 1 completed in this
// order, one each second after that, with 100, 300, 400 and 200 bytes; 4 was aborted and 5
// is pending. Job orders recovered once.
const firstStart int64 = 1_750_000_000_000

// openFirst opens what the first release wrote, 20 seconds after it began.
func openFirst(t *testing.T) (s *Store, dir string) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "first.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	from, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	db, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "meta.db"), db, 0o600); err != nil {
		t.Fatal(err)
	}
	return openIn(t, dir, Options{Clock: firstClock}), dir
}

func firstClock() int64 { return firstStart + 20_000 }

// eventsOf gives the log as type and checkpoint.
func eventsOf(t testing.TB, s *Store, job string) []string {
	t.Helper()
	var all []string
	for _, e := range wholeLog(t, s, job) {
		all = append(all, string(e.Type)+" "+strconv.FormatInt(e.CheckpointID, 10))
	}
	return all
}

func wantEvents(t testing.TB, s *Store, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, eventsOf(t, s, coordinator.DefaultJob)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func wantClean(t *testing.T, s *Store) {
	t.Helper()
	for _, finding := range audit(t, s) {
		t.Error(finding)
	}
}

func sweep(t *testing.T, s *Store, retention coordinator.Retention) {
	t.Helper()
	if err := s.Sweep(t.Context(), coordinator.SweepCall{Retention: retention}); err != nil {
		t.Fatalf("sweep: %v", err)
	}
}

func due(t *testing.T, s *Store, retention coordinator.Retention) []string {
	t.Helper()
	due, err := read(t.Context(), s, func(st *step) ([]string, error) { return st.due(retention), nil })
	if err != nil {
		t.Fatal(err)
	}
	return due
}

func TestDirectoryOfTheFirstRelease(t *testing.T) {
	t.Parallel()

	t.Run("it is read as if what is new had always been there", func(t *testing.T) {
		t.Parallel()
		s, _ := openFirst(t)
		jobs, err := s.Jobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		none := coordinator.ScheduleState{LastID: -1}
		want := []coordinator.JobState{
			{
				Job: "default", NextID: 6, Pending: 1, LatestID: 3, LatestAt: firstStart + 9000, LastCompletedAt: firstStart + 10_000,
				Schedule: none, ObservedAt: firstClock(),
			},
			{Job: "orders", Epoch: 1, LatestID: -1, Schedule: none, ObservedAt: firstClock()},
		}
		if diff := cmp.Diff(want, jobs); diff != "" {
			t.Errorf("jobs (-want +got):\n%s", diff)
		}
		wantEvents(t, s)
		if _, err := s.DeleteJob(t.Context(), coordinator.DeleteJobCall{Job: "default", Max: 100}); coordinator.CodeOf(err) != coordinator.CodePinned {
			t.Errorf("delete the job with a pinned checkpoint: %v", err)
		}
	})

	t.Run("the sweep writes it down once", func(t *testing.T) {
		t.Parallel()
		s, dir := openFirst(t)
		if got := due(t, s, coordinator.Retention{}); !slices.Equal(got, []string{"default", "orders"}) {
			t.Errorf("due = %q", got)
		}
		sweep(t, s, coordinator.Retention{})
		if got := due(t, s, coordinator.Retention{}); got != nil {
			t.Errorf("due after the sweep = %q", got)
		}
		wantClean(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openIn(t, dir, Options{Clock: firstClock})
		wantClean(t, s)
		wantEvents(t, s)
	})

	for what, c := range map[string]struct {
		retention coordinator.Retention
		gone      string
	}{
		"bytes": {coordinator.Retention{MaxBytes: 899}, "checkpoint.deleted 1"},
		"age":   {coordinator.Retention{MaxAgeMs: 11_999}, "checkpoint.deleted 2"},
		"count": {coordinator.Retention{Keep: 2}, "checkpoint.deleted 1"},
	} {
		t.Run("retention by "+what+" goes by what was there", func(t *testing.T) {
			t.Parallel()
			s, _ := openFirst(t)
			sweep(t, s, c.retention)
			wantEvents(t, s, c.gone)
			wantClean(t, s)
		})
	}

	t.Run("a failure counts from the completions that were there", func(t *testing.T) {
		t.Parallel()
		s, _ := openFirst(t)
		_, err := s.Abort(t.Context(), coordinator.AbortCall{Job: "default", ID: 5, TaskID: "task-1", Message: "no room"})
		if err != nil {
			t.Fatal(err)
		}
		wantEvents(t, s, "checkpoint.aborted 5", "job.failing 5")
		wantClean(t, s)
	})

	t.Run("a server of the first release that worked in between costs no event its number", func(t *testing.T) {
		t.Parallel()
		s, dir := openFirst(t)
		acknowledge(t, s, 5, "task-1", nil)
		// It writes the members that it knows, and leaves behind what it does not know of.
		_, err := s.committer.do(t.Context(), false, func(st *step) error {
			b := st.job("default").b
			var known struct {
				Schema    int   `json:"v"`
				NextID    int64 `json:"next"`
				Epoch     int64 `json:"epoch"`
				Timestamp int64 `json:"ts"`
				Clock     int64 `json:"clock"`
				Pending   int   `json:"pending"`
				Retained  int   `json:"retained"`
				Remains   int   `json:"remains"`
			}
			if err := json.Unmarshal(b.Get(keyRecord), &known); err != nil {
				return coordinator.ErrInternal(err)
			}
			delete(st.jobs, "default") // or it would be written once more
			st.put(b.Bucket(bucketAges), timeKey(firstStart, idKey(77)), present)
			st.putJSON(b, keyRecord, known)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openIn(t, dir, Options{Clock: firstClock})
		if got := position(t, s, "default"); got != (coordinator.EventID{Seq: 1}) {
			t.Errorf("position = %v", got)
		}
		trigger(t, s, 1)
		wantEvents(t, s, "checkpoint.completed 5", "checkpoint.triggered 6")
		wantClean(t, s)
	})
}
