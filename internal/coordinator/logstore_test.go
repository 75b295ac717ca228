package coordinator_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// logStore keeps jobs with their logs and checkpoints in memory, counts the calls, and is
// away, hangs, or keeps its wakes to itself when a test says so.
type logStore struct {
	coordinator.Store

	mu    sync.Mutex
	jobs  map[string]*logJob
	calls map[string]int
	// away is what every call answers.
	away error
	// hangs makes the named call wait until its context ends.
	hangs string
	// muted keeps wakes back.
	muted bool
	wake  func(job string)
	// due answers TriggerIfDue; nil follows the rules.
	due func(ctx context.Context, call coordinator.DueCall) (coordinator.DueResult, error)
	// before is called ahead of each call, without the lock.
	before func(ctx context.Context, call string)
	// after is called after each call that was answered, without the lock.
	after  func(call string)
	skewMs int64
}

func newLogStore(jobs ...string) *logStore {
	s := &logStore{jobs: map[string]*logJob{}, calls: map[string]int{}}
	for _, job := range append(jobs, coordinator.DefaultJob) {
		s.jobs[job] = newLogJob(job)
	}
	return s
}

func (s *logStore) now() int64 { return time.Now().UnixMilli() + s.skewMs }

// change runs f with the store locked, and wakes whoever listens to the job then.
func (s *logStore) change(job string, f func(j *logJob)) {
	s.mu.Lock()
	f(s.jobs[job])
	wake := s.wake
	if s.muted {
		wake = nil
	}
	s.mu.Unlock()
	if wake != nil {
		wake(job)
	}
}

// set changes the store itself.
func (s *logStore) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *logStore) poke(job string) {
	s.mu.Lock()
	wake := s.wake
	s.mu.Unlock()
	wake(job)
}

// counted gives how often a call was made since it was asked for last.
func (s *logStore) counted(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls[call]
	s.calls[call] = 0
	return n
}

// totalled gives how many calls were made since it was asked for last.
func (s *logStore) totalled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, calls := range maps.All(s.calls) {
		n += calls
	}
	clear(s.calls)
	return n
}

// enter counts a call and gives the job locked, or what the call fails with.
func (s *logStore) enter(ctx context.Context, call, job string) (*logJob, func(), error) {
	s.mu.Lock()
	s.calls[call]++
	away, hangs, before := s.away, s.hangs == call, s.before
	s.mu.Unlock()
	if before != nil {
		before(ctx, call)
	}
	if hangs {
		<-ctx.Done()
		return nil, nil, context.Cause(ctx)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	if away != nil {
		return nil, nil, away
	}
	s.mu.Lock()
	found := s.jobs[job]
	if found == nil && job != "" {
		s.mu.Unlock()
		return nil, nil, coordinator.ErrJobNotFound(job)
	}
	after := s.after
	return found, func() {
		s.mu.Unlock()
		if after != nil {
			after(call)
		}
	}, nil
}

func (s *logStore) Events(ctx context.Context, call coordinator.EventsCall) (coordinator.EventsResult, error) {
	j, leave, err := s.enter(ctx, "events", call.Job)
	if err != nil {
		return coordinator.EventsResult{}, err
	}
	defer leave()
	result := coordinator.EventsResult{Position: j.state.LastEvent}
	if call.After == nil {
		return result, nil
	}
	at := slices.IndexFunc(j.log, func(e coordinator.Event) bool { return e.ID == *call.After })
	switch {
	case *call.After == j.state.LastEvent:
	case at >= 0, *call.After == coordinator.EventID{} && !j.trimmed:
		result.Events = slices.Clone(j.log[at+1 : min(len(j.log), at+1+call.Limit)])
	default:
		result.Gap = true
		for _, c := range j.checkpoints {
			if c.Status == coordinator.StatusPending {
				result.Pending = append(result.Pending, c)
			}
		}
	}
	return result, nil
}

func (s *logStore) Listen(ctx context.Context, wake func(string)) {
	s.set(func() { s.wake = wake })
	<-ctx.Done()
}

func (s *logStore) Jobs(ctx context.Context) ([]coordinator.JobState, error) {
	_, leave, err := s.enter(ctx, "jobs", "")
	if err != nil {
		return nil, err
	}
	defer leave()
	var states []coordinator.JobState
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		state := s.jobs[name].state
		state.ObservedAt = s.now()
		states = append(states, state)
	}
	return states, nil
}

