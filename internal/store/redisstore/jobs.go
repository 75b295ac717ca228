package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	jobPreludes    = append(slices.Clip(readPreludes), "prelude_job")
	jobStateScript = newScript("job_state", jobPreludes)
)

const (
	// jobsStep is how many jobs are asked for in one round trip.
	jobsStep = 100
	// stateLifeMs is how long a state is taken to hold while nothing of its job's hash changes. It
	// only limits how long an overwritten record shows.
	stateLifeMs = 60_000
)

// states keeps what Jobs read of each job, so that one at which nothing happens costs a glance.
type states struct {
	mu   sync.Mutex
	kept map[string]keptState
	// damaged are the jobs that the last look could not read, and why.
	damaged map[string]error
}

// keptState is a job as it was when a glance saw stamp, or later.
type keptState struct {
	stamp string
	state coordinator.JobState
	until int64
}

// holds tells whether the state is the job's at a later look. How many are pending changes with
// the time alone; and after a step back of the clock nothing is certain.
func (k *keptState) holds(g *glance) bool {
	return g.err == nil && k.stamp == g.stamp && k.state.Pending == 0 && k.state.ObservedAt <= g.now && g.now < k.until
}

// changed gives the jobs that have to be read anew, by their index; the states of the others
// go into the map.
func (s *states) changed(names []string, seen []glance) (map[string]coordinator.JobState, []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same, changed := make(map[string]coordinator.JobState, len(names)), []int(nil)
	for i, name := range names {
		g := &seen[i]
		if k, known := s.kept[name]; known && k.holds(g) {
			k.state.ObservedAt = g.now
			same[name] = k.state
		} else if g.err != nil || g.exists(name) {
			changed = append(changed, i)
		}
	}
	return same, changed
}

// keep notes what was read, and forgets the jobs that are not there any more.
func (s *states) keep(states []coordinator.JobState, stamps map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[string]keptState, len(states))
	for i := range states {
		job := states[i].Job
		if stamp, read := stamps[job]; read {
			// They do not all end at once.
			life := stateLifeMs/2 + rand.Int64N(stateLifeMs/2) //nolint:gosec // It only spreads load.
			kept[job] = keptState{stamp: stamp, state: states[i], until: states[i].ObservedAt + life}
		} else if k, known := s.kept[job]; known {
			kept[job] = k
		}
	}
	s.kept = kept
}

// Jobs reads the state of every job and raises the floors, which is why every server calls it
// once a second: what another server gave is known here soon after. Where Redis knows less than
// this process has seen, it is told.
func (s *Store) Jobs(ctx context.Context) ([]coordinator.JobState, error) {
	names, err := s.jobNames(ctx)
	if err != nil {
		return nil, err
	}
	all := append(slices.Clip(names), s.floors.missed(names)...)
	expected := s.floors.expect(all)
	seen, err := s.look(ctx, all)
	if err != nil {
		return nil, err
	}
	if err := s.raise(ctx, all, expected, seen); err != nil {
		return nil, err
	}
	found, changed := s.states.changed(names, seen)
	stamps, damaged := make(map[string]string, len(changed)), map[string]error{}
	for some := range slices.Chunk(changed, jobsStep) {
		asked := make([]string, len(some))
		for i, at := range some {
			asked[i] = names[at]
		}
		replies, err := s.askJobs(ctx, asked)
		if err != nil {
			return nil, err
		}
		for i, r := range replies {
			if r.word == string(coordinator.CodeJobNotFound) {
				continue // it went after the look
			}
			state, err := s.jobState(asked[i], r.reply)
			if err = cmp.Or(r.err, err); err != nil {
				damaged[asked[i]] = err
				continue
			}
			found[asked[i]], stamps[asked[i]] = state.JobState, seen[some[i]].stamp
		}
	}
	states := make([]coordinator.JobState, 0, len(found))
	for _, name := range names {
		if state, known := found[name]; known {
			states = append(states, state)
		}
	}
	s.states.keep(states, stamps)
	s.reportDamaged(damaged)
	return states, nil
}

// reportDamaged tells of jobs that cannot be read, once each: they are left out, so that all
// others go on, their schedules too.
func (s *Store) reportDamaged(damaged map[string]error) {
	s.states.mu.Lock()
	before := s.states.damaged
	s.states.damaged = damaged
	s.states.mu.Unlock()
	for job, err := range damaged {
		if before[job] == nil {
			s.observer.BackgroundFailed("jobs", fmt.Errorf("job %q is left out, its record cannot be read: %w", job, err))
		}
	}
}

// jobReply is one job's reply, or why this very job has none.
type jobReply struct {
	reply
	err error
}

// askJobs runs the script for some jobs in one round trip.
func (s *Store) askJobs(ctx context.Context, names []string) ([]jobReply, error) {
	replies := make([]jobReply, len(names))
	err := s.fetch(ctx, jobStateScript.verb, func(ctx context.Context) error {
		return s.client.spread(ctx, s.jobKeys(names), func(ctx context.Context, node *redis.Client, at []int) error {
			return s.askJobsOf(ctx, node, names, at, replies)
		})
	})
	return replies, err
}

