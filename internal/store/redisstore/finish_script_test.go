package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Every script that changes one checkpoint finds it in the same way, and writes its
// expiry before it refuses.
func TestScriptsThatChangeOneCheckpoint(t *testing.T) {
	t.Parallel()
	// call runs one of them with what else it needs.
	type call func(l *lab, id string) reply
	for verb, run := range map[string]call{
		"complete": func(l *lab, id string) reply { return l.run(completeScript, id, "1", "5|0|0", "t") },
		"abort":    func(l *lab, id string) reply { return l.run(abortScript, id, "", "0", "", "", "t") },
		"extend":   func(l *lab, id string) reply { return l.run(extendScript, id, 1000) },
		"update":   func(l *lab, id string) reply { return l.run(updateScript, id, "0", "", "1", "new", "", "0", 0) },
		"delete":   func(l *lab, id string) reply { return l.run(deleteScript, id, "0", "0", 0) },
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "orders")
			l.word(run(l, "0"), "job_not_found")
			l.record(3, values{})
			l.word(run(l, "2"), "checkpoint_deleted")
			l.word(run(l, "4"), "checkpoint_not_found")
			l.do("HSET", l.keys.record(2), "status", "pending")
			l.unchanged(func() { l.word(run(l, "2"), "checkpoint_deleted") })

			l.now += 60_001
			r := run(l, "3")
			l.same("ended", r.ended, []coordinator.Transition{
				{Job: "orders", ID: 3, Status: coordinator.StatusExpired, Reason: coordinator.ReasonExpired, DurationMs: 60_000},
			})
			switch verb {
			case "update":
				l.word(r, "ok")
				l.same("description of an expired one", l.field(l.keys.record(3), "desc"), "new")
			case "delete":
				l.word(r, "ok")
				l.same("index", l.members(l.keys.index()), []string{})
			default:
				l.word(r, "checkpoint_expired")
				l.same("status", l.field(l.keys.record(3), "status"), "expired")
			}
		})
	}
}

func TestCompleteScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(0, values{"tasks": "names"})
	l.names("names", "c", "a", "b")
	l.ack(0, "a", "0", storedPart{})
	l.do("ZREM", l.keys.missing("names"), "a")
	l.upload(0, "b", piece("u", 1))
	l.unchanged(func() {
		r := l.word(l.run(completeScript, 0, "0", "5|0|0", "t"), "acks_missing")
		l.same("how many, and which", r.body, []any{"2", "b", "c"})
	})
	l.now += 9
	r := l.word(l.run(completeScript, 0, "1", "5|0|0", "t"), "ok")
	l.same("ended", r.ended, []coordinator.Transition{{Job: "orders", ID: 0, Status: coordinator.StatusCompleted, DurationMs: 9, AcknowledgedTasks: 1}})
	l.same("completed", l.members(l.keys.completed()), []string{"0"})
	l.same("retained", l.members(l.keys.retained()), []string{"0"})
	l.same("pending", l.members(l.keys.pending()), []string{})
	l.same("garbage", l.members(l.keys.garbage()), []string{"staged:0"})
	l.unchanged(func() {
		r := l.word(l.run(completeScript, 0, "0", "5|0|0", "t"), "ok")
		l.same("what the first run of the same call ended", len(r.before), 1)
		r = l.word(l.run(completeScript, 0, "0", "5|0|0", "another"), "ok")
		l.same("what another call ended", len(r.before)+len(r.ended), 0)
	})

	l = newLab(t, "orders")
	l.record(0, values{"status": "aborted"})
	l.word(l.run(completeScript, 0, "1", "5|0|0", "t"), "checkpoint_aborted")

	// Completed behind newer ones, it is the first to go, and is shown all the same.
	l.record(1, values{})
	l.record(2, values{"status": "completed"})
	r = l.word(l.run(completeScript, 1, "1", "1|0|0", "t"), "ok")
	l.same("id", shown(r.body[0]), "1")
	l.same("evicted", r.evicted, []int64{1})

	l.record(3, values{"pinned": "1"})
	l.word(l.run(completeScript, 3, "1", "1|0|0", "t"), "ok")
	l.same("retained, which a pinned one is not", l.members(l.keys.retained()), []string{"2"})
}

