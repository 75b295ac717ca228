package redisstore

import (
	"fmt"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// putSettings runs put_job.lua with settings as Go hands them over.
func (l *lab) putSettings(token string, registered bool, settings coordinator.JobSettings, condition coordinator.Precondition) reply {
	l.Helper()
	call := coordinator.PutJobCall{Job: l.job, Settings: settings, If: condition, Defaults: labDefaults(), Jitter: 0.25}
	return l.run(putJobScript, putJobArgs(call, token, registered, len(settings.Tasks) > namesStep)...)
}

func TestPutJobScript(t *testing.T) {
	t.Parallel()
	anyway := coordinator.Precondition{}

	t.Run("asks for a new job to be registered, and writes nothing before", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.unchanged(func() { l.word(l.putSettings("one", false, coordinator.JobSettings{}, anyway), wordRegister) })
		l.word(l.putSettings("one", true, coordinator.JobSettings{}, anyway), "ok")
		l.same("next id and epoch, by which it exists", []string{l.field(l.keys.job(), "next"), l.field(l.keys.job(), "epoch")}, []string{"0", "0"})
		l.word(l.putSettings("two", false, coordinator.JobSettings{}, anyway), "ok")
		l = newLab(t, coordinator.DefaultJob)
		l.word(l.putSettings("one", false, coordinator.JobSettings{}, anyway), "ok")
	})

	t.Run("keeps no field of the settings before", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.word(l.putSettings("one", true, coordinator.JobSettings{
			RequiredTaskAcks: new(2), Tasks: []string{"b", "a"}, TimeoutMs: new(int64(1)), IntervalMs: new(int64(2000)), MinPauseMs: new(int64(3)),
			MaxConcurrent: new(4), TolerableFailures: new(5), StaleAfterMs: new(int64(6)), Keep: new(7), MaxAgeMs: new(int64(8)),
			MaxBytes: new(int64(coordinator.MaxID)), Paused: true, Description: "d",
		}, anyway), "ok")
		l.same("the names, in their order", l.members(l.keys.tasks("one")), []string{"b", "a"})
		l.same("bytes", l.field(l.keys.job(), "s_bytes"), "9007199254740991")
		l.word(l.putSettings("two", true, coordinator.JobSettings{}, anyway), "ok")
		job := l.redis.HGetAll(t.Context(), l.keys.job()).Val()
		delete(job, "evrun") // of the server
		l.same("the job", job, map[string]string{
			"evlast": "0-2", "next": "0", "epoch": "0", "configured": "1", "srev": "2", "d_tolerate": "0", "d_events": "10000", "due": decimal(labTime + 251),
		})
		l.same("the names are there", l.exists(l.keys.tasks("one")), false)
	})

	t.Run("finds its answer again, whatever was put in between", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		once := coordinator.Precondition{IfNoneMatch: true}
		first := l.word(l.putSettings("one", true, coordinator.JobSettings{Keep: new(1)}, once), "ok")
		l.word(l.putSettings("two", true, coordinator.JobSettings{Keep: new(2)}, anyway), "ok")
		l.unchanged(func() {
			again := l.word(l.putSettings("one", true, coordinator.JobSettings{Keep: new(1)}, once), "ok")
			l.same("the answer", again.body, first.body)
		})
	})

	t.Run("adopts staged names once all of them are there, and drops them where it refuses", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		settings := coordinator.JobSettings{}
		for i := range namesStep + 2 {
			settings.Tasks = append(settings.Tasks, fmt.Sprint("task-", i))
		}
		stage := func(token string, names []string, place int) {
			l.Helper()
			l.word(l.run(stageNamesScript, appendNames([]any{token, stageLeaseMs, place}, names)...), "ok")
		}
		stage("one", settings.Tasks[:namesStep], 0)
		l.word(l.putSettings("one", true, settings, anyway), wordRestage)
		stage("one", settings.Tasks[namesStep:], namesStep)
		l.word(l.putSettings("one", true, settings, anyway), "ok")
		l.same("the names, in their order", l.members(l.keys.tasks("one")), settings.Tasks)
		l.same("stages", l.members(l.keys.stages()), []string{})
		l.same("a list of missing ones is there", l.exists(l.keys.missing("one")), false)
		stage("two", settings.Tasks[:namesStep], 0)
		l.word(l.putSettings("two", true, settings, coordinator.Precondition{IfNoneMatch: true}), "precondition_failed")
		l.same("refused names are there", l.exists(l.keys.tasks("two")) || l.exists(l.keys.stages()), false)
	})
}

