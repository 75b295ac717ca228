package redisstore

import (
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestRecoverScript(t *testing.T) {
	t.Parallel()
	restart := func(l *lab, key, token, fingerprint string) reply {
		name := repeatName(repeatRecover, key)
		if key == "" {
			name = repeatName(repeatCall, token)
		}
		return l.run(recoverScript, name, repeatKeyMs, token, fingerprint, 600_000, "1")
	}

	t.Run("ends everything pending, raises the epoch and leases the latest", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("HSET", l.keys.job(), "epoch", "3")
		l.record(0, values{"status": "completed"})
		l.record(1, values{"status": "completed"})
		l.record(2, values{"start": decimal(labTime - 60_001)})
		l.record(3, values{})
		l.do("ZADD", l.keys.leases(1), l.now-1, "over")
		r := l.word(restart(l, "", "t", "f"), "ok")
		l.same("epoch and repeated", r.body[:2], []any{"4", "0"})
		l.same("checkpoint", shown(r.body[2].([]any)[0]), "1")
		l.same("ended ids", r.body[3:], []any{"2", "3"})
		l.same("ended", r.ended, []coordinator.Transition{
			{Job: "orders", ID: 2, Status: coordinator.StatusExpired, Reason: coordinator.ReasonExpired, DurationMs: 60_000},
			{Job: "orders", ID: 3, Status: coordinator.StatusAborted, Reason: coordinator.ReasonSuperseded},
		})
		l.same("the job's epoch", l.field(l.keys.job(), "epoch"), "4")
		l.same("leases", l.members(l.keys.leases(1)), []string{"recover:4"})
		l.same("until", l.redis.ZScore(t.Context(), l.keys.leases(1), "recover:4").Val(), float64(l.now+600_000))
		l.unchanged(func() {
			again := l.word(restart(l, "", "t", "f"), "ok")
			l.same("the same call again", again.body, r.body)
		})
	})

	t.Run("answers one crash with one epoch and one checkpoint", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"status": "completed"})
		l.word(restart(l, "crash 1", "t1", "f"), "ok")
		l.record(1, values{"status": "completed"})
		l.record(2, values{})
		l.now += 1000
		r := l.word(restart(l, "crash 1", "t2", "f"), "ok")
		l.same("epoch and repeated", r.body[:2], []any{"1", "1"})
		l.same("checkpoint", shown(r.body[2].([]any)[0]), "0")
		l.same("ended ids", r.body[3:], []any{})
		l.same("pending", l.members(l.keys.pending()), []string{"2"})
		record := l.keys.repeat(repeatRecover, "crash 1")
		l.do("PEXPIRE", record, 1000)
		l.word(restart(l, "crash 1", "t3", "f"), "ok")
		if left := l.redis.PTTL(t.Context(), record).Val(); left < 23*time.Hour {
			t.Errorf("after a use the record of repeats lives %v more, want a day", left)
		}
		l.same("the lease starts anew", l.redis.ZScore(t.Context(), l.keys.leases(0), "recover:1").Val(), float64(l.now+600_000))
		l.unchanged(func() { l.word(restart(l, "crash 1", "t2", "other"), "idempotency_key_reused") })
		l.do("DEL", l.keys.record(0))
		l.unchanged(func() { l.word(restart(l, "crash 1", "t2", "f"), "inconsistent") })
		l.word(l.run(deleteScript, 0, "0", "0", 0), "ok")
		r = l.word(restart(l, "crash 1", "t2", "f"), "idempotency_target_deleted")
		l.same("the deleted id", r.body, []any{"0"})
		r = l.word(restart(l, "crash 2", "t3", "f"), "ok")
		l.same("epoch of the next crash", r.body[0], "2")
	})

	t.Run("passes over what is not ours among the pending ones", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		l.record(1, values{})
		l.do("SET", l.keys.record(0), "foreign")
		r := l.word(restart(l, "", "t", "f"), "ok")
		l.same("ended ids", r.body[3:], []any{"1"})
		l.same("pending", l.members(l.keys.pending()), []string{})
		l.same("deadlines", l.members(l.keys.deadlines()), []string{})
		l.same("the foreign value", l.redis.Get(t.Context(), l.keys.record(0)).Val(), "foreign")
	})

	t.Run("says that there is nothing, and stays with it", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		r := l.word(restart(l, "crash", "t1", "f"), "ok")
		l.same("reply", r.body, []any{"1", "0", []any{}})
		l.record(0, values{"status": "completed"})
		r = l.word(restart(l, "crash", "t2", "f"), "ok")
		l.same("reply", r.body, []any{"1", "1", []any{}})
	})

	t.Run("asks for a new job to be registered, and writes nothing before", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.unchanged(func() {
			l.word(l.run(recoverScript, repeatName(repeatCall, "t"), repeatKeyMs, "t", "f", 1, "0"), wordRegister)
		})
	})

	t.Run("makes a job of which no checkpoint is known", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.word(restart(l, "", "t", "f"), "ok")
		l.same("state", l.jobState(), coordinator.JobState{
			Job: "orders", Epoch: 1, LatestID: -1, ObservedAt: labTime,
			Schedule: coordinator.ScheduleState{LastID: -1}, LastEvent: coordinator.EventID{Epoch: 1, Seq: 1},
		})
	})
}

func TestJobStateScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.word(l.run(jobStateScript), "job_not_found")
	l.do("HSET", l.keys.job(), "epoch", "2")
	l.record(0, values{"status": "completed", "ended": "17"})
	l.record(1, values{"status": "completed", "ended": "5"})
	l.record(2, values{})
	l.record(3, values{"timeout": "0"})
	l.record(4, values{"start": decimal(labTime - 60_001)})
	want := coordinator.JobState{
		Job: "orders", Epoch: 2, NextID: 5, Pending: 2, LatestID: 1, LatestAt: 5,
		Schedule: coordinator.ScheduleState{LastID: -1}, ObservedAt: labTime,
	}
	l.same("state", l.jobState(), want)
	l.do("SET", l.keys.record(1), "foreign")
	want.LatestID, want.LatestAt = -1, 0
	l.same("state where nobody knows which is the latest", l.jobState(), want)
	l.do("HSET", l.keys.job(), "gone", "1")
	l.word(l.run(jobStateScript), "job_not_found")

	l = newLab(t, coordinator.DefaultJob)
	l.same("the default job of an empty Redis", l.jobState(), coordinator.JobState{
		Job: coordinator.DefaultJob, LatestID: -1, Schedule: coordinator.ScheduleState{LastID: -1}, ObservedAt: labTime,
	})
}
