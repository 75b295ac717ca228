package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// triggerArgs are the arguments of trigger.lua from ARGV[2] on.
type triggerArgs struct {
	key, token, fingerprint string
	floor                   int
	registered              bool
	// required is as the test wants it, 0 is one for each name; < 0 leaves it open. The timeout is left
	// open by "".
	required       int
	timeout        string
	forced, pinned bool
	defaults       coordinator.Settings
	// count overrides the number of names, as when they are staged.
	count int
	names []string
}

func (a triggerArgs) list() []any {
	name := repeatName(repeatTrigger, a.key)
	if a.key == "" {
		name = repeatName(repeatCall, a.token)
	}
	count := len(a.names)
	if a.count > 0 {
		count = a.count
	}
	required := a.required
	if required == 0 {
		required = max(1, count)
	}
	args := []any{
		name, repeatKeyMs, a.token, a.fingerprint, a.floor, flag(a.registered), max(0, required), a.timeout, flag(a.forced), `{"a":"b"}`, "why", flag(a.pinned),
	}
	args = append(appendDefaults(args, a.defaults), "", count)
	return appendNames(args, a.names)
}

// aTrigger has what a test does not care about.
func aTrigger(token string) triggerArgs {
	return triggerArgs{
		token: token, fingerprint: "f", floor: -1, registered: true, timeout: "1000",
		defaults: coordinator.Settings{RequiredTaskAcks: 3, TimeoutMs: 7000, MaxConcurrent: 16, EventsToKeep: 100},
	}
}

