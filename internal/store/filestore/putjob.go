package filestore

import (
	"context"
	"strconv"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// PutJob replaces a job's settings and makes the job if it is new, or changes some of them.
func (s *Store) PutJob(ctx context.Context, call coordinator.PutJobCall) (coordinator.PutJobResult, error) {
	return mutate(ctx, s, func(st *step) (coordinator.PutJobResult, error) {
		configured, revision := false, int64(0)
		if j := st.remains(call.Job); j != nil {
			configured, revision = j.Settings != nil, j.Revision
		}
		if call.Patch != nil && st.job(call.Job) == nil {
			return coordinator.PutJobResult{}, coordinator.ErrJobNotFound(call.Job)
		}
		if !call.If.Met(jobTag(revision), configured) {
			return coordinator.PutJobResult{}, coordinator.ErrPreconditionFailed()
		}
		j := st.makeJob(call.Job)
		st.putSettings(j, call)
		return coordinator.PutJobResult{State: st.wholeState(j), Created: !configured}, nil
	})
}

// jobTag is the entity tag of a job's settings; see coordinator.JobState.Tag.
func jobTag(revision int64) string { return strconv.FormatInt(revision, 10) }

func (s *step) putSettings(j *job, call coordinator.PutJobCall) {
	before := j.holds(call.Defaults)
	after := call.Settings
	after.NamedTasks = len(after.Tasks)
	if call.Patch != nil {
		after = call.Patch.Apply(j.own())
	}
	own := settings(after)
	own.Tasks = nil
	j.Settings = &own
	j.Revision++
	s.note(j, call.Defaults)
	s.touchJob(j)
	if call.Patch == nil || call.Patch.Participants() {
		s.nameTasks(j, after.Tasks)
	}
	switch now := j.holds(call.Defaults); {
	case now.IntervalMs <= 0 || own.Paused:
		j.Schedule.Due = 0
	case j.Schedule.Due == 0 || now.IntervalMs != before.IntervalMs || now.MinPauseMs != before.MinPauseMs:
		// Of a job that was paused, or had no interval, the due time was forgotten.
		j.Schedule.Due = coordinator.ScheduleState(j.Schedule).Begin(s.now, now.IntervalMs, call.Jitter)
	}
	s.log(j, event{Type: coordinator.EventConfigured, ID: noCheckpoint, By: call.By})
	if last := j.Outcomes.Last; last != nil {
		s.judgeFailures(j, last.ID, &last.failure)
	}
}

// nameTasks replaces the names of tasks in a job's settings; nil is none.
func (s *step) nameTasks(j *job, tasks []string) {
	s.drop(j.b, bucketTasks)
	if tasks == nil {
		return
	}
	names := s.bucket(j.b, bucketTasks)
	for i, name := range tasks {
		s.put(names, idKey(int64(i)), []byte(name))
	}
}
