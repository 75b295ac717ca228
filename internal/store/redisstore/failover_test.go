package redisstore

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// reign is a Redis that may lose what it has confirmed, behind an address that stays. It
// remembers all that servers were told and that must not be told twice.
type reign struct {
	testing.TB

	door   *redistest.Door
	redis  *redistest.Server
	ids    map[string]bool
	epochs map[string]bool
	events map[string]coordinator.Event
}

func newReign(t testing.TB) *reign {
	t.Helper()
	redis := redistest.Start(t, redistest.Options{Own: true})
	return &reign{
		TB: t, door: redistest.OpenDoor(t, redis), redis: redis,
		ids: map[string]bool{}, epochs: map[string]bool{}, events: map[string]coordinator.Event{},
	}
}

// server is what a server process has of the store, with a memory of its own.
func (r *reign) server() *Store {
	r.Helper()
	s, err := New(Options{URL: r.door.URL, KeyPrefix: r.redis.Prefix})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = s.Close() }) // some have ended before
	return s
}

// fail lets the Redis die and a replica take its place, which has heard all but what f wrote.
func (r *reign) fail(f func()) {
	r.Helper()
	replica := redistest.Start(r, redistest.Options{Config: r.redis.ReplicaConfig()})
	r.redis.AwaitInSync(r, replica)
	r.redis.Cut(r)
	f()
	r.redis.Kill(r)
	replica.Promote(r)
	r.door.Lead(replica)
	replica.Prefix, r.redis = r.redis.Prefix, replica
}

// empty lets the Redis come back without anything.
func (r *reign) empty() {
	r.Helper()
	r.redis.Kill(r)
	r.redis.Start(r)
}

func (r *reign) trigger(s *Store, job string) int64 {
	r.Helper()
	call := aTriggerCall()
	call.Job = job
	result, err := s.Trigger(r.Context(), call)
	if err != nil {
		r.Fatalf("trigger: %v", err)
	}
	r.once(r.ids, "id", job, result.Checkpoint.ID)
	r.heed(s, job)
	return result.Checkpoint.ID
}

func (r *reign) recover(s *Store, job string) int64 {
	r.Helper()
	result, err := s.Recover(r.Context(), coordinator.RecoverCall{Job: job})
	if err != nil {
		r.Fatalf("recover: %v", err)
	}
	r.once(r.epochs, "epoch", job, result.Epoch)
	r.heed(s, job)
	return result.Epoch
}

func (r *reign) once(given map[string]bool, what, job string, n int64) {
	r.Helper()
	name := fmt.Sprint(job, " ", n)
	if given[name] {
		r.Errorf("the %s %d of job %s was given twice", what, n, job)
	}
	given[name] = true
}

// heed reads the log: an event that was told before must be the same.
func (r *reign) heed(s *Store, job string) {
	r.Helper()
	found, err := s.Events(r.Context(), coordinator.EventsCall{Job: job, After: &coordinator.EventID{}, Limit: coordinator.MaxEvents})
	if err != nil {
		r.Fatalf("events: %v", err)
	}
	for _, event := range found.Events {
		name := job + " " + event.ID.String()
		if told, before := r.events[name]; before {
			if diff := cmp.Diff(told, event, cmpopts.IgnoreUnexported(event)); diff != "" {
				r.Errorf("the event %s is another one now:\n%s", name, diff)
			}
		}
		r.events[name] = event
	}
}

// look is what every server does once a second.
func (r *reign) look(s *Store) {
	r.Helper()
	if _, err := s.Jobs(r.Context()); err != nil {
		r.Fatalf("jobs: %v", err)
	}
}

const fleet = "orders"