func (s *logStore) Job(ctx context.Context, job string) (coordinator.JobState, error) {
	j, leave, err := s.enter(ctx, "job", job)
	if err != nil {
		return coordinator.JobState{}, err
	}
	defer leave()
	state := j.state
	state.ObservedAt = s.now()
	return state, nil
}

func (s *logStore) List(ctx context.Context, call coordinator.ListCall) (coordinator.ListResult, error) {
	j, leave, err := s.enter(ctx, "list", call.Job)
	if err != nil {
		return coordinator.ListResult{}, err
	}
	defer leave()
	result := coordinator.ListResult{Next: -1}
	for _, c := range slices.Backward(j.checkpoints) {
		acked := slices.ContainsFunc(j.acks[c.ID], func(a coordinator.Ack) bool { return a.TaskID == call.NotAckedBy })
		named := !c.NamedTasks || slices.Contains(j.tasks[c.ID], call.NotAckedBy)
		switch {
		case call.Status != "" && c.Status != call.Status, call.Before >= 0 && c.ID >= call.Before:
		case call.NotAckedBy != "" && (acked || !named):
		case len(result.Checkpoints) == call.Limit:
			result.Next = result.Checkpoints[call.Limit-1].ID
			return result, nil
		default:
			result.Checkpoints = append(result.Checkpoints, c)
		}
	}
	return result, nil
}

func (s *logStore) Get(ctx context.Context, ref coordinator.Ref) (coordinator.CheckpointDetail, error) {
	j, leave, err := s.enter(ctx, "get", ref.Job)
	if err != nil {
		return coordinator.CheckpointDetail{}, err
	}
	defer leave()
	if ref.ID == coordinator.Latest {
		if ref.ID = j.state.LatestID; ref.ID < 0 {
			return coordinator.CheckpointDetail{}, coordinator.ErrNoCompletedCheckpoint(ref.Job)
		}
	}
	c := j.at(ref.ID)
	if c == nil {
		return coordinator.CheckpointDetail{}, coordinator.ErrCheckpointNotFound(ref.Job, ref.ID)
	}
	return coordinator.CheckpointDetail{Checkpoint: *c}, nil
}

func (s *logStore) Tasks(ctx context.Context, call coordinator.TasksCall) (coordinator.TasksResult, error) {
	j, leave, err := s.enter(ctx, "tasks", call.Job)
	if err != nil {
		return coordinator.TasksResult{}, err
	}
	defer leave()
	c := j.at(call.ID)
	if c == nil {
		return coordinator.TasksResult{}, coordinator.ErrCheckpointDeleted(call.Job, call.ID)
	}
	acked := map[string]*coordinator.Ack{}
	for i := range j.acks[call.ID] {
		acked[j.acks[call.ID][i].TaskID] = &j.acks[call.ID][i]
	}
	names := slices.Sorted(maps.Keys(acked))
	if call.Status == coordinator.TaskMissing {
		names = slices.DeleteFunc(slices.Sorted(slices.Values(j.tasks[call.ID])), func(task string) bool { return acked[task] != nil })
	}
	result := coordinator.TasksResult{Checkpoint: *c}
	for _, name := range names {
		if name <= call.After {
			continue
		}
		if len(result.Tasks) == call.Limit {
			result.Next = result.Tasks[call.Limit-1].TaskID
			break
		}
		result.Tasks = append(result.Tasks, coordinator.TaskState{TaskID: name, Status: call.Status, Ack: acked[name]})
	}
	return result, nil
}

