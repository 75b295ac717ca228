package coordinator

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// scheduler calls the store when a schedule is due. Every replica has one and all of
// them call at the same moment: the store lets one of them trigger. What it knows is only
// when to ask; it is learnt anew from each look at the jobs, so nothing is lost with it.
type scheduler struct {
	coordinator *Coordinator
	wake        chan struct{} // capacity 1

	mu   sync.Mutex
	jobs map[string]*dueJob
	// until is when take is going to look again; what is due sooner must wake it.
	until time.Time
	// away is set while calls of some jobs were not answered. One of these, probing, asks
	// for all then, not before probe.
	away    bool
	probe   time.Time
	probing string
}

// dueJob is when a job is to be asked for.
type dueJob struct {
	at time.Time
	// asking tells that its call is running.
	asking bool
	// unanswered is when its last call came back without an answer; zero is never.
	unanswered time.Time
}

func newScheduler(c *Coordinator) *scheduler {
	return &scheduler{coordinator: c, wake: make(chan struct{}, 1), jobs: map[string]*dueJob{}}
}

const (
	// schedulerCalls bounds how many calls of the scheduler run at once.
	schedulerCalls = 16
	// schedulerIdle is how long the scheduler sleeps when nothing is due.
	schedulerIdle = time.Minute
	// probeAway is how soon a store that did not answer is asked again: a schedule goes on
	// within one period of it, however short.
	probeAway = 50 * time.Millisecond
	// retryRefused is how soon a job is asked for again whose call the store refused,
	// since it is full or the job's record is damaged.
	retryRefused = time.Second
)

// learn notes when a job is due.
func (s *scheduler) learn(state *JobState) {
	holds := state.Settings.Over(s.coordinator.settings)
	if holds.IntervalMs <= 0 || state.Settings.Paused {
		s.forget(state.Job)
		return
	}
	at := state.Schedule.Due
	if state.Schedule.Lost(state.ObservedAt, holds) {
		at = state.ObservedAt // the store mends it when it is asked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.jobs[state.Job]
	if due == nil {
		due = new(dueJob)
		s.jobs[state.Job] = due
	}
	due.at = dueAt(at, state.ObservedAt)
	s.rouse(due.at)
}

// dueAt takes the distance from the store's clock, so that this machine's may be wrong.
func dueAt(due, now int64) time.Time {
	return time.Now().Add(time.Duration(due-now) * time.Millisecond)
}

// meet takes a job in that may be new: the next look at the jobs could come later than
// the first interval that the server's flags give it.
func (s *scheduler) meet(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[job] == nil {
		s.jobs[job] = &dueJob{at: time.Now()}
		s.rouse(s.jobs[job].at)
	}
}

func (s *scheduler) forget(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, job)
}

// rouse wakes the scheduler when it would sleep past at. It is locked.
func (s *scheduler) rouse(at time.Time) {
	if !at.Before(s.until) {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run asks for each job when it is due, until ctx ends.
func (s *scheduler) run(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, schedulerCalls)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		jobs, next := s.take(time.Now())
		for _, job := range jobs {
			calls.Go(func() {
				select {
				case slots <- struct{}{}:
					s.ask(ctx, job)
					<-slots
				case <-ctx.Done():
				}
			})
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// take gives the jobs that are due and how long to sleep for the next one.
func (s *scheduler) take(now time.Time) (jobs []string, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = schedulerIdle
	oldest, away := "", false
	for job, due := range s.jobs {
		wait := due.at.Sub(now)
		away = away || !due.unanswered.IsZero()
		switch {
		case due.asking:
		case !due.unanswered.IsZero():
			if oldest == "" || due.unanswered.Before(s.jobs[oldest].unanswered) {
				oldest = job
			}
		case wait > 0:
			next = min(next, wait)
		default:
			due.asking = true
			jobs = append(jobs, job)
		}
	}
	s.away = away
	wait := s.probe.Sub(now)
	switch {
	case oldest == "" || s.probing != "":
	case wait > 0:
		next = min(next, wait)
	default:
		s.jobs[oldest].asking, s.probing = true, oldest
		jobs = append(jobs, oldest)
	}
	s.until = now.Add(next)
	return jobs, next
}

// ask calls the store for a job that is due.
func (s *scheduler) ask(ctx context.Context, job string) {
	c := s.coordinator
	result, err := call(c, "trigger_due", func() (DueResult, error) {
		return inTime(ctx, func(ctx context.Context) (DueResult, error) {
			return c.store.TriggerIfDue(ctx, DueCall{
				Job: job, Defaults: c.settings, Jitter: rand.Float64(), Token: newToken(), //nolint:gosec // It only spreads load.
			})
		})
	})
	if err == nil && result.Triggered != nil {
		c.observer.Triggered(*result.Triggered)
	}
	if ctx.Err() == nil && s.answered(job, result, err) {
		c.observer.BackgroundFailed("schedule", err)
	}
}

// answered ends the call of a job and notes when it is due again; report tells whether
// its failure is news.
func (s *scheduler) answered(job string, result DueResult, err error) (report bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	due := s.jobs[job]
	if due == nil { // forgotten meanwhile, and stays so
		due = new(dueJob)
	}
	due.asking = false
	if s.probing == job {
		s.probing = ""
		s.rouse(now)
	}
	code := CodeOf(err)
	if code == CodeStoreUnavailable || code == CodeOutcomeUnknown || code == CodeNotReplicated {
		// The schedule goes on as soon as the store does; a thousand jobs must not ask a
		// store that is away a thousand times. Others are asked for as ever: a store may be
		// away in part.
		report, s.away = !s.away, true
		due.unanswered, s.probe = now, now.Add(probeAway)
		s.rouse(s.probe)
		return report
	}
	if !due.unanswered.IsZero() {
		for _, other := range s.jobs {
			other.unanswered = time.Time{}
		}
	}
	switch {
	case code == CodeJobNotFound, err == nil && result.Schedule.Due == 0:
		delete(s.jobs, job)
		return false
	case err != nil:
		due.at, report = now.Add(retryRefused), true
	default:
		due.at = dueAt(result.Schedule.Due, result.ObservedAt)
	}
	s.rouse(due.at)
	return report
}