func TestAFailoverThatLosesTriggersGivesNoIDTwice(t *testing.T) {
	t.Parallel()
	t.Run("by servers that live on", func(t *testing.T) {
		t.Parallel()
		r := newReign(t)
		a, b := r.server(), r.server()
		for _, job := range []string{coordinator.DefaultJob, fleet} {
			r.trigger(a, job)
			r.trigger(b, job)
		}
		r.fail(func() {
			for range 5 {
				r.trigger(a, coordinator.DefaultJob)
				r.trigger(a, fleet)
			}
		})
		for _, job := range []string{coordinator.DefaultJob, fleet} {
			r.trigger(b, job) // which has not heard of the last ones
			r.trigger(a, job)
		}
	})
	t.Run("by servers that were all restarted", func(t *testing.T) {
		t.Parallel()
		r := newReign(t)
		a := r.server()
		r.trigger(a, fleet)
		var lost int64
		r.fail(func() {
			for range 5 {
				lost = r.trigger(a, fleet)
			}
		})
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		b := r.server()
		next := r.trigger(b, fleet)
		if next < lost+900 {
			t.Errorf("id %d was given after %d: nothing but chance has kept it from coming twice", next, lost)
		}
		if after := r.trigger(b, fleet); after != next+1 {
			t.Errorf("id %d was given after %d: the margin is needed once", after, next)
		}
	})
	t.Run("of a job that was lost whole, once a server that knew it has looked", func(t *testing.T) {
		t.Parallel()
		r := newReign(t)
		a := r.server()
		r.trigger(a, coordinator.DefaultJob)
		r.fail(func() { r.trigger(a, fleet) })
		r.look(a)
		b := r.server()
		if _, err := b.Job(t.Context(), fleet); coordinator.CodeOf(err) != coordinator.CodeJobNotFound {
			t.Errorf("a job of which nothing is left: %v, want that there is none", err)
		}
		r.trigger(b, fleet)
	})
	t.Run("when the former master comes back in the place of the new one", func(t *testing.T) {
		t.Parallel()
		r := newReign(t)
		a := r.server()
		r.trigger(a, fleet)
		former := r.redis
		replica := redistest.Start(t, redistest.Options{Config: former.ReplicaConfig()})
		former.AwaitInSync(t, replica)
		former.Cut(t)
		r.trigger(a, fleet)
		// It lives on, and hears what the other one has; nobody triggers meanwhile.
		replica.Promote(t)
		former.Follow(t, replica)
		replica.AwaitInSync(t, former)
		former.Promote(t)
		r.look(a)
		r.trigger(r.server(), fleet)
	})
}

func TestAnEmptiedRedisGivesNoIDTwiceWhileOneServerLives(t *testing.T) {
	t.Parallel()
	t.Run("by that server", func(t *testing.T) {
		t.Parallel()
		r := newReign(t)
		a := r.server()
		for range 3 {
			r.trigger(a, fleet)
			r.recover(a, fleet)
		}
		r.empty()
		r.trigger(a, fleet)
		r.recover(a, fleet)
	})
	t.Run("by one that knows nothing, once that server has looked", func(t *testing.T) {
		t.Parallel()
		for _, first := range []string{"trigger", "recover"} {
			t.Run(first, func(t *testing.T) {
				t.Parallel()
				r := newReign(t)
				a := r.server()
				for range 3 {
					r.trigger(a, fleet)
					r.recover(a, fleet)
				}
				r.look(a)
				r.empty()
				r.look(a)
				b := r.server()
				if first == "recover" {
					r.recover(b, fleet)
				}
				r.trigger(b, fleet)
				r.recover(b, fleet)
			})
		}
	})
}

// A worker that was told of a recovery must not be taken for one of another: the two may have
// restored different checkpoints.
func TestAFailoverThatLosesRecoveriesGivesNoEpochTwice(t *testing.T) {
	t.Parallel()
	for _, triggered := range []bool{false, true} {
		t.Run(fmt.Sprintf("a trigger before the next recovery: %v", triggered), func(t *testing.T) {
			t.Parallel()
			r := newReign(t)
			a, b := r.server(), r.server()
			r.trigger(a, fleet)
			r.fail(func() {
				r.recover(a, fleet)
				r.recover(a, fleet)
			})
			if triggered {
				r.trigger(b, fleet)
			}
			r.recover(b, fleet)
			r.recover(a, fleet)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			r.fail(func() { r.recover(b, fleet) })
			r.recover(r.server(), fleet)
		})
	}
}

func TestDeletedJobsAreNotMissed(t *testing.T) {
	t.Parallel()
	r := newReign(t)
	a := r.server()
	id := r.trigger(a, fleet)
	if _, err := a.DeleteJob(t.Context(), coordinator.DeleteJobCall{Job: fleet, Force: true, Max: 100}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.look(a)
		if err := a.Sweep(t.Context(), coordinator.SweepCall{}); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := a.jobNames(t.Context())
	if diff := cmp.Diff([]string{coordinator.DefaultJob}, listed); err != nil || diff != "" {
		t.Errorf("listed jobs (%v):\n%s", err, diff)
	}
	if missed := a.floors.missed(listed); len(missed) > 0 {
		t.Errorf("%q are looked for every second", missed)
	}
	if next := r.trigger(a, fleet); next <= id {
		t.Errorf("id %d was given after %d", next, id)
	}
}