// askJobsOf asks one server for those of its jobs that stand at those places of names.
func (s *Store) askJobsOf(ctx context.Context, node *redis.Client, names []string, at []int, replies []jobReply) error {
	text := s.form(jobStateScript).text
	cmds := make([]*redis.Cmd, len(at))
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, place := range at {
			cmds[i] = p.EvalSha(ctx, text.Hash(), []string{s.keys(names[place]).job()}, s.now())
		}
		return nil
	})
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		// The server knows no scripts yet: fetch comes back after the load.
		if unloaded := text.Load(ctx, node).Err(); unloaded != nil {
			return unloaded
		}
		return err
	}
	if concernsAll(err) {
		return err
	}
	for i, cmd := range cmds {
		if concernsAll(cmd.Err()) {
			return cmd.Err()
		}
		r := &replies[at[i]]
		if err := cmd.Err(); err != nil {
			_, r.err = judge(err, true)
			continue
		}
		r.reply, r.err = parseReply(jobStateScript.verb, names[at[i]], cmd.Val())
	}
	return nil
}

// Job reads one job whole. The names of its tasks come by themselves, since a script would
// keep everybody else waiting with ten thousand of them.
func (s *Store) Job(ctx context.Context, job string) (coordinator.JobState, error) {
	for range maxRounds {
		r, err := s.run(ctx, jobStateScript, reads, job)
		if err != nil {
			return coordinator.JobState{}, err
		}
		if r.word != wordOK {
			return coordinator.JobState{}, refusal(jobStateScript.verb, job, coordinator.Latest, r)
		}
		state, err := s.jobState(job, r)
		if err != nil || state.names == "" {
			return state.JobState, err
		}
		if state.Settings.Tasks, err = s.jobTasks(ctx, job, state.names); err != nil {
			return coordinator.JobState{}, err
		}
		// A list that is gone belonged to settings that were replaced meanwhile.
		if len(state.Settings.Tasks) == state.Settings.NamedTasks {
			return state.JobState, nil
		}
	}
	return coordinator.JobState{}, coordinator.ErrInternal(fmt.Errorf("job %q: %w", job, placeError(wordUnlisted)))
}

// jobTasks reads the names of tasks that are listed under a token.
func (s *Store) jobTasks(ctx context.Context, job, token string) (tasks []string, err error) {
	names := s.keys(job).tasks(token)
	err = s.fetchFrom(ctx, "read the names of tasks", names, func(ctx context.Context, node *redis.Client) error {
		var err error
		tasks, err = node.ZRange(ctx, names, 0, -1).Result()
		return err
	})
	return tasks, err
}

// storedJob is a job, and the token of the list of tasks that its settings name.
type storedJob struct {
	coordinator.JobState
	names string
}

// jobState reads the job that a reply's body begins with, and raises its floor.
func (s *Store) jobState(job string, r reply) (storedJob, error) {
	if len(r.body) == 0 {
		return storedJob{}, badReply(jobStateScript.verb, r, errWord)
	}
	state, err := parseJob(job, r.now, r.body[0])
	if err != nil {
		return storedJob{}, badReply(jobStateScript.verb, r, fmt.Errorf("job %q: %w", job, err))
	}
	s.floors.see(job, floor{id: state.NextID - 1, epoch: state.Epoch, seq: state.LastEvent.Seq})
	return state, nil
}

// parseJob reads what job_view of prelude_job.lua answered at the time now (Unix ms).
func parseJob(job string, now int64, view any) (storedJob, error) {
	values, _ := view.([]any)
	c := cursor{values: values}
	state := coordinator.JobState{Job: job, Pending: int(c.number()), LatestID: -1, ObservedAt: now}
	if latest := c.id(); latest != nil {
		state.LatestID = *latest
	}
	state.LatestAt = c.number()
	f := parseFields(&c)
	state.Epoch, state.NextID = f.optional("epoch"), f.optional("next")
	state.Configured, state.Revision = f.values["configured"] == "1", f.optional("srev")
	state.Settings = parseSettings(&f)
	state.ConsecutiveFailures, state.Failing = int(f.optional("fails")), f.values["failing"] == "1"
	if f.values["f_id"] != "" {
		state.LastFailure = &coordinator.JobFailure{
			CheckpointID: f.number("f_id"), At: f.number("f_at"),
			Failure: coordinator.Failure{Reason: coordinator.FailureReason(f.values["f_reason"]), TaskID: f.values["f_task"], Message: f.values["f_msg"]},
		}
	}
	state.LastCompletedAt = f.optional("okat")
	state.Schedule = coordinator.ScheduleState{
		Due: f.optional("due"), Last: coordinator.ScheduleResult(f.values["sch_last"]), LastAt: f.optional("sch_at"), LastID: -1,
		Triggered: f.optional("sch_triggered"), Skipped: f.optional("sch_skipped"), Missed: f.optional("sch_missed"),
	}
	if f.values["sch_id"] != "" {
		state.Schedule.LastID = f.number("sch_id")
	}
	var err error
	state.LastEvent, err = parseEventID(f.values["evlast"])
	return storedJob{JobState: state, names: f.values["s_names"]}, errors.Join(c.err, f.err, err)
}

func parseSettings(f *fields) coordinator.JobSettings {
	small := func(name string) *int {
		if f.values[name] == "" {
			return nil
		}
		return new(int(f.number(name)))
	}
	number := func(name string) *int64 {
		if f.values[name] == "" {
			return nil
		}
		return new(f.number(name))
	}
	return coordinator.JobSettings{
		RequiredTaskAcks: small("s_required"), NamedTasks: int(f.optional("s_named")), TimeoutMs: number("s_timeout"),
		IntervalMs: number("s_interval"), MinPauseMs: number("s_minpause"), MaxConcurrent: small("s_pending"),
		TolerableFailures: small("s_tolerate"), StaleAfterMs: number("s_stale"), Keep: small("s_keep"),
		MaxAgeMs: number("s_age"), MaxBytes: number("s_bytes"), Paused: f.values["s_paused"] == "1", Description: f.values["s_desc"],
	}
}
