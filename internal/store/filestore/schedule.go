package filestore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// schedule is where a job's schedule stands.
type schedule struct {
	Due       int64                      `json:"due,omitempty"`
	Last      coordinator.ScheduleResult `json:"last,omitempty"`
	LastAt    int64                      `json:"at,omitempty"`
	LastID    int64                      `json:"id"`
	Triggered int64                      `json:"triggered,omitempty"`
	Skipped   int64                      `json:"skipped,omitempty"`
	Missed    int64                      `json:"missed,omitempty"`
}

// never is the schedule of a job in which none has triggered yet.
func never() schedule { return schedule{LastID: noCheckpoint} }

// TriggerIfDue makes a pending checkpoint if the job's schedule says so.
func (s *Store) TriggerIfDue(ctx context.Context, call coordinator.DueCall) (coordinator.DueResult, error) {
	return mutate(ctx, s, func(st *step) (coordinator.DueResult, error) {
		j := st.job(call.Job)
		if j == nil {
			return coordinator.DueResult{}, coordinator.ErrJobNotFound(call.Job)
		}
		c, err := st.triggerIfDue(j, call)
		if err != nil {
			return coordinator.DueResult{}, err
		}
		result := coordinator.DueResult{Schedule: coordinator.ScheduleState(j.Schedule), ObservedAt: st.now}
		if c != nil {
			result.Triggered = new(c.view(st.now))
		}
		return result, nil
	})
}

// triggerIfDue moves the schedule on, and gives the checkpoint that it triggered, nil for
// none.
func (s *step) triggerIfDue(j *job, call coordinator.DueCall) (*checkpoint, error) {
	holds := j.holds(call.Defaults)
	state := coordinator.ScheduleState(j.Schedule)
	switch {
	case holds.IntervalMs <= 0 || j.own().Paused:
		if j.Schedule.Due != 0 {
			j.Schedule.Due = 0
			s.touchJob(j)
		}
		return nil, nil //nolint:nilnil // Nothing triggered is no error.
	case call.Token != "" && call.Token == j.Ticked:
		if j.Schedule.Last == coordinator.ScheduleTriggered {
			return j.checkpoint(j.Schedule.LastID)
		}
		return nil, nil //nolint:nilnil // As above.
	case state.Lost(s.now, holds):
		j = s.makeJob(j.name) // the default job may have no record yet
		s.note(j, call.Defaults)
		j.Schedule.Due = state.Mend(s.now, holds.IntervalMs, call.Jitter)
		s.touchJob(j)
		return nil, nil //nolint:nilnil // As above.
	case s.now < state.Due:
		return nil, nil //nolint:nilnil // As above.
	}
	return s.tick(j, holds, call)
}

// tick is for a schedule that is due.
func (s *step) tick(j *job, holds coordinator.Settings, call coordinator.DueCall) (*checkpoint, error) {
	s.catchUp(j, everything)
	s.note(j, call.Defaults)
	due, missed := coordinator.ScheduleState(j.Schedule).Next(s.now, holds.IntervalMs)
	next := j.Schedule
	next.Due, next.LastAt = due, s.now
	next.Missed += missed
	var c *checkpoint
	switch ends := coordinator.PauseEnds(j.Outcomes.At, holds.MinPauseMs, s.now); {
	case ends > s.now:
		next.Due, next.Last = ends, coordinator.SchedulePutOff
	case j.Pending >= holds.MaxConcurrent:
		next.Last = coordinator.ScheduleSkipped
		next.Skipped++
	default:
		var err error
		if c, err = s.create(j, coordinator.TriggerCall{Job: j.name, Defaults: call.Defaults}); err != nil {
			return nil, err
		}
		next.Last, next.LastID = coordinator.ScheduleTriggered, c.id
		next.Triggered++
	}
	j.Schedule, j.Ticked = next, call.Token
	s.touchJob(j)
	return c, nil
}
