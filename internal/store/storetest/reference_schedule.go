package storetest

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// TriggerIfDue makes a checkpoint when it is time.
func (r *reference) TriggerIfDue(_ context.Context, call coordinator.DueCall) (coordinator.DueResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.job(call.Job)
	if err != nil {
		return coordinator.DueResult{}, err
	}
	return once(j, call.Token, func() (coordinator.DueResult, error) {
		made := r.due(j, call)
		result := coordinator.DueResult{Schedule: j.schedule, ObservedAt: r.clock()}
		if made != nil {
			result.Triggered = new(r.view(made))
		}
		return result, nil
	})
}

// due moves the schedule on and gives the checkpoint that it made, if it made one.
func (r *reference) due(j *refJob, call coordinator.DueCall) *refCheckpoint {
	now, effective := r.clock(), j.settings.Over(call.Defaults)
	j.noted = call.Defaults
	schedule := &j.schedule
	switch {
	case effective.IntervalMs == 0 || j.settings.Paused:
		schedule.Due = 0
		return nil
	case schedule.Lost(now, effective):
		schedule.Due = refMend(*schedule, now, effective.IntervalMs, call.Jitter)
		return nil
	case now < schedule.Due:
		return nil
	}
	r.settle(j)
	next, missed := schedule.Next(now, effective.IntervalMs)
	schedule.Due, schedule.LastAt = next, now
	schedule.Missed += missed
	if ends := coordinator.PauseEnds(j.completedAt, effective.MinPauseMs, now); now < ends {
		schedule.Due, schedule.Last = ends, coordinator.SchedulePutOff
		return nil
	}
	if len(j.pending()) >= effective.MaxConcurrent {
		schedule.Last = coordinator.ScheduleSkipped
		schedule.Skipped++
		return nil
	}
	c := r.begin(j, coordinator.TriggerCall{Job: j.name, Defaults: call.Defaults})
	schedule.Last, schedule.LastID = coordinator.ScheduleTriggered, c.ID
	schedule.Triggered++
	return c
}

// refBegin is when a schedule triggers that settings begin anew: where the jitter says, but half a period after its last tick.
func refBegin(s coordinator.ScheduleState, now, interval int64, jitter float64) int64 {
	due := now + 1 + int64(jitter*float64(interval))
	if half := s.LastAt + interval - interval/2; s.LastAt != 0 && s.LastAt <= now && due < half {
		return half
	}
	return due
}

// refMend is when a schedule triggers whose due time is lost: a period after its last tick, if that is ahead.
func refMend(s coordinator.ScheduleState, now, interval int64, jitter float64) int64 {
	if next := s.LastAt + interval; s.LastAt != 0 && s.LastAt <= now && now < next {
		return next
	}
	return now + 1 + int64(jitter*float64(interval))
}
