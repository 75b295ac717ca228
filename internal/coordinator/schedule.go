package coordinator

import (
	"context"
	"fmt"
)

// ScheduleState is what a store keeps of a job's schedule. Times are Unix milliseconds
// of the store's clock.
type ScheduleState struct {
	// Due is when the next trigger is due; 0 is no schedule, or one that no tick has seen.
	Due int64
	// Last is what the last due tick came to, at LastAt; "" is none yet. LastID is the
	// last checkpoint that the schedule triggered, < 0 for none.
	Last   ScheduleResult
	LastAt int64
	LastID int64
	// Triggered, Skipped and Missed count periods: those that triggered, those that
	// came at a time when too many were pending, and those in which no tick came at all.
	Triggered, Skipped, Missed int64
}

// ScheduleResult is what a due tick came to.
type ScheduleResult string

// A due tick triggers, is put off until the pause after a completion is over, or is
// skipped because as many as allowed are pending.
const (
	ScheduleTriggered ScheduleResult = "triggered"
	SchedulePutOff    ScheduleResult = "min_pause"
	ScheduleSkipped   ScheduleResult = "too_many_pending"
)

// DueCall triggers a checkpoint if the job's schedule says so.
type DueCall struct {
	Job string
	// Defaults are the server's; the job's own settings win.
	Defaults Settings
	// Jitter, in [0, 1), says where in the interval the first trigger of a schedule falls,
	// so that many jobs that begin together do not fire together.
	Jitter float64
	// Token names the call, see [Store].
	Token string
}

// DueResult is what came of a [DueCall].
type DueResult struct {
	// Triggered is the new checkpoint, nil when there is none.
	Triggered *Checkpoint
	// Schedule is the schedule after the call; its Due is 0 where there is none.
	Schedule   ScheduleState
	ObservedAt int64
}

// Next says when a schedule that was due goes on, and how many periods were missed. A tick
// that is late by up to half a period keeps the rhythm, or every tick's delay would add
// up; after a longer one the rhythm begins anew, so that no two triggers follow each
// other closely.
func (s ScheduleState) Next(now, intervalMs int64) (due, missed int64) {
	late := now - s.Due
	if 2*late <= intervalMs {
		return s.Due + intervalMs, 0
	}
	return now + intervalMs, late / intervalMs
}

// Lost tells whether a due time is not to be believed: there is none, or it lies further
// ahead than any rule puts it, as after a clock that stepped back.
func (s ScheduleState) Lost(now int64, effective Settings) bool {
	return s.Due == 0 || s.Due > now+max(effective.IntervalMs, effective.MinPauseMs)
}

// FirstDue is when a schedule that begins now triggers first.
func FirstDue(now, intervalMs int64, jitter float64) int64 {
	return now + 1 + int64(jitter*float64(intervalMs))
}

// Begin is when a schedule triggers next that begins anew since its settings have changed or its pause has ended: as
// [FirstDue] says, and never within half a period of its last tick, however often that happens. A tick that lies ahead,
// after a clock that stepped back, tells nothing.
func (s ScheduleState) Begin(now, intervalMs int64, jitter float64) int64 {
	due := FirstDue(now, intervalMs, jitter)
	if s.LastAt > 0 && s.LastAt <= now {
		due = max(due, s.LastAt+(intervalMs+1)/2)
	}
	return due
}

// Mend is when a schedule triggers next whose due time is lost: a period after its last tick where that is still to come,
// so that servers of unequal flags, each of which finds the other's due time too far ahead, keep the shorter period.
func (s ScheduleState) Mend(now, intervalMs int64, jitter float64) int64 {
	if s.LastAt > 0 && s.LastAt <= now && s.LastAt+intervalMs > now {
		return s.LastAt + intervalMs
	}
	return FirstDue(now, intervalMs, jitter)
}

// PauseEnds is when the pause after the last completion is over; ≤ now is now. After a step
// back of the clock the completion lies ahead. Further ahead than a pause it is not waited
// for, so that no step makes the pause longer by more than one.
func PauseEnds(lastCompletedAt, minPauseMs, now int64) int64 {
	if lastCompletedAt == 0 || minPauseMs <= 0 || lastCompletedAt > now+minPauseMs {
		return 0
	}
	return lastCompletedAt + minPauseMs
}

// Schedule reads when a job triggers next, and why not now.
func (c *Coordinator) Schedule(ctx context.Context, job string) (Schedule, error) {
	state, err := c.Job(ctx, job)
	if err != nil {
		return Schedule{}, err
	}
	return state.schedule(c.settings), nil
}

// Schedule is a job's schedule as its reader sees it.
type Schedule struct {
	State      ScheduleState
	IntervalMs int64
	Paused     bool
	// Delays are the reasons why nothing is triggered right now; empty when it is due.
	Delays     []Delay
	ObservedAt int64
}

// Delay is one reason why a schedule does not trigger now.
type Delay struct {
	Reason DelayReason
	// Until is when the reason goes by itself (Unix ms); 0 is not known.
	Until  int64
	Detail string
}

// DelayReason names a [Delay].
type DelayReason string

// The reasons.
const (
	DelayOff            DelayReason = "off"
	DelayPaused         DelayReason = "paused"
	DelayNotDue         DelayReason = "not_due"
	DelayMinPause       DelayReason = "min_pause"
	DelayTooManyPending DelayReason = "too_many_pending"
)

func (j *JobState) schedule(defaults Settings) Schedule {
	effective := j.Settings.Over(defaults)
	now := j.ObservedAt
	out := Schedule{State: j.Schedule, IntervalMs: effective.IntervalMs, Paused: j.Settings.Paused, ObservedAt: now}
	delay := func(reason DelayReason, until int64, format string, args ...any) {
		out.Delays = append(out.Delays, Delay{Reason: reason, Until: until, Detail: fmt.Sprintf(format, args...)})
	}
	if effective.IntervalMs <= 0 {
		delay(DelayOff, 0, "The job has no schedule. Set intervalMs with PATCH /jobs/%s.", j.Job)
	}
	if j.Settings.Paused {
		delay(DelayPaused, 0, "The schedule is paused. Set paused to false with PATCH /jobs/%s to resume it.", j.Job)
	}
	if effective.IntervalMs <= 0 || j.Settings.Paused {
		out.State.Due = 0
		return out
	}
	if out.State.Due == 0 {
		delay(DelayNotDue, 0, "The schedule begins with the next tick, within a second or two.")
	}
	if out.State.Due > now {
		delay(DelayNotDue, out.State.Due, "The next trigger is due in %d ms.", out.State.Due-now)
	}
	if ends := PauseEnds(j.LastCompletedAt, effective.MinPauseMs, now); ends > now {
		delay(DelayMinPause, ends, "The job rests for minPauseMs after each completion, for another %d ms.", ends-now)
	}
	if j.Pending >= effective.MaxConcurrent {
		delay(DelayTooManyPending, 0, "%d checkpoints are pending and maxConcurrentCheckpoints is %d.", j.Pending, effective.MaxConcurrent)
	}
	return out
}
