package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// acks are the arguments of acknowledge.lua from ARGV[2] on.
func acks(id int64, token string, keep int, items ...coordinator.AckItem) []any {
	var a ackArgs
	a.begin(new(Store), coordinator.AckCall{ID: id, Retention: coordinator.Retention{Keep: keep}}, token, len(items))
	for i := range items {
		a.add(&items[i])
	}
	a.end()
	return a.args[clockAt+1:]
}

// outcomes are the items of a reply, as words: its letter, its count and status, and its details.
func (l *lab) outcomes(r reply) []string {
	l.Helper()
	flags, _ := r.body[5].(string)
	acks, err := readAcks(l.job, 0, r.body, len(flags))
	l.ok(err)
	var all []string
	for i := range len(flags) {
		var details []any
		if flags[i] == flagRefused || flags[i] == flagKnown {
			details, _ = acks.details.values[0].([]any)
		}
		outcome, err := acks.next("task")
		l.ok(err)
		words := []any{outcome.Outcome, outcome.AcknowledgedTasks, outcome.Status}
		switch outcome.Outcome {
		case coordinator.AckAccepted:
			words = append(words, outcome.LatencyMs)
		case coordinator.AckRefused:
			words = append(words, details...)
		case coordinator.AckDuplicate:
		}
		all = append(all, strings.TrimSuffix(fmt.Sprintln(words...), "\n"))
	}
	return all
}

func aPart(text, digest string) *coordinator.PartContent {
	return &coordinator.PartContent{Content: []byte(text), Entries: 1, Digest: digest}
}

