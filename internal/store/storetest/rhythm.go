package storetest

import (
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// testRhythm is about when a schedule goes on after ticks that came late, long after, or
// before their time.
func testRhythm(t *testing.T, s suite) {
	for _, late := range []struct {
		sentence         string
		by, next, missed int64
	}{
		{"a tick in time goes on an interval later", 0, 1000, 0},
		{"a tick that is late by up to half an interval keeps the rhythm", 500, 1000, 0},
		{"a tick that is late by more than half an interval begins the rhythm anew", 501, 1501, 0},
		{"a tick that is late by an interval missed one", 1000, 2000, 1},
		{"a tick that is late by many intervals missed as many", 7999, 8999, 7},
	} {
		s.rule(t, late.sentence, func(t *testing.T, r *rig) {
			due := r.beginSchedule(every(1000))
			r.clock.Set(due + late.by)
			result := r.tickMakes()
			r.wantSchedule(coordinator.ScheduleState{
				Due: due + late.next, Last: coordinator.ScheduleTriggered, LastAt: due + late.by, LastID: result.Triggered.ID,
				Triggered: 1, Missed: late.missed,
			}, result)
		})
	}
	s.rule(t, "small delays do not add up", func(t *testing.T, r *rig) {
		due := r.beginSchedule(every(1000))
		for i := range int64(10) {
			r.clock.Set(due + i*1000 + 37*i)
			equal(t, "due next", r.tickMakes().Schedule.Due, due+(i+1)*1000)
		}
	})
	s.rule(t, "after a long sleep there is one trigger, and what was missed is counted once", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 1000
		r.beginSchedule(every(1000))
		r.clock.Advance(1)
		r.tickMakes()
		r.clock.Advance(ms(time.Hour))
		r.reopen()
		woke := r.clock.Now()
		result := r.tickMakes()
		equal(t, "missed", result.Schedule.Missed, 3599)
		for range 5 {
			equal(t, "missed by the next who asks", r.tickIdles().Schedule.Missed, 3599)
		}
		for made := 0; r.clock.Now() < woke+3000; made++ {
			equal(t, "made since", int(r.jobState().Schedule.Triggered), 2+made)
			r.clock.Advance(999)
			r.tickIdles()
			r.clock.Advance(1)
			r.tickMakes()
		}
		equal(t, "missed in the end", r.jobState().Schedule.Missed, 3599)
	})
	s.rule(t, "what was missed is counted also where the tick is put off or skipped", func(t *testing.T, r *rig) {
		resting, full := r.in("resting"), r.in("full")
		settings := every(1000)
		settings.MinPauseMs = new(int64(60_000))
		due := resting.beginSchedule(settings)
		resting.completed()
		settings = every(1000)
		settings.MaxConcurrent = new(1)
		full.beginSchedule(settings)
		full.trigger(timeout(0))
		r.clock.Set(due + 3500)
		resting.wantSchedule(coordinator.ScheduleState{
			Due: due - 1 + 60_000, Last: coordinator.SchedulePutOff, LastAt: due + 3500, LastID: -1, Missed: 3,
		}, resting.tickIdles())
		full.wantSchedule(coordinator.ScheduleState{
			Due: due + 4500, Last: coordinator.ScheduleSkipped, LastAt: due + 3500, LastID: -1, Skipped: 1, Missed: 3,
		}, full.tickIdles())
	})
	s.rule(t, "a clock that steps back a little moves the next trigger by no more than the interval", func(t *testing.T, r *rig) {
		due := r.beginSchedule(every(1000))
		r.clock.Set(due)
		r.tickMakes()
		r.clock.Advance(-1)
		equal(t, "due", r.tickIdles().Schedule.Due, r.clock.Now()+501)
		r.clock.Advance(-300)
		equal(t, "due", r.tickIdles().Schedule.Due, r.clock.Now()+801)
	})
	s.rule(t, "a clock that steps back beyond an interval begins the schedule anew, and nothing fires twice", func(t *testing.T, r *rig) {
		due := r.beginSchedule(every(1000))
		r.clock.Set(due)
		last := r.tickMakes()
		r.clock.Advance(-ms(24 * time.Hour))
		want := last.Schedule
		want.Due = r.clock.Now() + 501
		r.wantSchedule(want, r.tickIdles())
		r.tickIdles()
		r.clock.Advance(501)
		r.tickMakes()
		r.tickIdles()
	})
	s.rule(t, "a clock that steps back far behind a completion does not hold up a schedule with a pause", func(t *testing.T, r *rig) {
		settings := every(1000)
		settings.MinPauseMs = new(int64(100))
		r.clock.Set(r.beginSchedule(settings))
		r.accept(r.tickMakes().Triggered.ID, "task-1")
		r.clock.Advance(-ms(time.Hour))
		r.clock.Set(r.tickIdles().Schedule.Due)
		r.tickMakes()
	})
	s.rule(t, "a due time that a pause has put off is believed as far as the pause goes", func(t *testing.T, r *rig) {
		settings := every(100)
		settings.MinPauseMs = new(int64(5000))
		due := r.beginSchedule(settings)
		r.clock.Set(due)
		r.accept(r.tickMakes().Triggered.ID, "task-1")
		r.clock.Set(due + 100)
		equal(t, "due", r.tickIdles().Schedule.Due, due+5000)
		r.clock.Set(due)
		equal(t, "due when the clock steps back", r.tickIdles().Schedule.Due, due+5000)
		r.clock.Set(due - 1)
		equal(t, "due when it steps back further", r.tickIdles().Schedule.Due, due-1+51)
	})
	s.rule(t, "a clock that steps ahead is a long sleep", func(t *testing.T, r *rig) {
		r.beginSchedule(every(1000))
		r.clock.Advance(ms(365 * 24 * time.Hour))
		result := r.tickMakes()
		equal(t, "due next", result.Schedule.Due, r.clock.Now()+1000)
		r.tickIdles()
		r.clock.Advance(-ms(365 * 24 * time.Hour))
		equal(t, "due after the clock was put right", r.tickIdles().Schedule.Due, r.clock.Now()+501)
	})
	s.rule(t, "no two triggers come within half a period, whatever settings are put in between", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 1000
		changes := []func(*coordinator.JobSettings){
			func(s *coordinator.JobSettings) { s.Paused = !s.Paused },
			func(s *coordinator.JobSettings) { s.Paused = !s.Paused },
			func(s *coordinator.JobSettings) { s.IntervalMs = new(int64(1000)) },
			func(s *coordinator.JobSettings) { s.IntervalMs = new(int64(1001)) },
			func(s *coordinator.JobSettings) { s.MinPauseMs = new(int64(1)) },
			func(s *coordinator.JobSettings) { s.MinPauseMs, s.IntervalMs = nil, new(int64(0)) },
			func(s *coordinator.JobSettings) { s.IntervalMs = new(int64(1003)) },
		}
		settings := every(1000)
		last, triggers := int64(0), 0
		begin := r.clock.Now()
		for step := 0; r.clock.Now() < begin+60_000; step++ {
			if step%3 == 0 {
				changes[step/3%len(changes)](&settings)
				call := r.putCall(settings)
				call.Jitter = 0
				_, err := r.store.PutJob(t.Context(), call)
				r.check("put job", err)
			}
			if r.tick().Triggered != nil {
				if now := r.clock.Now(); last > 0 && now-last < 500 {
					t.Fatalf("a trigger followed another after %d ms", now-last)
				}
				last, triggers = r.clock.Now(), triggers+1
			}
			r.clock.Advance(50)
		}
		if triggers < 20 {
			t.Errorf("%d triggers in a minute are too few", triggers)
		}
	})
	s.rule(t, "servers of unequal intervals keep the shorter period, whoever asks", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 1000
		short, long := r.on(t, r.job), r.on(t, r.job)
		short.defaults.IntervalMs, long.defaults.IntervalMs = 1000, 2500
		last, triggers := int64(0), 0
		begin := r.clock.Now()
		for step := 0; r.clock.Now() < begin+60_000; step++ {
			asking := []*rig{short, long}
			if step/7%2 == 0 {
				asking[0], asking[1] = long, short
			}
			for _, server := range asking {
				if server.tick().Triggered == nil {
					continue
				}
				if now := r.clock.Now(); last > 0 && now-last < 1000 {
					t.Fatalf("a trigger followed another after %d ms", now-last)
				}
				last, triggers = r.clock.Now(), triggers+1
			}
			r.clock.Advance(20)
		}
		if triggers < 50 {
			t.Errorf("%d triggers in a minute are too few", triggers)
		}
	})
	s.rule(t, "a restart of all servers changes nothing", func(t *testing.T, r *rig) {
		due := r.beginSchedule(every(1000))
		r.clock.Set(due + 300)
		before := r.tickMakes().Schedule
		r.reopen()
		equal(t, "schedule", r.jobState().Schedule, before)
		r.clock.Set(due + 999)
		r.tickIdles()
		r.clock.Set(due + 1000)
		r.tickMakes()
	})
}
