package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// condition are the arguments of a precondition.
func condition(absent bool, tags ...string) []any {
	return appendPrecondition(nil, coordinator.Precondition{IfNoneMatch: absent, IfMatch: tags})
}

func TestUpdateScript(t *testing.T) {
	t.Parallel()
	change := func(l *lab, id int, labels, pin string, condition ...any) reply {
		return l.run(updateScript, append([]any{id, flag(labels != ""), labels, "0", "", pin}, condition...)...)
	}

	t.Run("changes what is given and nothing else", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"labels": `{"a":"b"}`, "desc": "old"})
		l.word(change(l, 0, `{"c":"d"}`, "", condition(false)...), "ok")
		l.same("labels, description and revision",
			[]string{l.field(l.keys.record(0), "labels"), l.field(l.keys.record(0), "desc"), l.field(l.keys.record(0), "rev")},
			[]string{`{"c":"d"}`, "old", "2"})
	})

	t.Run("moves a pinned one out of what retention counts, and back", func(t *testing.T) {
		t.Parallel()
		for status, index := range map[string]string{"completed": "retained", "expired": "remains", "aborted": "remains"} {
			l := newLab(t, "orders")
			l.record(0, values{"status": status})
			for range 2 {
				l.word(change(l, 0, "", "1", condition(false)...), "ok")
				l.same(status+" and pinned: "+index, l.members(l.keys.base+index), []string{})
				l.same("pinned", l.redis.SMembers(t.Context(), l.keys.pinned()).Val(), []string{"0"})
				l.same("its record", l.field(l.keys.record(0), "pinned"), "1")
			}
			for range 2 {
				l.word(change(l, 0, "", "0", condition(false)...), "ok")
				l.same(status+" and unpinned: "+index, l.members(l.keys.base+index), []string{"0"})
				l.same("pinned", l.exists(l.keys.pinned()), false)
				l.same("its record", l.field(l.keys.record(0), "pinned"), "0")
			}
		}
	})

	t.Run("honours preconditions", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"rev": "4"})
		l.unchanged(func() {
			l.word(change(l, 0, "{}", "", condition(false, "0-3", "1-4")...), "precondition_failed")
			l.word(change(l, 0, "{}", "", condition(true)...), "precondition_failed")
		})
		l.word(change(l, 0, "{}", "", condition(false, "0-3", "0-4")...), "ok")
		l.word(change(l, 0, "{}", "", condition(false, "*")...), "ok")
	})

	t.Run("does not bring back a record that the trimming of ended ones takes", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		for id := int64(1); id < 21; id++ {
			l.record(id, values{"status": "aborted"})
		}
		l.now += 60_001
		r := l.word(change(l, 0, `{"a":"b"}`, "", condition(false)...), "ok")
		l.same("evicted", r.evicted, []int64{0})
		l.same("its record", l.exists(l.keys.record(0)), false)
	})
}

func TestDeleteScript(t *testing.T) {
	t.Parallel()
	remove := func(l *lab, id int, force bool, condition ...any) reply {
		return l.run(deleteScript, append([]any{id, flag(force)}, condition...)...)
	}
	l := newLab(t, "orders")
	l.record(0, values{"tasks": "names", "pinned": "1"})
	l.do("SADD", l.keys.pinned(), "0")
	l.names("names", "a", "b")
	l.ack(0, "a", "0", piece("u", 1))
	l.do("HSET", l.keys.state(0), "k", "1")
	l.do("ZADD", l.keys.leases(0), labTime, "restore")
	l.now += 3

	l.unchanged(func() {
		l.word(remove(l, 0, true, condition(false, "0-9")...), "precondition_failed")
		l.word(remove(l, 0, false, condition(false, "0-9")...), "precondition_failed")
		l.word(remove(l, 0, false, condition(false, "0-1")...), "pinned")
	})
	r := l.word(remove(l, 0, true, condition(false, "0-1")...), "ok")
	l.same("ended", r.ended, []coordinator.Transition{
		{Job: "orders", ID: 0, Status: coordinator.StatusAborted, Reason: coordinator.ReasonAborted, DurationMs: 3, AcknowledgedTasks: 1},
	})
	var left []string
	for key := range l.everything() {
		left = append(left, key)
	}
	l.same("what is left: the job, its log and its counts, and what waits for the sweep", len(left), 5)
	l.same("of the part", l.members(l.keys.garbage()), []string{"parts:0"})
	l.same("the parts wait for the sweep", l.exists(l.keys.parts(0)), true)
	l.word(remove(l, 0, true, condition(false)...), "checkpoint_deleted")

	l.record(1, values{"status": "completed"})
	r = l.word(remove(l, 1, false, condition(false)...), "ok")
	l.same("ended by removing a completed one", len(r.ended), 0)
}