func TestAcknowledgeScript(t *testing.T) {
	t.Parallel()

	t.Run("counts each task once and completes with the last one", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"required": "2"})
		l.now += 7
		r := l.word(l.run(acknowledgeScript, acks(0, "t1", 5,
			coordinator.AckItem{TaskID: "a", Attempt: 3}, coordinator.AckItem{TaskID: "a"},
			coordinator.AckItem{TaskID: "a", Attempt: 3}, coordinator.AckItem{TaskID: "b"}, coordinator.AckItem{TaskID: "c"},
		)...), "ok")
		l.same("outcomes", l.outcomes(r), []string{
			"acknowledged 1 pending 7", "refused 1 pending stale_attempt a 0 3", "duplicate 1 pending",
			"acknowledged 2 completed 7", "refused 2 completed checkpoint_completed  0",
		})
		l.same("the state after them", r.body[:3], []any{"completed", int64(2), int64(2)})
		l.same("ended", r.ended, []coordinator.Transition{{Job: "orders", ID: 0, Status: coordinator.StatusCompleted, DurationMs: 7, AcknowledgedTasks: 2}})
		l.same("revision", l.field(l.keys.record(0), "rev"), "4")
		l.same("acknowledged", l.members(l.keys.acked(0)), []string{"a", "b"})
		l.same("an ack", l.field(l.keys.acks(0), "a"), fmt.Sprintf("3|%d|1|0|0||t1", labTime+7))
		l.same("attempts", l.redis.HGetAll(t.Context(), l.keys.attempts()).Val(), map[string]string{"a": "3"})
		l.same("completed", l.members(l.keys.completed()), []string{"0"})
		l.same("pending", l.members(l.keys.pending()), []string{})
		l.same("deadlines", l.members(l.keys.deadlines()), []string{})
	})

	t.Run("answers the same to the same call, also when it has ended since", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"required": "2"})
		call := acks(0, "t1", 5, coordinator.AckItem{TaskID: "a", Part: aPart("x", "sha256:1")}, coordinator.AckItem{TaskID: "b"}, coordinator.AckItem{TaskID: "b"})
		first := l.outcomes(l.word(l.run(acknowledgeScript, call...), "ok"))
		l.now += 1000
		l.do("HSET", l.keys.attempts(), "a", "9")
		l.unchanged(func() {
			r := l.word(l.run(acknowledgeScript, call...), "ok")
			l.same("outcomes", l.outcomes(r), first)
			l.same("ended", len(r.ended), 0)
			l.same("what the first run ended", r.before, []coordinator.Transition{{Job: "orders", ID: 0, Status: coordinator.StatusCompleted, AcknowledgedTasks: 2}})
		})
	})

	t.Run("tells again, where it is asked again, that it completed the checkpoint", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"required": "2"})
		first, last := acks(0, "t1", 5, coordinator.AckItem{TaskID: "a"}), acks(0, "t2", 5, coordinator.AckItem{TaskID: "b"})
		l.word(l.run(acknowledgeScript, first...), "ok")
		l.word(l.run(acknowledgeScript, last...), "ok")
		r := l.word(l.run(acknowledgeScript, first...), "ok")
		l.same("outcome of the first", l.outcomes(r), []string{"acknowledged 1 pending 0"})
		l.same("what its first run ended", len(r.before), 0)
		r = l.word(l.run(acknowledgeScript, last...), "ok")
		l.same("outcome of the last", l.outcomes(r), []string{"acknowledged 2 completed 0"})
		l.same("what its first run ended", r.before, []coordinator.Transition{{Job: "orders", ID: 0, Status: coordinator.StatusCompleted, AcknowledgedTasks: 2}})

		// Somebody completed it by hand with the last one in.
		l.do("HSET", l.keys.record(0), "token", "other")
		r = l.word(l.run(acknowledgeScript, last...), "ok")
		l.same("what another call ended", len(r.before), 0)
	})

	t.Run("knows an empty part by its digest", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		empty := &coordinator.PartContent{Digest: coordinator.EmptyDigest}
		for i, item := range []coordinator.AckItem{{TaskID: "a"}, {TaskID: "b", Part: empty}} {
			l.word(l.run(acknowledgeScript, acks(0, "t"+decimal(int64(i)), 5, item)...), "ok")
		}
		r := l.word(l.run(acknowledgeScript, acks(0, "t2", 5,
			coordinator.AckItem{TaskID: "a", Part: empty}, coordinator.AckItem{TaskID: "b", Digest: coordinator.EmptyDigest},
			coordinator.AckItem{TaskID: "a", Digest: "sha256:x"}, coordinator.AckItem{TaskID: "b", Part: aPart("x", "sha256:x")},
		)...), "ok")
		l.same("outcomes", l.outcomes(r), []string{
			"duplicate 2 pending", "duplicate 2 pending", "refused 2 pending ack_conflict a", "refused 2 pending ack_conflict b",
		})
	})

	t.Run("stores a part that comes with the item, in place of an uploaded one", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		l.upload(0, "a", piece("u1", 2))
		l.upload(0, "b", piece("u2", 1))
		text := strings.Repeat("x", coordinator.ChunkBytes) + "y"
		r := l.word(l.run(acknowledgeScript, acks(0, "t1", 5,
			coordinator.AckItem{TaskID: "a", Part: aPart(text, "sha256:a")},
			coordinator.AckItem{TaskID: "b", Part: &coordinator.PartContent{Digest: coordinator.EmptyDigest}},
		)...), "ok")
		l.same("outcomes", l.outcomes(r), []string{"acknowledged 1 pending 0", "acknowledged 2 pending 0"})
		l.same("parts", l.redis.HGetAll(t.Context(), l.keys.parts(0)).Val(), map[string]string{
			"a": fmt.Sprintf("t1.1|2|%d|1|sha256:a", len(text)),
		})
		l.same("the last chunk", l.redis.Get(t.Context(), l.keys.chunk(0, "t1.1", 1)).Val(), "y")
		l.same("garbage", l.members(l.keys.garbage()), []string{"upload:0:u1:2", "upload:0:u2:1"})
		l.same("staged", l.exists(l.keys.staged(0)), false)
		l.same("bytes", l.field(l.keys.record(0), "bytes"), fmt.Sprint(len(text)))
	})

	t.Run("counts the uploaded part when none comes with the item", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		l.upload(0, "a", piece("u1", 2))
		r := l.word(l.run(acknowledgeScript, acks(0, "t1", 5,
			coordinator.AckItem{TaskID: "a", Digest: "sha256:other"}, coordinator.AckItem{TaskID: "b", Digest: "sha256:u1"},
			coordinator.AckItem{TaskID: "a", Digest: "sha256:u1"},
			coordinator.AckItem{TaskID: "a", Part: aPart("z", "sha256:z")},
		)...), "ok")
		l.same("outcomes", l.outcomes(r), []string{
			"refused 0 pending part_changed a sha256:u1", "refused 0 pending part_changed b ", "acknowledged 1 pending 0",
			"refused 1 pending ack_conflict a",
		})
		l.same("entries and bytes", []string{l.field(l.keys.record(0), "entries"), l.field(l.keys.record(0), "bytes")},
			[]string{"2", fmt.Sprint(2 * coordinator.ChunkBytes)})
		l.same("staged", l.exists(l.keys.staged(0)), false)
		l.same("a refused part", l.exists(l.keys.chunk(0, "t1.4", 0)), false)
	})

	t.Run("refuses tasks that were not named and epochs that are over", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"tasks": "names", "required": "2"})
		l.names("names", "a", "b")
		l.do("HSET", l.keys.job(), "epoch", "4")
		three, four := int64(3), int64(4)
		r := l.word(l.run(acknowledgeScript, acks(0, "t1", 5,
			coordinator.AckItem{TaskID: "x", Epoch: &three}, coordinator.AckItem{TaskID: "a", Epoch: &three}, coordinator.AckItem{TaskID: "a", Epoch: &four},
		)...), "ok")
		l.same("outcomes", l.outcomes(r), []string{
			"refused 0 pending task_not_expected x", "refused 0 pending stale_epoch 3 4", "acknowledged 1 pending 0",
		})
		l.same("missing", l.members(l.keys.missing("names")), []string{"b"})
	})

	t.Run("writes the expiry of an overdue one and refuses all items with the next steps", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"status": "completed"})
		l.record(1, values{})
		l.ack(1, "a", "0", storedPart{})
		l.now += 60_001
		l.record(2, values{"start": decimal(l.now)})
		r := l.word(l.run(acknowledgeScript, acks(1, "t2", 5, coordinator.AckItem{TaskID: "a"}, coordinator.AckItem{TaskID: "b"})...), "ok")
		l.same("outcomes", l.outcomes(r), []string{"refused 1 expired checkpoint_expired 2 0", "refused 1 expired checkpoint_expired 2 0"})
		l.same("status", l.field(l.keys.record(1), "status"), "expired")
		l.same("ended", len(r.ended), 1)
	})

	t.Run("tells a late sender of a checkpoint that is gone where to go on", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.word(l.run(acknowledgeScript, acks(0, "t", 5, coordinator.AckItem{TaskID: "a"})...), "job_not_found")
		l.record(3, values{})
		r := l.word(l.run(acknowledgeScript, acks(1, "t", 5, coordinator.AckItem{TaskID: "a"})...), "checkpoint_deleted")
		l.same("next steps", r.body, []any{"3", ""})
		l.word(l.run(acknowledgeScript, acks(4, "t", 5, coordinator.AckItem{TaskID: "a"})...), "checkpoint_not_found")
	})

	t.Run("applies retention when it completes", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		for id := range int64(4) {
			l.record(id, values{"status": "completed"})
		}
		l.do("ZADD", l.keys.leases(1), l.now+1, "restore")
		l.record(4, values{"required": "1"})
		r := l.word(l.run(acknowledgeScript, acks(4, "t", 2, coordinator.AckItem{TaskID: "a"})...), "ok")
		l.same("evicted", r.evicted, []int64{0, 2})
		l.same("completed", l.members(l.keys.completed()), []string{"1", "3", "4"})
	})

	t.Run("leaves parts without an acknowledgement to the sweep when it completes", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"required": "1"})
		l.upload(0, "b", piece("u", 1))
		l.word(l.run(acknowledgeScript, acks(0, "t", 2, coordinator.AckItem{TaskID: "a"})...), "ok")
		l.same("garbage", l.members(l.keys.garbage()), []string{"staged:0"})
	})

	t.Run("rebases the start after the clock stepped back", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{})
		l.now -= 30_000
		l.word(l.run(acknowledgeScript, acks(0, "t", 2, coordinator.AckItem{TaskID: "a"})...), "ok")
		l.same("start", l.field(l.keys.record(0), "start"), decimal(l.now))
		l.same("deadline", l.redis.ZScore(t.Context(), l.keys.deadlines(), "0").Val(), float64(l.now+60_000))
	})

	t.Run("takes a thousand items", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"required": "1000"})
		var items []coordinator.AckItem
		for i := range coordinator.MaxBulkAcks {
			items = append(items, coordinator.AckItem{TaskID: fmt.Sprint("task-", i), Attempt: 1, Part: aPart("x", "sha256:x")})
		}
		r := l.word(l.run(acknowledgeScript, acks(0, "t", 2, items...)...), "ok")
		l.same("the state after them", r.body[:3], []any{"completed", int64(1000), int64(1000)})
	})
}