func TestDeleteJobScript(t *testing.T) {
	t.Parallel()
	remove := func(l *lab, token string, force bool, most int) reply {
		l.Helper()
		return l.run(deleteJobScript, token, flag(force), most, "0", 0)
	}

	t.Run("goes in steps, oldest first, and keeps what must not be given twice", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.word(remove(l, "none", true, 10), "job_not_found")
		l.word(l.putSettings("settings", true, coordinator.JobSettings{Tasks: []string{"a"}, MaxBytes: new(int64(9))}, coordinator.Precondition{}), "ok")
		l.record(0, values{"status": "completed"})
		l.record(1, values{"pinned": "1"})
		l.do("SADD", l.keys.pinned(), 1)
		l.record(2, values{"start": decimal(labTime - 60_001)})
		l.do("ZADD", l.keys.index(), 3, 3)
		l.do("HSET", l.keys.attempts(), "a", 3)
		l.do("LPUSH", l.keys.restores(), "0|1|2|1|me")
		l.do("LPUSH", l.keys.samples(), "0|1|2|3|4|5|a")
		l.do("HSET", l.keys.job(), "rbytes", 0, "okid", 0, "okat", 5, "fails", 2, "failing", 1, "f_id", 2, "due", 7, "runid", "r", "clock", labTime, "ts", labTime)

		l.same("pinned", l.word(remove(l, "one", false, 10), "pinned").body, []any{"1"})
		l.do("SREM", l.keys.pinned(), 1)
		r := l.word(remove(l, "one", false, 10), "checkpoint_not_completed")
		l.same("pending", r.body, []any{"1"})
		l.same("expired before it counts", l.field(l.keys.record(2), "status"), "expired")

		r = l.word(remove(l, "one", true, 2), "ok")
		l.same("first step", r.body, []any{"1", []any{"0", "1"}})
		l.unchanged(func() {
			again := l.word(remove(l, "one", true, 2), "ok")
			l.same("the same step again", again.body, r.body)
			l.same("what it reports as ended before", len(again.before), 1)
		})
		l.same("it is there", l.jobState().Configured, true)
		r = l.word(remove(l, "two", true, 2), "ok")
		l.same("second step", r.body, []any{"0", []any{"2", "3"}})
		l.word(l.run(jobStateScript), "job_not_found")
		l.same("the job", l.redis.HGetAll(t.Context(), l.keys.job()).Val(), map[string]string{
			"next": "3", "epoch": "0", "srev": "2", "gone": "1", "okid": "0", "runid": "r", "clock": decimal(labTime), "ts": decimal(labTime),
			"d_tolerate": "0", "d_events": "10000", "evlast": l.field(l.keys.job(), "evlast"), "evrun": l.field(l.keys.job(), "evrun"),
		})
		left := []string{}
		for key := range l.everything() {
			if key != l.keys.answer("one") && key != l.keys.answer("two") && key != l.keys.answer("settings") {
				left = append(left, key)
			}
		}
		l.same("keys", len(left), 3)
		l.same("the log and the attempts", []bool{l.exists(l.keys.events()), l.exists(l.keys.attempts())}, []bool{true, true})
		for _, again := range []func() reply{
			func() reply { return l.word(l.run(triggerScript, aTrigger("t").list()...), "ok") },
			func() reply {
				return l.word(l.run(recoverScript, repeatName(repeatCall, "r"), repeatKeyMs, "r", "f", 0, "1"), "ok")
			},
			func() reply {
				return l.word(l.putSettings("again", true, coordinator.JobSettings{}, coordinator.Precondition{}), "ok")
			},
		} {
			l.do("HSET", l.keys.job(), "gone", "1")
			again()
			l.same("gone", l.field(l.keys.job(), "gone"), "")
		}
		l.same("revision", l.jobState().Revision, int64(3))
	})
}

func TestForgetTaskScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.word(l.run(forgetTaskScript, "a", "one"), "job_not_found")
	l.record(0, values{})
	l.do("HSET", l.keys.attempts(), "a", 3, "b", 1)
	l.word(l.run(forgetTaskScript, "a", "one"), "ok")
	l.same("attempts", l.redis.HGetAll(t.Context(), l.keys.attempts()).Val(), map[string]string{"b": "1"})
	l.do("HSET", l.keys.attempts(), "a", 1)
	l.unchanged(func() { l.word(l.run(forgetTaskScript, "a", "one"), "ok") })
}