func TestTriggerScript(t *testing.T) {
	t.Parallel()

	t.Run("writes a record and its index entries, ids from 0", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		args := aTrigger("one")
		args.pinned, args.names = true, []string{"b", "a"}
		r := l.word(l.run(triggerScript, args.list()...), "ok")
		l.same("repeated", r.body[1], "0")
		cp, err := parseCheckpoint("orders", r.now, r.body[0])
		if err != nil {
			t.Fatal(err)
		}
		l.same("the checkpoint", cp, coordinator.Checkpoint{
			Job: "orders", ID: 0, Status: coordinator.StatusPending, Revision: 1, Timestamp: labTime, Start: labTime, TimeoutMs: 1000,
			RequiredTaskAcks: 2, NamedTasks: true, MissingTasks: []string{"a", "b"}, Pinned: true,
			Labels: map[string]string{"a": "b"}, Description: "why", SnapshotVersion: 1, ObservedAt: labTime,
		})
		for _, index := range []string{l.keys.index(), l.keys.pending(), l.keys.deadlines()} {
			l.same(index, l.members(index), []string{"0"})
		}
		l.same("its deadline", l.redis.ZScore(t.Context(), l.keys.deadlines(), "0").Val(), float64(labTime+1000))
		l.same("pinned", l.redis.SMembers(t.Context(), l.keys.pinned()).Val(), []string{"0"})
		l.same("named tasks", l.members(l.keys.tasks("one")), []string{"a", "b"})
		l.same("the next id", l.field(l.keys.job(), "next"), "1")
	})

	t.Run("asks for a new job to be registered, and writes nothing before", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		args := aTrigger("one")
		args.registered = false
		l.unchanged(func() { l.word(l.run(triggerScript, args.list()...), wordRegister) })
		l.record(0, values{"status": "completed"})
		l.word(l.run(triggerScript, args.list()...), "ok")
		l = newLab(t, coordinator.DefaultJob)
		l.word(l.run(triggerScript, args.list()...), "ok")
	})

	t.Run("skips an id with a key that is not ours, of whatever type", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("SET", l.keys.record(0), `{"checkpointId":0}`)
		l.do("LPUSH", l.keys.parts(1), "x")
		l.do("HSET", l.keys.record(2), "status", "pending")
		r := l.word(l.run(triggerScript, aTrigger("one").list()...), "ok")
		l.same("id", shown(r.body[0]), "3")
		l.same("the foreign value", l.redis.Get(t.Context(), l.keys.record(0)).Val(), `{"checkpointId":0}`)
	})

	t.Run("looks at a thousand taken ids in one step and goes on in the next", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		for id := range int64(1001) {
			l.do("SET", l.keys.record(id), "x")
		}
		l.word(l.run(triggerScript, aTrigger("one").list()...), wordAgain)
		l.same("next", l.field(l.keys.job(), "next"), "1000")
		r := l.word(l.run(triggerScript, aTrigger("one").list()...), "ok")
		l.same("id", shown(r.body[0]), "1001")
	})

	t.Run("keeps ids as whole numbers up to the last, and gives none beyond", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("HSET", l.keys.job(), "next", int64(coordinator.MaxID))
		r := l.word(l.run(triggerScript, aTrigger("one").list()...), "ok")
		l.same("id", shown(r.body[0]), "9007199254740991")
		l.unchanged(func() { l.word(l.run(triggerScript, aTrigger("two").list()...), wordExhausted) })
	})

	t.Run("refuses beyond the cap and tells the time until the first deadline", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		args := aTrigger("one")
		args.defaults.MaxConcurrent = 1
		l.word(l.run(triggerScript, args.list()...), "ok")
		l.now += 400
		args.token = "two"
		r := l.word(l.run(triggerScript, args.list()...), "too_many_pending")
		l.same("arguments", r.body, []any{"1", "1", "600"})
	})

	t.Run("writes the expiry of overdue ones also where it refuses", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"start": decimal(labTime - 60_001)})
		l.record(1, values{})
		args := aTrigger("one")
		args.defaults.MaxConcurrent = 1
		r := l.word(l.run(triggerScript, args.list()...), "too_many_pending")
		l.same("ended", len(r.ended), 1)
		l.same("status", l.field(l.keys.record(0), "status"), "expired")
	})

	t.Run("does not count an overdue one, and writes its expiry", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		args := aTrigger("one")
		args.defaults.MaxConcurrent = 1
		l.word(l.run(triggerScript, args.list()...), "ok")
		l.now += 1000
		args.token = "two"
		l.word(l.run(triggerScript, args.list()...), "too_many_pending")
		l.now++
		r := l.word(l.run(triggerScript, args.list()...), "ok")
		l.same("ended", r.ended, []coordinator.Transition{
			{Job: "orders", ID: 0, Status: coordinator.StatusExpired, Reason: coordinator.ReasonExpired, DurationMs: 1000},
		})
		l.same("status", l.field(l.keys.record(0), "status"), "expired")
		l.same("ended at", l.field(l.keys.record(0), "ended"), decimal(labTime+1000))
	})

	t.Run("shows timestamps that never go back, and counts the deadline from the raw clock", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.word(l.run(triggerScript, aTrigger("one").list()...), "ok")
		l.now -= 500
		r := l.word(l.run(triggerScript, aTrigger("two").list()...), "ok")
		l.same("id", shown(r.body[0]), "1")
		l.same("timestamp", l.field(l.keys.record(1), "ts"), decimal(labTime))
		l.same("start", l.field(l.keys.record(1), "start"), decimal(labTime-500))
		l.same("the start of the earlier one, rebased", l.field(l.keys.record(0), "start"), decimal(labTime-500))
		l.same("its deadline", l.redis.ZScore(t.Context(), l.keys.deadlines(), "0").Val(), float64(labTime+500))
	})
}

func TestTriggerScriptRepeated(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	args := aTrigger("one")
	args.key, args.defaults.MaxConcurrent = "my key", 1
	l.word(l.run(triggerScript, args.list()...), "ok")
	record := l.keys.repeat(repeatTrigger, "my key")
	l.same("the record of repeats", l.redis.Get(t.Context(), record).Val(), "0|0|one||f")

	l.unchanged(func() {
		r := l.word(l.run(triggerScript, args.list()...), "ok")
		l.same("the same call again", []any{shown(r.body[0]), r.body[1]}, []any{"0", "0"})
		args.token = "two"
		r = l.word(l.run(triggerScript, args.list()...), "ok")
		l.same("another call, before the cap is looked at", []any{shown(r.body[0]), r.body[1]}, []any{"0", "1"})
		args.fingerprint = "other"
		l.word(l.run(triggerScript, args.list()...), "idempotency_key_reused")
	})
	args.fingerprint = "f"
	l.do("PEXPIRE", record, 1000)
	l.word(l.run(triggerScript, args.list()...), "ok")
	if left := l.redis.PTTL(t.Context(), record).Val(); left < 23*time.Hour {
		t.Errorf("after a use the record of repeats lives %v more, want a day", left)
	}
	l.do("DEL", l.keys.record(0))
	l.word(l.run(triggerScript, args.list()...), "inconsistent")
	l.word(l.run(deleteScript, 0, "0", "0", 0), "ok")
	r := l.word(l.run(triggerScript, args.list()...), "idempotency_target_deleted")
	l.same("the deleted id", r.body, []any{"0"})
}

