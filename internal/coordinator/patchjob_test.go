package coordinator_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// contested is a store whose job somebody else configures anew before some of the puts.
type contested struct {
	coordinator.Store

	state coordinator.JobState
	// faster is how many puts somebody else comes before.
	faster int
	puts   int
}

func (s *contested) Job(context.Context, string) (coordinator.JobState, error) { return s.state, nil }

func (s *contested) PutJob(_ context.Context, call coordinator.PutJobCall) (coordinator.PutJobResult, error) {
	s.puts++
	if s.faster > 0 {
		s.faster--
		s.state.Revision++
		s.state.Configured, s.state.Settings.Description = true, "by somebody else"
	}
	if !call.If.Met(s.state.Tag(), s.state.Configured) {
		return coordinator.PutJobResult{}, coordinator.ErrPreconditionFailed()
	}
	s.state.Revision++
	s.state.Configured, s.state.Settings = true, call.Settings
	return coordinator.PutJobResult{State: s.state}, nil
}

func TestAPatchLeavesWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	before := coordinator.JobSettings{
		Tasks: []string{"a", "b"}, NamedTasks: 2, TimeoutMs: new(int64(1)), IntervalMs: new(int64(2)), MinPauseMs: new(int64(3)),
		MaxConcurrent: new(4), TolerableFailures: new(5), StaleAfterMs: new(int64(6)), Keep: new(7), MaxAgeMs: new(int64(8)),
		MaxBytes: new(int64(9)), Paused: true, Description: "d",
	}
	for name, test := range map[string]struct {
		patch coordinator.JobPatch
		want  func(*coordinator.JobSettings)
	}{
		"nothing":       {coordinator.JobPatch{}, func(*coordinator.JobSettings) {}},
		"the pause":     {coordinator.JobPatch{Paused: new(false)}, func(s *coordinator.JobSettings) { s.Paused = false }},
		"a description": {coordinator.JobPatch{Description: new("")}, func(s *coordinator.JobSettings) { s.Description = "" }},
		"a number for tasks": {
			coordinator.JobPatch{JobSettings: coordinator.JobSettings{RequiredTaskAcks: new(3)}},
			func(s *coordinator.JobSettings) { s.Tasks, s.NamedTasks, s.RequiredTaskAcks = nil, 0, new(3) },
		},
		"all numbers": {
			coordinator.JobPatch{JobSettings: coordinator.JobSettings{
				TimeoutMs: new(int64(11)), IntervalMs: new(int64(12)), MinPauseMs: new(int64(13)), MaxConcurrent: new(14),
				TolerableFailures: new(15), StaleAfterMs: new(int64(16)), Keep: new(17), MaxAgeMs: new(int64(18)), MaxBytes: new(int64(19)),
			}},
			func(s *coordinator.JobSettings) {
				s.TimeoutMs, s.IntervalMs, s.MinPauseMs, s.MaxConcurrent = new(int64(11)), new(int64(12)), new(int64(13)), new(14)
				s.TolerableFailures, s.StaleAfterMs, s.Keep = new(15), new(int64(16)), new(17)
				s.MaxAgeMs, s.MaxBytes = new(int64(18)), new(int64(19))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &contested{state: coordinator.JobState{Job: "job", Configured: true, Revision: 1, Settings: before}}
			state, err := coordinator.New(store, coordinator.Options{}).PatchJob(t.Context(), "job", test.patch, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := before
			test.want(&want)
			if diff := cmp.Diff(want, state.Settings); diff != "" {
				t.Errorf("the settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPatchIsMadeToWhatOthersHavePutMeanwhile(t *testing.T) {
	t.Parallel()
	patch := coordinator.JobPatch{Paused: new(true)}
	store := &contested{state: coordinator.JobState{Job: "job"}, faster: 2}
	state, err := coordinator.New(store, coordinator.Options{}).PatchJob(t.Context(), "job", patch, nil)
	if err != nil || !state.Settings.Paused || state.Settings.Description != "by somebody else" || store.puts != 3 {
		t.Errorf("after %d puts the settings are %+v (%v)", store.puts, state.Settings, err)
	}

	store = &contested{state: coordinator.JobState{Job: "job", Configured: true, Revision: 1}, faster: 1}
	_, err = coordinator.New(store, coordinator.Options{}).PatchJob(t.Context(), "job", patch, []string{"1"})
	if coordinator.CodeOf(err) != coordinator.CodePreconditionFailed || store.puts != 1 {
		t.Errorf("a patch under a condition is answered %v after %d puts", err, store.puts)
	}

	// "Any" does not mean that what somebody put meanwhile may be undone.
	store = &contested{state: coordinator.JobState{Job: "job", Configured: true, Revision: 1}, faster: 1}
	state, err = coordinator.New(store, coordinator.Options{}).PatchJob(t.Context(), "job", patch, []string{"*"})
	if err != nil || !state.Settings.Paused || state.Settings.Description != "by somebody else" {
		t.Errorf("a patch of any settings made them %+v (%v)", state.Settings, err)
	}

	store = &contested{state: coordinator.JobState{Job: "job"}, faster: 1 << 30}
	_, err = coordinator.New(store, coordinator.Options{}).PatchJob(t.Context(), "job", patch, nil)
	if coordinator.CodeOf(err) != coordinator.CodePreconditionFailed {
		t.Errorf("a patch that is never fast enough is answered %v", err)
	}
}
