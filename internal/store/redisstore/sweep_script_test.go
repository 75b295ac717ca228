package redisstore

import (
	"fmt"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

func TestSweepScript(t *testing.T) {
	t.Parallel()

	t.Run("finds nothing to do in a job that is not there", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.unchanged(func() {
			r := l.word(l.run(sweepScript, "5|0|0", 100), "ok")
			l.same("body", r.body, []any{"0", "0", ""})
		})
	})

	t.Run("writes expiry in steps, and once", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		for id := range int64(3) {
			l.record(id, values{"start": decimal(labTime - 60_001)})
		}
		l.record(3, values{"start": decimal(labTime - 60_000)})
		l.upload(0, "a", piece("u", 1))
		r := l.word(l.run(sweepScript, "5|0|0", 2), "ok")
		l.same("body", r.body, []any{"1", "1", decimal(labTime)})
		l.same("first transition", r.ended[0], coordinator.Transition{
			Job: "orders", ID: 0, Status: coordinator.StatusExpired, Reason: coordinator.ReasonExpired, DurationMs: 60_000,
		})
		r = l.word(l.run(sweepScript, "5|0|0", 2), "ok")
		l.same("transitions of the second step", len(r.ended), 1)
		l.same("pending", l.members(l.keys.pending()), []string{"3"})
		l.unchanged(func() {
			r := l.word(l.run(sweepScript, "5|0|0", 2), "ok")
			l.same("body", r.body, []any{"0", "1", decimal(labTime + 1)})
		})
	})

	t.Run("rebases what the clock stepped back behind", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		l.do("HSET", l.keys.job(), "clock", labTime)
		l.now -= 10_000_000
		l.run(sweepScript, "5|0|0", 100)
		l.same("start", l.field(l.keys.record(0), "start"), decimal(l.now))
		l.now += 60_001
		l.same("transitions", len(l.run(sweepScript, "5|0|0", 100).ended), 1)
	})

	t.Run("removes what a lease had held up", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		for id := range int64(4) {
			l.record(id, values{"status": "completed"})
		}
		l.do("ZADD", l.keys.leases(1), labTime, "lease")
		r := l.word(l.run(sweepScript, "2|0|0", 100), "ok")
		l.same("removed", r.evicted, []int64{0})
		l.now++
		r = l.word(l.run(sweepScript, "2|0|0", 100), "ok")
		l.same("removed after the lease", r.evicted, []int64{1})
		l.same("all are kept by 0", l.run(sweepScript, "0|0|0", 100).evicted, []int64(nil))
	})

	t.Run("gives up uploads and stages whose lease ran out", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(7, values{})
		l.do("ZADD", l.keys.uploads(), labTime-1, "7:dead", labTime, "7:alive", labTime-1, "8:gone", labTime-1, "foreign")
		l.do("HSET", l.keys.upload(7, "dead"), "top", "3")
		l.do("ZADD", l.keys.stages(), labTime-1, "dead", labTime, "alive")
		for _, token := range []string{"dead", "alive"} {
			l.names(token, "a")
		}
		l.word(l.run(sweepScript, "5|0|0", 100), "ok")
		l.same("running", l.members(l.keys.uploads()), []string{"7:alive"})
		l.same("garbage", l.members(l.keys.garbage()), []string{"upload:7:dead:3"})
		l.same("tally is there", l.exists(l.keys.upload(7, "dead")), false)
		l.same("stages", l.members(l.keys.stages()), []string{"alive"})
		l.same("dead names are there", l.exists(l.keys.tasks("dead")) || l.exists(l.keys.missing("dead")), false)
		l.same("alive names are there", l.exists(l.keys.tasks("alive")) && l.exists(l.keys.missing("alive")), true)
	})

	t.Run("works when Redis is full", func(t *testing.T) {
		t.Parallel()
		l := labOn(t, redistest.Start(t, redistest.Options{Own: true}), "orders")
		l.record(0, values{"status": "completed"})
		l.record(1, values{"status": "completed"})
		l.record(2, values{"start": decimal(labTime - 60_001)})
		l.upload(2, "a", piece("u", 1))
		l.do("ZADD", l.keys.uploads(), labTime-1, "2:dead")
		l.do("HSET", l.keys.upload(2, "dead"), "top", "3")
		l.do("CONFIG", "SET", "maxmemory", 1)
		r := l.word(l.run(sweepScript, "1|0|0", 100), "ok")
		l.same("transitions", len(r.ended), 1)
		l.same("removed", r.evicted, []int64{0})
		l.same("garbage", l.members(l.keys.garbage()), []string{"parts:2", "upload:2:dead:3"})
		r = l.word(l.run(drainScript, 100), "ok")
		l.same("garbage left", r.body, []any{"0"})
		l.same("chunk is there", l.exists(l.keys.chunk(2, "u", 0)), false)
	})
}

