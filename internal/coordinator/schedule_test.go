package coordinator_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestNextKeepsTheRhythmUnlessTheTickIsLate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                string
		due, now, interval  int64
		wantDue, wantMissed int64
	}{
		{"in time", 1000, 1000, 200, 1200, 0},
		{"a little late", 1000, 1030, 200, 1200, 0},
		{"late by half a period", 1000, 1100, 200, 1200, 0},
		{"later than half a period", 1000, 1101, 200, 1301, 0},
		{"late by just under a period", 1000, 1199, 200, 1399, 0},
		{"late by a period", 1000, 1200, 200, 1400, 1},
		{"late by many periods", 1000, 6100, 200, 6300, 25},
		{"late by half of an odd period", 1000, 1025, 51, 1051, 0},
		{"late by more than half of an odd period", 1000, 1026, 51, 1077, 0},
	} {
		due, missed := coordinator.ScheduleState{Due: tc.due}.Next(tc.now, tc.interval)
		if due != tc.wantDue || missed != tc.wantMissed {
			t.Errorf("%s: due %d, %d missed; want %d, %d", tc.name, due, missed, tc.wantDue, tc.wantMissed)
		}
		if due <= tc.now {
			t.Errorf("%s: due again at once", tc.name)
		}
	}
}

func TestADueTimeFurtherAheadThanAnyRulePutsItIsLost(t *testing.T) {
	t.Parallel()
	const now = 10_000
	for _, tc := range []struct {
		name                 string
		due, interval, pause int64
		want                 bool
	}{
		{"none", 0, 200, 0, true},
		{"long past", 1, 200, 0, false},
		{"now", now, 200, 0, false},
		{"an interval ahead", now + 200, 200, 0, false},
		{"more than an interval ahead", now + 201, 200, 0, true},
		{"a pause ahead, longer than the interval", now + 900, 200, 900, false},
		{"more than the pause ahead", now + 901, 200, 900, true},
		{"an interval ahead, longer than the pause", now + 200, 200, 100, false},
	} {
		effective := coordinator.Settings{IntervalMs: tc.interval, MinPauseMs: tc.pause}
		if got := (coordinator.ScheduleState{Due: tc.due}).Lost(now, effective); got != tc.want {
			t.Errorf("%s: lost is %v", tc.name, got)
		}
	}
}

func TestTheFirstTriggerFallsWithinTheInterval(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		jitter   float64
		interval int64
		want     int64
	}{
		{0, 1000, 5001},
		{0.5, 1000, 5501},
		{0.9999, 1000, 6000},
		{0.25, 50, 5013},
	} {
		got := coordinator.FirstDue(5000, tc.interval, tc.jitter)
		if got != tc.want {
			t.Errorf("with jitter %v of %d ms: %d, want %d", tc.jitter, tc.interval, got, tc.want)
		}
		if (coordinator.ScheduleState{Due: got}).Lost(5000, coordinator.Settings{IntervalMs: tc.interval}) {
			t.Errorf("with jitter %v of %d ms it is lost right away", tc.jitter, tc.interval)
		}
	}
}

func TestAPauseCountsFromTheCompletion(t *testing.T) {
	t.Parallel()
	const now = 10_000
	for _, tc := range []struct {
		name             string
		completed, pause int64
		want             int64
	}{
		{"nothing completed yet", 0, 500, 0},
		{"no pause", 9900, 0, 0},
		{"within the pause", 9900, 500, 10_400},
		{"at the end of the pause", 9500, 500, 10_000},
		{"long after", 100, 500, 600},
		{"a clock that stepped back a little behind the completion", 10_500, 500, 11_000},
		{"a clock that stepped back by more than a pause", 10_501, 500, 0},
	} {
		if got := coordinator.PauseEnds(tc.completed, tc.pause, now); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestScheduleTellsWhyNothingIsTriggeredNow(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	interval, pause := new(int64(60_000)), new(int64(10_000))
	for _, tc := range []struct {
		name  string
		state coordinator.JobState
		due   int64
		want  map[coordinator.DelayReason]int64 // and until when
	}{
		{"no schedule", coordinator.JobState{}, 0, map[coordinator.DelayReason]int64{coordinator.DelayOff: 0}},
		{
			"no schedule, and paused",
			coordinator.JobState{Settings: coordinator.JobSettings{Paused: true}},
			0,
			map[coordinator.DelayReason]int64{coordinator.DelayOff: 0, coordinator.DelayPaused: 0},
		},
		{
			"paused, with a due time left over",
			coordinator.JobState{Settings: coordinator.JobSettings{IntervalMs: interval, Paused: true}, Schedule: coordinator.ScheduleState{Due: now + 5}},
			0,
			map[coordinator.DelayReason]int64{coordinator.DelayPaused: 0},
		},
		{
			"due in a moment",
			coordinator.JobState{Settings: coordinator.JobSettings{IntervalMs: interval}, Schedule: coordinator.ScheduleState{Due: now + 5}},
			now + 5,
			map[coordinator.DelayReason]int64{coordinator.DelayNotDue: now + 5},
		},
		{
			"due now",
			coordinator.JobState{Settings: coordinator.JobSettings{IntervalMs: interval}, Schedule: coordinator.ScheduleState{Due: now}},
			now, nil,
		},
		{
			"resting",
			coordinator.JobState{
				Settings: coordinator.JobSettings{IntervalMs: interval, MinPauseMs: pause}, LastCompletedAt: now - 4000,
				Schedule: coordinator.ScheduleState{Due: now},
			},
			now,
			map[coordinator.DelayReason]int64{coordinator.DelayMinPause: now + 6000},
		},
		{
			"everything at once",
			coordinator.JobState{
				Settings:        coordinator.JobSettings{IntervalMs: interval, MinPauseMs: pause, MaxConcurrent: new(2)},
				LastCompletedAt: now, Pending: 2, Schedule: coordinator.ScheduleState{Due: now + 1},
			},
			now + 1,
			map[coordinator.DelayReason]int64{
				coordinator.DelayNotDue: now + 1, coordinator.DelayMinPause: now + 10_000, coordinator.DelayTooManyPending: 0,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := newLogStore()
			tc.state.Job = "default"
			store.jobs["default"].state = tc.state
			store.skewMs = now - time.Now().UnixMilli()
			c := coordinator.New(&frozenStore{store, now}, coordinator.Options{Settings: coordinator.DefaultSettings()})
			got, err := c.Schedule(t.Context(), "default")
			if err != nil {
				t.Fatal(err)
			}
			delays := map[coordinator.DelayReason]int64{}
			for _, delay := range got.Delays {
				if delays[delay.Reason] = delay.Until; delay.Detail == "" {
					t.Errorf("%s says nothing", delay.Reason)
				}
			}
			if tc.want == nil {
				tc.want = map[coordinator.DelayReason]int64{}
			}
			if diff := cmp.Diff(tc.want, delays); diff != "" || got.State.Due != tc.due {
				t.Errorf("due %d, delays %s", got.State.Due, diff)
			}
		})
	}
}

// frozenStore is a logStore whose clock stands.
type frozenStore struct {
	*logStore

	at int64
}

func (s *frozenStore) Job(ctx context.Context, job string) (coordinator.JobState, error) {
	state, err := s.logStore.Job(ctx, job)
	state.ObservedAt = s.at
	return state, err
}
