package redisstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// idle makes jobs with a completed checkpoint at which nothing happens.
func (l *lab) idle(jobs int) {
	l.Helper()
	ctx := context.Background()
	_, err := l.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n := range jobs {
			job := fmt.Sprintf("idle-%04d", n)
			keys := newKeyspace(l.server.Prefix, job)
			p.SAdd(ctx, jobsKey(l.server.Prefix), job)
			p.HSet(ctx, keys.job(), "next", 8, "epoch", 0, "evlast", "0-2", "ts", labTime)
			p.HSet(ctx, keys.record(7), "v", "1", "status", "completed", "epoch", "0", "rev", "2", "ts", labTime, "start", labTime,
				"timeout", "60000", "required", "1", "acked", "0", "tasks", "", "version", "1", "entries", "0", "bytes", "0", "ended", labTime)
			for _, index := range []string{keys.index(), keys.completed(), keys.retained()} {
				p.ZAdd(ctx, index, redis.Z{Score: 7, Member: 7})
			}
		}
		return nil
	})
	l.ok(err)
}

// settle sweeps until a sweep runs no script.
func (l *lab) settle(s *Store, counter *tap) {
	l.Helper()
	for range 100 {
		counter.reset()
		l.ok(s.Sweep(l.Context(), coordinator.SweepCall{}))
		if counter.counted()["evalsha"] == 0 {
			return
		}
	}
	l.Fatal("the sweep finds no end")
}

func TestJobsAtWhichNothingHappensCostAGlance(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	const jobs = 300
	l.idle(jobs)
	s := l.store()
	counter := newTap(t, s)
	l.settle(s, counter)
	first, err := s.Jobs(t.Context())
	l.ok(err)
	l.same("jobs", len(first), jobs+1)

	counter.reset()
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	again, err := s.Jobs(t.Context())
	l.ok(err)
	l.same("states", again, first)
	l.same("commands", counter.counted(), map[string]int{"prove": 2, "smembers": 2, "hmget": 2 * (jobs + 1)})

	l.now += 5
	again, err = s.Jobs(t.Context())
	l.ok(err)
	l.same("observed at", again[0].ObservedAt, l.now)
	l.same("floor", s.floors.of("idle-0299").text(), "7|0|2")

	// What another server changes is seen, whatever it is.
	other := l.store()
	_, err = other.PutJob(t.Context(), coordinator.PutJobCall{Job: "idle-0100", Settings: coordinator.JobSettings{Description: "new"}, Defaults: labDefaults()})
	l.ok(err)
	_, err = other.Recover(t.Context(), coordinator.RecoverCall{Job: "idle-0200"})
	l.ok(err)
	l.ok(other.Delete(t.Context(), coordinator.DeleteCall{Job: "idle-0250", ID: 7}))
	counter.reset()
	again, err = s.Jobs(t.Context())
	l.ok(err)
	l.same("description", again[101].Settings.Description, "new")
	l.same("epoch", again[201].Epoch, int64(1))
	l.same("latest", again[251].LatestID, int64(-1))
	l.same("scripts", counter.counted()["evalsha"], 3)
}

func TestAnExpiryDoesNotWaitForIdleJobs(t *testing.T) {
	t.Parallel()
	l := newLab(t, "zebra")
	l.idle(1500)
	s := l.store()
	counter := newTap(t, s)
	l.settle(s, counter)
	l.record(7, values{"timeout": "100"})
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("status before the deadline", l.field(l.keys.record(7), "status"), "pending")

	l.now += 500
	counter.reset()
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("status", l.field(l.keys.record(7), "status"), "expired")
	// Some of the others have their turn, as each has within ten seconds.
	if scripts := counter.counted()["evalsha"]; scripts > 300 {
		t.Errorf("%d scripts ran for one expiry", scripts)
	}
}

func TestTheFirstSweepOfAServerBeginsWithWhatIsLate(t *testing.T) {
	t.Parallel()
	l := newLab(t, "zebra")
	l.idle(sweepJobs + 300)
	l.record(7, values{"start": decimal(labTime - 60_001)})
	s := l.store()
	counter := newTap(t, s)
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("status", l.field(l.keys.record(7), "status"), "expired")
	if scripts := counter.counted()["evalsha"]; scripts > sweepJobs+50 {
		t.Errorf("%d scripts ran at once, want about %d", scripts, sweepJobs)
	}
	l.settle(s, counter)
	l.same("swept jobs", len(s.sweeps.kept), sweepJobs+300+2)
}

func TestEveryJobIsSweptAgainNowAndThen(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.idle(40)
	s := l.store()
	counter := newTap(t, s)
	l.settle(s, counter)
	keys := newKeyspace(l.server.Prefix, "idle-0020")
	l.do("ZADD", keys.stages(), l.now, "left-behind")
	l.do("ZADD", keys.tasks("left-behind"), 0, "a")
	l.now += sweepAgainMs
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("names that nobody adopted are there", l.exists(keys.tasks("left-behind")), false)
}

func TestWhatOnlyTimeBringsIsSweptOnTime(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	for id := range int64(3) {
		l.record(id, values{"status": "completed", "ended": decimal(labTime + id)})
	}
	l.do("ZADD", l.keys.leases(1), labTime+50, "lease")
	s := l.store()
	sweep := func() {
		l.Helper()
		l.ok(s.Sweep(t.Context(), coordinator.SweepCall{Retention: coordinator.Retention{MaxAgeMs: 10}}))
	}
	sweep()
	l.same("before any is too old", l.members(l.keys.completed()), []string{"0", "1", "2"})
	l.now += 11
	sweep()
	l.same("when the first is too old", l.members(l.keys.completed()), []string{"1", "2"})
	l.now++
	sweep()
	l.same("while the second is leased", l.members(l.keys.completed()), []string{"1", "2"})
	l.do("DEL", l.keys.leases(1))
	sweep()
	l.same("when it was given back", l.members(l.keys.completed()), []string{"2"})
}

func TestAnUnpinnedCheckpointIsSwept(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	for id := range int64(3) {
		l.record(id, values{"status": "completed"})
	}
	s, other := l.store(), l.store()
	update := func(id int64, pinned bool) {
		l.Helper()
		_, err := other.Update(t.Context(), coordinator.UpdateCall{Job: l.job, ID: id, Pinned: &pinned})
		l.ok(err)
	}
	sweep := func() {
		l.Helper()
		l.ok(s.Sweep(t.Context(), coordinator.SweepCall{Retention: coordinator.Retention{Keep: 2}}))
	}
	update(0, true)
	sweep()
	l.same("with one pinned", l.members(l.keys.completed()), []string{"0", "1", "2"})
	update(0, false)
	sweep()
	l.same("with none pinned", l.members(l.keys.completed()), []string{"1", "2"})
}