func TestDrainScript(t *testing.T) {
	t.Parallel()

	// drain runs the script until nothing is left and gives the number of runs.
	drain := func(l *lab, budget int) int {
		l.Helper()
		for runs := 1; ; runs++ {
			left := l.word(l.run(drainScript, budget), "ok").body[0]
			if left == "0" {
				return runs
			}
			if runs == 100 {
				l.Fatalf("after %d runs %v members are left: %v", runs, left, l.members(l.keys.garbage()))
			}
		}
	}

	t.Run("shrinks a part from its end", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.chunks(7, piece("u", 5))
		l.do("ZADD", l.keys.garbage(), 1, "upload:7:u:5")
		r := l.word(l.run(drainScript, 2), "ok")
		l.same("garbage left", r.body, []any{"1"})
		l.same("garbage", l.members(l.keys.garbage()), []string{"upload:7:u:3"})
		l.same("runs", drain(l, 2), 2)
		l.same("keys", len(l.everything()), 0)
	})

	t.Run("drains all parts of a checkpoint, large ones in steps", func(t *testing.T) {
		t.Parallel()
		for _, budget := range []int{1, 2, 3, 1000} {
			l := newLab(t, "orders")
			for n := range 20 {
				p := piece(fmt.Sprintf("u.%d", n), n%7)
				l.upload(7, fmt.Sprint("task", n), p)
			}
			l.do("DEL", l.keys.staged(7))
			l.do("ZADD", l.keys.garbage(), 1, "parts:7")
			drain(l, budget)
			l.same(fmt.Sprintf("keys after steps of %d", budget), len(l.everything()), 0)
		}
	})

	t.Run("drops what a completed checkpoint never acknowledged, and nothing else", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(7, values{"status": "completed"})
		l.ack(7, "kept", "0", piece("kept", 2))
		l.chunks(7, piece("kept", 2))
		before := len(l.everything())
		for n := range 5 {
			l.upload(7, fmt.Sprint("task", n), piece(fmt.Sprint("u", n), 3))
		}
		l.do("ZADD", l.keys.garbage(), 1, "staged:7")
		drain(l, 4)
		l.same("keys", len(l.everything()), before)
		l.same("parts", l.redis.HGetAll(t.Context(), l.keys.parts(7)).Val(), map[string]string{"kept": partFields(piece("kept", 2))})
		l.same("chunk is there", l.exists(l.keys.chunk(7, "kept", 1)), true)
	})

	t.Run("is not held up by what is not ours", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("SET", l.keys.parts(1), "foreign")
		l.do("SET", l.keys.staged(2), "foreign")
		l.do("ZADD", l.keys.garbage(), 1, "parts:1", 2, "staged:2", 3, "nonsense", 4, "upload:x:y:z", 5, "parts:3", 6, "upload:9:u:1")
		l.do("HSET", l.keys.parts(3), "a", "nonsense")
		l.chunks(9, piece("u", 1))
		drain(l, 1000)
		l.same("chunk is there", l.exists(l.keys.chunk(9, "u", 0)), false)
		l.same("foreign values are there", l.exists(l.keys.parts(1)) && l.exists(l.keys.staged(2)), true)
	})
}
