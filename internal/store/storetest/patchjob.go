package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func (r *rig) patchCall(patch coordinator.JobPatch) coordinator.PutJobCall {
	return coordinator.PutJobCall{Job: r.job, Patch: &patch, Defaults: r.defaults, Jitter: middle}
}

// patchJob changes some of the job's settings.
func (r *rig) patchJob(patch coordinator.JobPatch) coordinator.PutJobResult {
	r.t.Helper()
	result, err := r.store.PutJob(r.t.Context(), r.patchCall(patch))
	r.check("patch job", err)
	return result
}

// numbers is a patch of everything but tasks, pause and description.
func numbers() coordinator.JobPatch {
	return coordinator.JobPatch{JobSettings: coordinator.JobSettings{
		TimeoutMs: new(int64(11)), IntervalMs: new(int64(1200)), MinPauseMs: new(int64(13)), MaxConcurrent: new(14), TolerableFailures: new(15),
		StaleAfterMs: new(int64(16)), Keep: new(17), MaxAgeMs: new(int64(18)), MaxBytes: new(int64(19)),
	}}
}

func testPatchJob(t *testing.T, s suite) {
	s.rule(t, "a patch leaves what it does not name", func(t *testing.T, r *rig) {
		for i, patch := range []struct {
			coordinator.JobPatch
			want func(*coordinator.JobSettings)
		}{
			{coordinator.JobPatch{}, func(*coordinator.JobSettings) {}},
			{coordinator.JobPatch{Paused: new(false)}, func(s *coordinator.JobSettings) { s.Paused = false }},
			{coordinator.JobPatch{Description: new("")}, func(s *coordinator.JobSettings) { s.Description = "" }},
			{coordinator.JobPatch{JobSettings: coordinator.JobSettings{RequiredTaskAcks: new(4)}}, func(s *coordinator.JobSettings) {
				s.Tasks, s.NamedTasks, s.RequiredTaskAcks = nil, 0, new(4)
			}},
			{coordinator.JobPatch{JobSettings: coordinator.JobSettings{Tasks: []string{"z", "x"}}}, func(s *coordinator.JobSettings) {
				s.Tasks, s.NamedTasks, s.RequiredTaskAcks = []string{"z", "x"}, 2, nil
			}},
			{numbers(), func(s *coordinator.JobSettings) {
				tasks, required := s.Tasks, s.RequiredTaskAcks
				*s = numbers().JobSettings
				s.Tasks, s.NamedTasks, s.RequiredTaskAcks, s.Paused, s.Description = tasks, len(tasks), required, true, allSettings().Description
			}},
		} {
			job := r.in(fmt.Sprintf("job-%d", i))
			before := job.putJob(allSettings()).State
			want := allSettings()
			patch.want(&want)
			result := job.patchJob(patch.JobPatch)
			if diff := cmp.Diff(want, result.State.Settings); diff != "" {
				t.Errorf("patch %d: the settings in the answer (-want +got):\n%s", i, diff)
			}
			job.wantSettings(want)
			equal(t, "created", result.Created, false)
			equal(t, "revision", result.State.Revision, before.Revision+1)
		}
	})
	s.rule(t, "a patch of a job that nobody configured configures it", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.trigger()
		result := orders.patchJob(coordinator.JobPatch{Paused: new(true)})
		equal(t, "created", result.Created, true)
		orders.wantSettings(coordinator.JobSettings{Paused: true})
		equal(t, "created in the default job", r.patchJob(coordinator.JobPatch{Paused: new(true)}).Created, true)
	})
	s.rule(t, "a job that is not there cannot be patched", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		for range 2 {
			_, err := orders.store.PutJob(t.Context(), orders.patchCall(numbers()))
			r.refused(err, coordinator.CodeJobNotFound)
			_, err = orders.store.Job(t.Context(), orders.job)
			r.refused(err, coordinator.CodeJobNotFound)
			orders.putJob(coordinator.JobSettings{})
			orders.deleteJob(true)
		}
	})
	s.rule(t, "a patch is made only to settings that meet its condition", func(t *testing.T, r *rig) {
		call := r.patchCall(coordinator.JobPatch{Paused: new(true)})
		call.If.IfMatch = []string{"*"}
		_, err := r.store.PutJob(t.Context(), call)
		r.refused(err, coordinator.CodePreconditionFailed)
		first := r.putJob(coordinator.JobSettings{}).State
		call.If.IfMatch = []string{first.Tag()}
		_, err = r.store.PutJob(t.Context(), call)
		r.check("patch under a condition", err)
		_, err = r.store.PutJob(t.Context(), call)
		r.refused(err, coordinator.CodePreconditionFailed)
	})
	s.rule(t, "long lists of names stay where a patch is about something else, and go where it is about them", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{Tasks: names(1500)})
		r.patchJob(coordinator.JobPatch{Description: new("d")})
		r.wantSettings(coordinator.JobSettings{Tasks: names(1500), NamedTasks: 1500, Description: "d"})
		equal(t, "required", r.trigger(leftOpen()).RequiredTaskAcks, 1500)
		r.patchJob(coordinator.JobPatch{JobSettings: coordinator.JobSettings{Tasks: names(2500)}})
		r.wantSettings(coordinator.JobSettings{Tasks: names(2500), NamedTasks: 2500, Description: "d"})
	})
	s.rule(t, "of many who patch one job at once all succeed, and no change is lost", func(t *testing.T, r *rig) {
		a, b := r.either()
		for range 4 {
			r.putJob(coordinator.JobSettings{})
			before := r.jobState().Revision
			var patches []coordinator.JobPatch
			each := func(set func(*coordinator.JobPatch)) {
				var patch coordinator.JobPatch
				set(&patch)
				patches = append(patches, patch)
			}
			each(func(p *coordinator.JobPatch) { p.TimeoutMs = numbers().TimeoutMs })
			each(func(p *coordinator.JobPatch) { p.IntervalMs = numbers().IntervalMs })
			each(func(p *coordinator.JobPatch) { p.MinPauseMs = numbers().MinPauseMs })
			each(func(p *coordinator.JobPatch) { p.MaxConcurrent = numbers().MaxConcurrent })
			each(func(p *coordinator.JobPatch) { p.TolerableFailures = numbers().TolerableFailures })
			each(func(p *coordinator.JobPatch) { p.StaleAfterMs = numbers().StaleAfterMs })
			each(func(p *coordinator.JobPatch) { p.Keep = numbers().Keep })
			each(func(p *coordinator.JobPatch) { p.MaxAgeMs = numbers().MaxAgeMs })
			each(func(p *coordinator.JobPatch) { p.MaxBytes = numbers().MaxBytes })
			each(func(p *coordinator.JobPatch) { p.Paused = new(true) })
			each(func(p *coordinator.JobPatch) { p.Description = new("d") })
			each(func(p *coordinator.JobPatch) { p.Tasks = []string{"b", "a"} })
			errs := make([]error, len(patches))
			var all sync.WaitGroup
			for i, patch := range patches {
				all.Go(func() { _, errs[i] = []coordinator.Store{a, b}[i%2].PutJob(t.Context(), r.patchCall(patch)) })
			}
			all.Wait()
			for _, err := range errs {
				r.check("one of many patches", err)
			}
			want := numbers().JobSettings
			want.Paused, want.Description, want.Tasks, want.NamedTasks = true, "d", []string{"b", "a"}, 2
			r.wantSettings(want)
			equal(t, "revision", r.jobState().Revision, before+int64(len(patches)))
		}
	})
}
