package redisstore

import (
	"testing"
)

// What several scripts share is tested through whichever shows it best.

func TestTheIndexOfDeadlinesMendsItself(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(0, values{})
	l.record(1, values{"timeout": "0"})
	l.record(2, values{"status": "completed"})
	l.record(3, values{})
	l.do("SET", l.keys.record(3), "foreign")
	for id := range 4 {
		l.do("ZADD", l.keys.deadlines(), 1, id)
	}
	l.do("ZADD", l.keys.pending(), 2, 2)
	r := l.word(l.run(sweepScript, "0|0|0", 100), "ok")
	l.same("ended", len(r.ended), 0)
	l.same("deadlines", l.members(l.keys.deadlines()), []string{"0"})
	l.same("the deadline", l.redis.ZScore(t.Context(), l.keys.deadlines(), "0").Val(), float64(labTime+60_000))
	l.same("pending", l.members(l.keys.pending()), []string{"0", "1"})
}

func TestAStepBackOfTheClockRebasesEverythingPendingOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.word(l.run(triggerScript, aTrigger("one").list()...), "ok")
	l.record(1, values{"timeout": "0"})
	l.record(2, values{"start": decimal(labTime - 7000)})
	l.now -= 5000
	l.word(l.run(sweepScript, "0|0|0", 100), "ok")
	for id, start := range []int64{labTime - 5000, labTime - 5000, labTime - 7000} {
		l.same("start", l.field(l.keys.record(int64(id)), "start"), decimal(start))
	}
	l.same("deadlines", l.members(l.keys.deadlines()), []string{"0", "2"})
	l.same("the job's clock", l.field(l.keys.job(), "clock"), decimal(l.now))
}

func TestRetentionLeavesWhatCompletedAndHasNoRecordAndTrimmingRemovesWhatDidNotComplete(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	for id := range int64(3) {
		l.record(id, values{"status": "completed"})
	}
	for id := int64(3); id < 24; id++ {
		l.record(id, values{"status": "aborted"})
	}
	l.do("SET", l.keys.record(0), "foreign")
	l.do("SET", l.keys.record(3), "foreign")
	l.record(24, values{})
	l.word(l.run(abortScript, 24, "", "0", "", "", "t"), "ok")
	r := l.word(l.run(sweepScript, "1|0|0", 100), "ok")
	l.same("evicted", r.evicted, []int64{1})
	l.same("completed", l.members(l.keys.completed()), []string{"0", "2"})
	l.same("retained", l.members(l.keys.retained()), []string{"2"})
	l.same("index", len(l.members(l.keys.index())), 22)
	for _, id := range []int64{0, 3} {
		l.same("the foreign value", l.redis.Get(t.Context(), l.keys.record(id)).Val(), "foreign")
	}
}

func TestTheLatestIsFoundBehindAnyNumberOfDamagedOnes(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	for id := range int64(250) {
		l.record(id, values{"status": "completed", "damage": "the shared state"})
	}
	l.do("HDEL", l.keys.record(0), "damage")
	l.same("latest", l.jobState().LatestID, int64(0))
}

func TestAViewNamesMissingTasksUntilTheCheckpointIsCompleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	for id, status := range []string{"pending", "aborted", "completed"} {
		l.record(int64(id), values{"status": status, "tasks": status})
		l.names(status, "b", "a")
		view := l.word(l.run(updateScript, id, "0", "", "0", "", "", "0", 0), "ok").body[0].([]any)
		want := []any{"a", "b"}
		if status == "completed" {
			want = []any{}
		}
		l.same("missing while "+status, view[1], want)
	}
}
