package filestore

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// verify checks that nothing that was answered is missing.
func (a *answers) verify(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, finding := range audit(t, s) {
		t.Error(finding)
	}
	a.verifyLog(t, s)
	a.verifySchedule(t, s)
	kept := completedIDs(t, s)
	// Retention may have taken what is older than these; leases keep older ones beside them.
	oldest := int64(-1)
	if len(kept) >= keepAfterCrash {
		oldest = kept[keepAfterCrash-1]
	}
	highest, latest := int64(-1), int64(-1)
	for id, said := range a.said {
		highest = max(highest, id)
		last := said[len(said)-1]
		if last == "completed" {
			latest = max(latest, id)
		}
		c, err := s.Get(t.Context(), ref(id))
		if coordinator.CodeOf(err) == coordinator.CodeCheckpointDeleted && id < oldest {
			continue
		}
		if err != nil {
			t.Errorf("checkpoint %d, last heard %q: %v", id, last, err)
			continue
		}
		acks := map[string]int{"acknowledged": 1, "completed": 2}[last]
		if c.AcknowledgedTasks < acks {
			t.Errorf("checkpoint %d has %d acks, last heard %q", id, c.AcknowledgedTasks, last)
		}
		if last != "triggered" && c.SharedEntries != 1 {
			t.Errorf("checkpoint %d has %d shared entries, last heard %q", id, c.SharedEntries, last)
		}
		if last == "completed" && !c.Completed() {
			t.Errorf("checkpoint %d is %s and was completed", id, c.Status)
		}
	}
	for _, id := range kept {
		want := fmt.Appendf(nil, "{\"key\":\"id\",\"value\":%d}\n", id)
		want = append(append(want, largeContent(id)...), smallContent(id)...)
		if got := restored(t, s, id, 0); !bytes.Equal(got, want) {
			t.Errorf("checkpoint %d restores %d bytes, want %d", id, len(got), len(want))
		}
	}
	if len(kept) > 0 && kept[0] < latest {
		t.Errorf("the latest is %d and %d was completed", kept[0], latest)
	}
	if next := trigger(t, s, 1); next <= highest {
		t.Errorf("the next id is %d and %d was given", next, highest)
	} else if _, err := s.Abort(t.Context(), coordinator.AbortCall{Job: coordinator.DefaultJob, ID: next}); err != nil {
		t.Error(err)
	}
}

// verifyLog checks that each answered trigger and completion is in the log once.
func (a *answers) verifyLog(t *testing.T, s *Store) {
	t.Helper()
	type change struct {
		id   int64
		what coordinator.EventType
	}
	logged := map[change]int{}
	for _, e := range wholeLog(t, s, coordinator.DefaultJob) {
		logged[change{e.CheckpointID, e.Type}]++
	}
	for c, times := range logged {
		if times > 1 {
			t.Errorf("%s of %d is in the log %d times", c.what, c.id, times)
		}
	}
	for id, said := range a.said {
		if logged[change{id, coordinator.EventTriggered}] == 0 {
			t.Errorf("the log does not tell that %d was triggered", id)
		}
		if said[len(said)-1] == "completed" && logged[change{id, coordinator.EventCompleted}] == 0 {
			t.Errorf("the log does not tell that %d completed", id)
		}
	}
}

// wholeLog reads a log that was never trimmed.
func wholeLog(t testing.TB, s *Store, job string) []coordinator.Event {
	t.Helper()
	var all []coordinator.Event
	for after := (coordinator.EventID{}); ; after = all[len(all)-1].ID {
		page, err := s.Events(t.Context(), coordinator.EventsCall{Job: job, After: &after, Limit: coordinator.MaxEvents})
		if err != nil || page.Gap {
			t.Fatalf("events after %s: gap %v (%v)", after, page.Gap, err)
		}
		all = append(all, page.Events...)
		if len(page.Events) < coordinator.MaxEvents {
			return all
		}
	}
}

// verifySchedule checks that the scheduled job is still configured and goes on.
func (a *answers) verifySchedule(t *testing.T, s *Store) {
	t.Helper()
	state, err := s.Job(t.Context(), scheduled)
	if coordinator.CodeOf(err) == coordinator.CodeJobNotFound && a.revision == 0 {
		return
	}
	if err != nil || state.Revision < a.revision || state.Schedule.LastID < a.tick || state.Schedule.Due == 0 {
		t.Errorf("job %+v (%v), last heard of revision %d and checkpoint %d", state, err, a.revision, a.tick)
	}
	if names := state.Settings.Tasks; len(names) != 2 || names[0] != "b" || names[1] != "a" {
		t.Errorf("tasks of the scheduled job = %q", names)
	}
}

// completedIDs lists what is completed, newest first.
func completedIDs(t *testing.T, s *Store) []int64 {
	t.Helper()
	page, err := s.List(t.Context(), coordinator.ListCall{Job: coordinator.DefaultJob, Status: coordinator.StatusCompleted, Before: -1, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, c := range page.Checkpoints {
		ids = append(ids, c.ID)
	}
	return ids
}