func TestAbortScript(t *testing.T) {
	t.Parallel()
	abort := func(l *lab, id int, task, attempt, epoch, token string) reply {
		return l.run(abortScript, id, task, attempt, epoch, "no disk", token)
	}

	t.Run("ends a pending one and hands what it held to the sweep", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"tasks": "names"})
		l.names("names", "a", "b")
		l.do("HSET", l.keys.state(0), "k", "1")
		l.upload(0, "a", piece("u", 1))
		l.now += 5
		r := l.word(abort(l, 0, "a", "2", "0", "t"), "ok")
		cp, err := parseCheckpoint("orders", r.now, r.body[0])
		if err != nil {
			t.Fatal(err)
		}
		l.same("failure", cp.Failure, &coordinator.Failure{Reason: coordinator.ReasonDeclined, TaskID: "a", Message: "no disk"})
		l.same("ended", r.ended, []coordinator.Transition{{Job: "orders", ID: 0, Status: coordinator.StatusAborted, Reason: coordinator.ReasonDeclined, DurationMs: 5}})
		l.same("attempt", l.field(l.keys.attempts(), "a"), "2")
		l.same("garbage", l.members(l.keys.garbage()), []string{"parts:0"})
		l.same("shared state and staged tasks", []bool{l.exists(l.keys.state(0)), l.exists(l.keys.staged(0))}, []bool{false, false})
		l.same("ended, and remains", [][]string{l.members(l.keys.ended()), l.members(l.keys.remains())}, [][]string{{"0"}, {"0"}})
		l.same("pending", l.members(l.keys.pending()), []string{})
		l.unchanged(func() {
			r := l.word(abort(l, 0, "a", "2", "0", "t"), "ok")
			l.same("what the first run of the same call ended", len(r.before), 1)
			r = l.word(abort(l, 0, "", "0", "", "other"), "ok")
			l.same("what another call ended", len(r.before)+len(r.ended), 0)
		})
	})

	t.Run("checks a decline as it does an acknowledgement", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"tasks": "names", "required": "1"})
		l.names("names", "a")
		l.do("HSET", l.keys.attempts(), "a", "7")
		l.do("HSET", l.keys.job(), "epoch", "2")
		l.unchanged(func() {
			l.word(abort(l, 0, "x", "0", "1", "t"), "task_not_expected")
			l.word(abort(l, 0, "a", "0", "1", "t"), "stale_epoch")
			l.word(abort(l, 0, "a", "6", "2", "t"), "stale_attempt")
			l.word(abort(l, 0, "", "0", "1", "t"), "stale_epoch")
		})
		l.do("HSET", l.keys.record(0), "status", "completed", "ended", labTime)
		l.word(abort(l, 0, "a", "7", "2", "t"), "checkpoint_completed")
	})

	t.Run("keeps the newest twenty that ended and are not pinned, and shows the one it ends", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		l.record(1, values{"pinned": "1"})
		l.do("SADD", l.keys.pinned(), "1")
		for id := int64(2); id < 22; id++ {
			l.record(id, values{"status": "aborted"})
		}
		r := l.word(abort(l, 1, "", "0", "", "t"), "ok")
		l.same("evicted for a pinned one", len(r.evicted), 0)
		r = l.word(abort(l, 0, "", "0", "", "t"), "ok")
		l.same("the one it ends", shown(r.body[0]), "0")
		l.same("evicted", r.evicted, []int64{0})
		l.same("its record", l.exists(l.keys.record(0)), false)
		l.same("ended", len(l.members(l.keys.ended())), 21)
	})
}

func TestExtendScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(0, values{})
	l.record(1, values{"timeout": "0"})
	l.now += 50_000
	l.unchanged(func() {
		l.word(l.run(extendScript, 0, 10_000), "ok")
		l.word(l.run(extendScript, 0, 5_000), "ok")
		l.word(l.run(extendScript, 1, 5_000), "ok")
	})
	l.word(l.run(extendScript, 0, 20_000), "ok")
	l.same("timeout", l.field(l.keys.record(0), "timeout"), "70000")
	l.same("revision", l.field(l.keys.record(0), "rev"), "2")
	l.same("deadline", l.redis.ZScore(t.Context(), l.keys.deadlines(), "0").Val(), float64(labTime+70_000))
	for id, status := range []string{"completed", "expired", "aborted"} {
		l.record(int64(id+2), values{"status": status})
		l.word(l.run(extendScript, id+2, 1000), "checkpoint_"+status)
	}
}
