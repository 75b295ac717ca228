package filestore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestDeleteJobAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	restart := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(dir, Options{}); err != nil {
			t.Fatal(err)
		}
		wantClean(t, s)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	const job = "orders"
	call := coordinator.TriggerCall{Job: job, Defaults: coordinator.DefaultSettings()}
	put := coordinator.PutJobCall{Job: job, Settings: coordinator.JobSettings{Tasks: []string{"a", "b"}}}
	if _, err := s.PutJob(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Trigger(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	for more, steps := true, 1; more; steps++ {
		result, err := s.DeleteJob(t.Context(), coordinator.DeleteJobCall{Job: job, Force: true, Max: 1})
		if err != nil {
			t.Fatal(err)
		}
		if more = result.More; more != (steps < 3) {
			t.Errorf("more = %v after step %d", more, steps)
		}
		restart()
		state, err := s.Job(t.Context(), job)
		if more && (err != nil || state.Settings.NamedTasks != 2 || len(state.Settings.Tasks) != 2) {
			t.Errorf("the job after step %d: %+v (%v)", steps, state, err)
		}
		if !more && coordinator.CodeOf(err) != coordinator.CodeJobNotFound {
			t.Errorf("the job after the last step: %+v (%v)", state, err)
		}
	}
	again, err := s.Trigger(t.Context(), call)
	if err != nil || again.Checkpoint.ID != 3 || again.Checkpoint.NamedTasks {
		t.Errorf("the next checkpoint: %+v (%v)", again.Checkpoint, err)
	}
	restart()
	// Settings, three triggered, each aborted and deleted, the job's end, and the new one.
	if got := position(t, s, job); got.Seq != 12 {
		t.Errorf("position = %v", got)
	}
}
