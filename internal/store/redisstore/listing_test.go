package redisstore

import (
	"context"
	"slices"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// listed are the names in the list of jobs.
func (l *lab) listed() []string {
	l.Helper()
	names, err := l.redis.SMembers(context.Background(), jobsKey(l.server.Prefix)).Result()
	l.ok(err)
	slices.Sort(names)
	return names
}

// deleteJob makes a job that was deleted and is still listed.
func (l *lab) deleteJob(s *Store) {
	l.Helper()
	_, err := s.Recover(l.Context(), coordinator.RecoverCall{Job: l.job})
	l.ok(err)
	_, err = s.DeleteJob(l.Context(), coordinator.DeleteJobCall{Job: l.job, Force: true, Max: 100})
	l.ok(err)
	l.same("listed after the deletion", l.listed(), []string{l.job})
}

func TestADeletedJobLeavesTheList(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	s := l.store()
	l.record(7, values{"status": "completed"})
	l.ack(7, "a", "0", piece("u", 3))
	l.chunks(7, piece("u", 3))
	_, err := s.Jobs(t.Context())
	l.ok(err)
	_, err = s.DeleteJob(t.Context(), coordinator.DeleteJobCall{Job: l.job, Force: true, Max: 100})
	l.ok(err)
	l.same("listed while chunks are left", l.listed(), []string{l.job})
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("chunk is there", l.exists(l.keys.chunk(7, "u", 2)), false)
	l.same("listed", l.listed(), []string{})
	_, err = s.Jobs(t.Context())
	l.ok(err)
	l.same("kept states and sweeps", []int{len(s.states.kept), len(s.sweeps.kept)}, []int{1, 1})
}

func TestADeletedJobStaysListedWhileAnUploadMayGoOn(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	s := l.store()
	l.deleteJob(s)
	l.do("ZADD", l.keys.uploads(), l.now+1000, "7:running")
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("listed", l.listed(), []string{l.job})
	l.now += 1001
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("listed after the lease", l.listed(), []string{})
}

// Whoever makes a deleted job anew meets a sweep that takes it out of the list.
func TestAJobThatComesBackIsListed(t *testing.T) {
	t.Parallel()
	comeback := map[string]func(l *lab, s *Store) error{
		"trigger": func(l *lab, s *Store) error {
			call := aTriggerCall()
			call.Job = l.job
			_, err := s.Trigger(l.Context(), call)
			return err
		},
		"recover": func(l *lab, s *Store) error {
			_, err := s.Recover(l.Context(), coordinator.RecoverCall{Job: l.job})
			return err
		},
		"put": func(l *lab, s *Store) error {
			_, err := s.PutJob(l.Context(), coordinator.PutJobCall{Job: l.job, Defaults: labDefaults()})
			return err
		},
	}
	for name, come := range comeback {
		t.Run(name+" after the sweep", func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "orders")
			s := l.store()
			l.deleteJob(s)
			l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
			l.same("listed before", l.listed(), []string{})
			l.ok(come(l, s))
			l.same("listed", l.listed(), []string{l.job})
		})
		t.Run(name+" with the sweep between its steps", func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "orders")
			s, sweeper := l.store(), l.store()
			l.deleteJob(s)
			met := false
			newTap(t, s).after["sadd"] = func() {
				l.ok(sweeper.Sweep(t.Context(), coordinator.SweepCall{}))
				l.same("listed in between", l.listed(), []string{})
				met = true
			}
			l.ok(come(l, s))
			l.same("met the sweep", met, true)
			l.same("listed", l.listed(), []string{l.job})
		})
		t.Run(name+" between the steps of the sweep", func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "orders")
			s, sweeper := l.store(), l.store()
			l.deleteJob(s)
			met := false
			newTap(t, sweeper).before["srem"] = func() {
				l.ok(come(l, s))
				met = true
			}
			l.ok(sweeper.Sweep(t.Context(), coordinator.SweepCall{}))
			l.same("met the job", met, true)
			l.same("listed", l.listed(), []string{l.job})
		})
	}
}

func TestAJobThatSomebodyTookOutOfTheListComesBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{"status": "completed"})
	s := l.store()
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.do("DEL", jobsKey(l.server.Prefix))
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("listed", l.listed(), []string{l.job})

	l.do("DEL", jobsKey(l.server.Prefix), l.keys.job())
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("listed when it is gone", l.listed(), []string{})
	l.same("kept sweeps", len(s.sweeps.kept), 1)
}
