package redisstore

import (
	"slices"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// acknowledgeAll acknowledges for tasks, a thousand in a call.
func (l *lab) acknowledgeAll(id int64, tasks []string) {
	l.Helper()
	n := 0
	for some := range slices.Chunk(tasks, coordinator.MaxBulkAcks) {
		n++
		l.word(l.run(acknowledgeScript, acks(id, "t"+decimal(int64(n)), 5, items(some...)...)...), "ok")
	}
}

// unordered is how many tasks wait for their place in the order.
func (l *lab) unordered(id int64) int64 {
	l.Helper()
	return l.redis.LLen(l.Context(), l.keys.unsorted(id)).Val()
}

func TestWhoeverReadsTasksPutsThemInOrder(t *testing.T) {
	t.Parallel()

	t.Run("a thousand in a step", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"required": "5000"})
		all := tasks("task-", 2500)
		l.acknowledgeAll(0, all)
		l.same("tasks without an order", l.unordered(0), int64(2500))
		for _, left := range []int64{1500, 500} {
			l.word(l.run(getScript, 0, 2), wordAgain)
			l.same("tasks without an order", l.unordered(0), left)
		}
		r := l.word(l.run(getScript, 0, 2), "ok")
		rows, _ := r.body[1].([]any)
		l.same("the first", []any{rows[0], rows[2]}, []any{"task-0", "task-1"})
		slices.Sort(all)
		l.same("tasks", l.members(l.keys.acked(0)), all)
		l.same("the list is left", l.exists(l.keys.unsorted(0)), false)
	})

	t.Run("and a store asks until they all are", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		all := tasks("task-", 3000)
		l.record(0, values{"required": "3000"})
		l.record(1, values{"required": "5000"})
		l.acknowledgeAll(0, all)
		l.acknowledgeAll(1, all)
		s := l.store()
		cp, err := s.Get(t.Context(), l.ref(1))
		l.ok(err)
		l.same("the first", cp.Acks[1].TaskID, "task-1")
		l.acknowledgeAll(1, tasks("a-", 1001))
		page, err := s.Tasks(t.Context(), coordinator.TasksCall{Ref: l.ref(1), Limit: 2})
		l.ok(err)
		l.same("the first of the page", []string{page.Tasks[0].TaskID, page.Tasks[1].TaskID}, []string{"a-0", "a-1"})
		l.same("tasks without an order when it completed", l.unordered(0), int64(2000))
		source, err := s.OpenRestore(t.Context(), coordinator.RestoreCall{Ref: l.ref(0)})
		l.ok(err)
		l.same("parts", len(source.Parts()), 3001)
		l.same("tasks without an order", l.unordered(0), int64(0))
	})

	t.Run("the completing one where they are not many", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"required": "3"})
		l.acknowledgeAll(0, []string{"c", "a", "b"})
		l.same("tasks", l.members(l.keys.acked(0)), []string{"a", "b", "c"})
		l.same("the list is left", l.exists(l.keys.unsorted(0)), false)
		l.unchanged(func() { l.word(l.run(getScript, 0, 2), "ok") })
	})

	t.Run("also when Redis is full", func(t *testing.T) {
		t.Parallel()
		l := labOn(t, redistest.Start(t, redistest.Options{Config: []string{"--maxmemory-policy", "noeviction"}}), "orders")
		l.record(0, values{"required": "5"})
		l.acknowledgeAll(0, []string{"b", "a"})
		must(t, l.redis.ConfigSet(t.Context(), "maxmemory", "1").Err())
		l.word(l.run(getScript, 0, 2), "ok")
		l.same("tasks", l.members(l.keys.acked(0)), []string{"a", "b"})
	})

	t.Run("and leaves alone what is not ours", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		l.ack(0, "a", "0", storedPart{})
		l.do("SET", l.keys.unsorted(0), "foreign")
		l.unchanged(func() { l.word(l.run(getScript, 0, 2), "inconsistent") })
	})
}
