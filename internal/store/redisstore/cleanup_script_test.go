package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestCleanupScript(t *testing.T) {
	t.Parallel()
	clean := func(l *lab, keep, most int, dry bool) []any {
		return l.word(l.run(cleanupScript, keep, most, flag(dry)), "ok").body
	}
	// a job with each kind: 0 and 5 completed, 1 pinned, 2 aborted, 3 pending, 4 completed
	mixed := func(t *testing.T) *lab {
		t.Helper()
		l := newLab(t, "orders")
		for id, status := range []string{"completed", "completed", "aborted", "pending", "completed", "completed"} {
			l.record(int64(id), values{"status": status})
		}
		l.do("HSET", l.keys.record(1), "pinned", "1")
		l.do("SADD", l.keys.pinned(), "1")
		l.do("ZREM", l.keys.retained(), "1")
		return l
	}
	ids := func(ids ...any) []any { return append([]any{}, ids...) }

	t.Run("takes what did not complete first, then completed ones, oldest first, and leaves pinned ones", func(t *testing.T) {
		t.Parallel()
		l := mixed(t)
		l.unchanged(func() { l.same("what would go", clean(l, 2, 100, true), []any{ids("2", "3", "0"), ids(), "2", "0"}) })
		l.now += 4
		r := l.word(l.run(cleanupScript, 2, 100, "0"), "ok")
		l.same("what went", r.body, []any{ids("2", "3", "0"), ids(), "2", "0"})
		l.same("ended", r.ended, []coordinator.Transition{
			{Job: "orders", ID: 3, Status: coordinator.StatusAborted, Reason: coordinator.ReasonEvicted, DurationMs: 4},
		})
		l.same("index", l.members(l.keys.index()), []string{"1", "4", "5"})
		l.same("nothing more", clean(l, 2, 100, false), []any{ids(), ids(), "2", "0"})
		l.same("all", clean(l, 0, 100, false), []any{ids("4", "5"), ids(), "0", "0"})
	})

	t.Run("skips leased ones, which count among the survivors", func(t *testing.T) {
		t.Parallel()
		l := mixed(t)
		l.do("ZADD", l.keys.leases(0), l.now, "restore")
		l.do("ZADD", l.keys.leases(4), l.now-1, "over")
		l.same("reply", clean(l, 2, 100, false), []any{ids("2", "3", "4"), ids("0"), "2", "0"})
	})

	t.Run("keeps the latest completed one while anything is to be kept", func(t *testing.T) {
		t.Parallel()
		l := mixed(t)
		l.do("ZADD", l.keys.leases(0), l.now, "restore")
		l.same("keep 1", clean(l, 1, 100, false), []any{ids("2", "3", "4"), ids("0"), "2", "0"})
		l.same("keep 0", clean(l, 0, 100, false), []any{ids("5"), ids("0"), "1", "0"})
	})

	t.Run("goes in steps", func(t *testing.T) {
		t.Parallel()
		l := mixed(t)
		l.same("first", clean(l, 1, 2, false), []any{ids("2", "3"), ids(), "3", "1"})
		l.same("second", clean(l, 1, 2, false), []any{ids("0", "4"), ids(), "1", "0"})
	})

	t.Run("looks at more completed ones than fit into one page", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		for id := range int64(250) {
			l.record(id, values{"status": "completed"})
		}
		l.same("going", len(clean(l, 10, 1000, true)[0].([]any)), 240)
	})

	t.Run("writes expiry first", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		l.now += 60_001
		r := l.word(l.run(cleanupScript, 0, 100, "0"), "ok")
		l.same("ended", len(r.ended), 1)
		l.same("as", r.ended[0].Status, coordinator.StatusExpired)
	})

	t.Run("counts what is left of those that ended", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		for id := range int64(20) {
			l.record(id, values{"status": "aborted"})
		}
		l.record(20, values{})
		l.now += 60_001
		r := l.word(l.run(cleanupScript, 20, 100, "0"), "ok")
		l.same("reply", r.body, []any{ids(), ids(), "20", "0"})
		l.same("evicted", r.evicted, []int64{0})
	})

	t.Run("removes what did not complete and has no record, leaves what completed, and counts neither", func(t *testing.T) {
		t.Parallel()
		l := mixed(t)
		l.do("DEL", l.keys.record(0), l.keys.record(2))
		l.do("SET", l.keys.record(2), "foreign")
		l.same("reply", clean(l, 1, 100, false), []any{ids("3", "4"), ids(), "1", "0"})
		l.same("the foreign value", l.redis.Get(t.Context(), l.keys.record(2)).Val(), "foreign")
		l.same("index", l.members(l.keys.index()), []string{"0", "1", "5"})
	})

	t.Run("does not know a job of nobody", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.word(l.run(cleanupScript, 0, 100, "0"), "job_not_found")
	})
}
