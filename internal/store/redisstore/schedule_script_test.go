package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// tick runs trigger_due.lua with an interval of a second.
func (l *lab) tick(token string, change func(*coordinator.Settings)) (made []any, state []any) {
	l.Helper()
	defaults := labDefaults()
	if change != nil {
		change(&defaults)
	}
	r := l.word(l.run(triggerDueScript, appendDefaults([]any{token, -1, "0.25"}, defaults)...), "ok")
	return r.body[0].([]any), r.body[1].([]any)
}

func TestTriggerDueScript(t *testing.T) {
	t.Parallel()

	t.Run("knows no job that nobody made, but the default one", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.unchanged(func() {
			l.word(l.run(triggerDueScript, appendDefaults([]any{"one", -1, "0.25"}, labDefaults())...), "job_not_found")
		})
		l = newLab(t, coordinator.DefaultJob)
		made, state := l.tick("one", nil)
		l.same("made", len(made), 0)
		l.same("due", state[0], decimal(labTime+251))
		l.now += 251
		made, state = l.tick("one", nil)
		l.same("made by the same call when it is due", len(made), 0)
		l.same("due as the same call hears", state[0], decimal(labTime+251))
	})

	t.Run("writes nothing before it is due", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("HSET", l.keys.job(), "next", 0, "due", labTime+1)
		l.unchanged(func() { l.tick("one", nil) })
	})

	t.Run("forgets the due time of what has no schedule, once", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		off := func(s *coordinator.Settings) { s.IntervalMs = 0 }
		l.do("HSET", l.keys.job(), "next", 0, "due", labTime)
		_, state := l.tick("one", off)
		l.same("due", state[0], "0")
		l.same("stored", l.field(l.keys.job(), "due"), "")
		l.unchanged(func() { l.tick("two", off) })
	})

	t.Run("makes one checkpoint for all who ask, and keeps its answer for the one who asked first", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("HSET", l.keys.job(), "next", 7, "due", labTime-400, "s_timeout", 0, "d_events", 5)
		made, state := l.tick("one", nil)
		l.same("made", shown(made[0]), "7")
		l.same("state", state, []any{decimal(labTime + 600), "triggered", decimal(labTime), "7", "1", "0", "0"})
		l.same("what the server said last", l.field(l.keys.job(), "d_events"), "10000")
		l.same("counted", l.field(l.keys.stats(), "triggered"), "1")
		l.same("the log", l.log(), []string{"0-1 checkpoint.triggered"})
		l.unchanged(func() {
			made, again := l.tick("one", nil)
			l.same("made by the same call", shown(made[0]), "7")
			l.same("state of the same call", again, state)
			made, again = l.tick("two", nil)
			l.same("made by another call", len(made), 0)
			l.same("state of another call", again, state)
		})
	})

	t.Run("tells of an expiry before the checkpoint that took its place", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"start": decimal(labTime - 60_001)})
		l.do("HSET", l.keys.job(), "due", labTime, "s_pending", 1, "s_tolerate", 1)
		made, _ := l.tick("one", nil)
		l.same("made", shown(made[0]), "1")
		l.same("the log", l.log(), []string{"0-1 checkpoint.expired", "0-2 checkpoint.triggered"})
	})

	t.Run("makes nothing where the tasks of the settings are gone", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("HSET", l.keys.job(), "next", 0, "due", labTime, "s_named", 2, "s_names", "settings")
		l.do("ZADD", l.keys.tasks("settings"), 0, "a")
		l.unchanged(func() {
			l.word(l.run(triggerDueScript, appendDefaults([]any{"one", -1, "0.25"}, labDefaults())...), wordUnlisted)
			args := aTrigger("two")
			args.required = -1
			l.word(l.run(triggerScript, args.list()...), wordUnlisted)
		})
		l.do("ZADD", l.keys.tasks("settings"), 1, "b")
		l.tick("three", nil)
		l.same("named", l.members(l.keys.tasks("three")), []string{"a", "b"})
		l.same("missing", l.redis.ZScore(t.Context(), l.keys.missing("three"), "b").Val(), 0.0)
	})
}

func TestTriggerScriptResolvesWhatItsCallerLeftOpen(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	made := func(token string, change func(*triggerArgs)) string {
		t.Helper()
		args := aTrigger(token)
		args.required, args.timeout = -1, ""
		if change != nil {
			change(&args)
		}
		key := l.keys.base + shown(l.word(l.run(triggerScript, args.list()...), "ok").body[0])
		return l.field(key, "required") + " " + l.field(key, "timeout") + " " + l.field(key, "tasks")
	}
	l.same("by the server", made("one", nil), "3 7000 ")
	l.do("HSET", l.keys.job(), "s_required", 5, "s_timeout", 0)
	l.same("by the job", made("two", nil), "5 0 ")
	l.do("HSET", l.keys.job(), "s_named", 2, "s_names", "settings")
	l.do("ZADD", l.keys.tasks("settings"), 0, "b", 1, "a")
	l.same("by the job's tasks", made("three", nil), "2 0 three")
	l.same("missing, in byte order", l.members(l.keys.missing("three")), []string{"a", "b"})
	l.same("by the equal number", made("four", func(a *triggerArgs) { a.required = 2 }), "2 0 four")
	args := aTrigger("six")
	args.required = 9
	l.same("how many tasks are named", l.word(l.run(triggerScript, args.list()...), "tasks_named").body, []any{"2"})
	l.same("by its own tasks", made("five", func(a *triggerArgs) { a.names, a.timeout = []string{"x"}, "1" }), "1 1 five")
}

func TestTriggerScriptInThePause(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(0, values{"start": decimal(labTime - 60_001)})
	l.do("HSET", l.keys.job(), "okat", labTime-100)
	args := aTrigger("one")
	args.defaults.MinPauseMs, args.defaults.MaxConcurrent, args.count = 1000, 0, 2
	l.word(l.run(stageNamesScript, "one", 60_000, "", "a", "b"), "ok")
	r := l.word(l.run(triggerScript, args.list()...), "min_pause")
	l.same("how long", r.body, []any{"900", "0"})
	l.same("the expiry of another is written", l.field(l.keys.record(0), "status"), "expired")
	l.same("staged names are there", l.exists(l.keys.tasks("one")), false)
	args.forced = true
	l.word(l.run(triggerScript, args.list()...), "too_many_pending")
	args.defaults.MaxConcurrent, args.count = 16, 0
	l.word(l.run(triggerScript, args.list()...), "ok")
	args.token, args.forced = "two", false
	l.now += 900
	l.word(l.run(triggerScript, args.list()...), "ok")
}