func TestTriggerScriptWithStagedNames(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	args := aTrigger("one")
	args.count = 3
	l.word(l.run(triggerScript, args.list()...), wordRestage)
	l.word(l.run(stageNamesScript, "one", 60_000, "", "c", "a"), "ok")
	l.word(l.run(triggerScript, args.list()...), wordRestage)
	l.word(l.run(stageNamesScript, "one", 60_000, "", "b"), "ok")
	l.same("the lease", l.redis.ZScore(t.Context(), l.keys.stages(), "one").Val(), float64(labTime+60_000))
	l.word(l.run(triggerScript, args.list()...), "ok")
	l.same("adopted", l.field(l.keys.record(0), "tasks"), "one")
	l.same("stages", l.members(l.keys.stages()), []string{})
	l.same("missing", l.members(l.keys.missing("one")), []string{"a", "b", "c"})

	// The same call again must keep what its record names; a refused one leaves nothing.
	l.word(l.run(triggerScript, args.list()...), "ok")
	l.same("missing", l.members(l.keys.missing("one")), []string{"a", "b", "c"})
	args.token, args.defaults.MaxConcurrent = "two", 1
	l.word(l.run(stageNamesScript, "two", 60_000, "", "a", "b", "c"), "ok")
	l.word(l.run(triggerScript, args.list()...), "too_many_pending")
	gone := func(what, token string) {
		t.Helper()
		if l.exists(l.keys.tasks(token)) || l.exists(l.keys.missing(token)) || l.exists(l.keys.stages()) {
			t.Errorf("%s left its staged names behind", what)
		}
	}
	gone("a refused trigger", "two")
	args.key, args.token, args.defaults.MaxConcurrent = "key", "three", 16
	l.word(l.run(stageNamesScript, "three", 60_000, "", "a", "b", "c"), "ok")
	l.word(l.run(triggerScript, args.list()...), "ok")
	args.token = "four"
	l.word(l.run(stageNamesScript, "four", 60_000, "", "a", "b", "c"), "ok")
	r := l.word(l.run(triggerScript, args.list()...), "ok")
	l.same("repeated", r.body[1], "1")
	gone("a repeated trigger", "four")
}

func TestTriggerScriptAfterLostData(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		next, runID string
		floor       int
		want        string
	}{
		{"the server that gave the last id goes on", "5", "same", 4, "5"},
		{"another server jumps ahead", "5", "0123456789abcdef", 4, "1005"},
		{"another server jumps ahead of what callers have seen", "5", "0123456789abcdef", 9, "1010"},
		{"a caller that has seen more than an emptied server jumps ahead", "", "", 41, "1042"},
		{"a caller that has seen more goes on above it on the same server", "5", "same", 9, "10"},
		{"the first id of all is 0", "", "", -1, "0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "orders")
			runID := test.runID
			if runID == "same" {
				runID = l.redis.InfoMap(context.Background(), "server").Item("Server", "run_id")
			}
			if test.next != "" {
				l.do("HSET", l.keys.job(), "next", test.next, "runid", runID)
			}
			args := aTrigger("one")
			args.floor = test.floor
			r := l.word(l.run(triggerScript, args.list()...), "ok")
			l.same("id", shown(r.body[0]), test.want)
			r = l.word(l.run(triggerScript, aTrigger("two").list()...), "ok")
			l.same("the id after it", shown(r.body[0]), fmt.Sprint(labNumber(test.want)+1))
		})
	}
}