func (s *logStore) History(ctx context.Context, job string) (coordinator.History, error) {
	j, leave, err := s.enter(ctx, "history", job)
	if err != nil {
		return coordinator.History{}, err
	}
	defer leave()
	return j.history, nil
}

func (s *logStore) PutJob(ctx context.Context, call coordinator.PutJobCall) (coordinator.PutJobResult, error) {
	j, leave, err := s.enter(ctx, "put_job", call.Job)
	if err != nil {
		return coordinator.PutJobResult{}, err
	}
	defer leave()
	j.state.Settings = call.Settings
	j.state.Schedule.Due = 0
	if interval := call.Settings.Over(call.Defaults).IntervalMs; interval > 0 && !call.Settings.Paused {
		j.state.Schedule.Due = coordinator.FirstDue(s.now(), interval, call.Jitter)
	}
	state := j.state
	state.ObservedAt = s.now()
	return coordinator.PutJobResult{State: state}, nil
}

func (s *logStore) DeleteJob(ctx context.Context, call coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	j, leave, err := s.enter(ctx, "delete_job", call.Job)
	if err != nil {
		return coordinator.DeleteJobResult{}, err
	}
	defer leave()
	if j.state.Pending > 0 && !call.Force {
		return coordinator.DeleteJobResult{}, &coordinator.Error{Code: coordinator.CodeCheckpointNotCompleted}
	}
	j.checkpoints = j.checkpoints[min(call.Max, len(j.checkpoints)):]
	if len(j.checkpoints) > 0 {
		return coordinator.DeleteJobResult{More: true}, nil
	}
	delete(s.jobs, call.Job)
	return coordinator.DeleteJobResult{}, nil
}

func (s *logStore) TriggerIfDue(ctx context.Context, call coordinator.DueCall) (coordinator.DueResult, error) {
	if s.due != nil {
		s.mu.Lock()
		s.calls["due"]++
		s.mu.Unlock()
		return s.due(ctx, call)
	}
	j, leave, err := s.enter(ctx, "due", call.Job)
	if err != nil {
		return coordinator.DueResult{}, err
	}
	defer leave()
	effective, now, schedule := j.state.Settings.Over(call.Defaults), s.now(), &j.state.Schedule
	result := coordinator.DueResult{ObservedAt: now}
	switch {
	case effective.IntervalMs <= 0 || j.state.Settings.Paused:
		schedule.Due = 0
	case schedule.Lost(now, effective):
		schedule.Due = coordinator.FirstDue(now, effective.IntervalMs, call.Jitter)
	case now >= schedule.Due:
		due, missed := schedule.Next(now, effective.IntervalMs)
		schedule.Due, schedule.Missed = due, schedule.Missed+missed
		schedule.Triggered++
		schedule.LastAt = now
		id := j.trigger()
		result.Triggered = new(*j.at(id))
	}
	result.Schedule = *schedule
	return result, nil
}

func (s *logStore) Health(ctx context.Context) ([]coordinator.Warning, error) {
	_, leave, err := s.enter(ctx, "health", "")
	if err != nil {
		return nil, err
	}
	leave()
	return nil, nil
}

func (s *logStore) Sweep(context.Context, coordinator.SweepCall) error { return nil }

// running gives a coordinator over the store that runs until the test ends, or stop.
func running(t testing.TB, store *logStore, options coordinator.Options) (c *coordinator.Coordinator, stop func()) {
	t.Helper()
	if options.Settings.MaxConcurrent == 0 {
		options.Settings = coordinator.DefaultSettings()
	}
	c = coordinator.New(store, options)
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { c.Run(ctx) })
	stop = func() {
		cancel()
		run.Wait()
	}
	t.Cleanup(stop)
	// Whatever wakes only those that listen must not be told before anybody does.
	for {
		store.mu.Lock()
		listening := store.wake != nil
		store.mu.Unlock()
		if listening {
			return c, stop
		}
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("nobody listens")
		}
	}
}

// Alive is always well.
func (s *logStore) Alive() error { return nil }
