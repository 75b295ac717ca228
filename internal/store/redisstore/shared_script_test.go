package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func sha1hex(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// write calls write_shared with room for four keys and 100 bytes; entries are keys and
// values in turn, each key framed by 20 bytes.
func (l *lab) write(id int64, op string, single bool, condition coordinator.Precondition, entries ...string) reply {
	l.Helper()
	args := []any{id, op, flag(single), flag(condition.IfNoneMatch), 4, 100, "", len(condition.IfMatch)}
	for _, tag := range condition.IfMatch {
		args = append(args, tag)
	}
	for i := 0; i < len(entries); i += 2 {
		args = append(args, entries[i], 20, entries[i+1])
	}
	return l.run(writeSharedScript, args...)
}

// tally checks the totals in the record against what is stored.
func (l *lab) tally(id int64, keys, bytes, revision string) {
	l.Helper()
	for name, want := range (values{"sentries": keys, "sbytes": bytes, "srev": revision}) {
		l.same(name, l.field(l.keys.record(id), name), want)
	}
	stored := l.redis.HLen(context.Background(), l.keys.state(id)).Val()
	l.same("stored keys", strconv.FormatInt(stored, 10), keys)
}

func TestWriteSharedScript(t *testing.T) {
	t.Parallel()
	none := coordinator.Precondition{}

	t.Run("puts, replaces, deletes and clears, and keeps the totals", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(7, values{"entries": "10", "bytes": "1000"})
		r := l.word(l.write(7, "put", false, none, "a", "1", "b", `"x"`), "ok")
		l.same("made and tag", r.body[1:], []any{"1", ""})
		l.tally(7, "2", "44", "1")
		l.same("bytes with the parts", l.field(l.keys.record(7), "bytes"), "1044")
		l.same("entries with the parts", l.field(l.keys.record(7), "entries"), "12")
		l.same("the revision stays", l.field(l.keys.record(7), "rev"), "1")

		r = l.word(l.write(7, "put", true, none, "a", "100"), "ok")
		l.same("made and tag", r.body[1:], []any{"0", sha1hex("100")})
		l.tally(7, "2", "46", "2")
		r = l.word(l.write(7, "put", true, none, "c", "null"), "ok")
		l.same("made and tag", r.body[1:], []any{"1", sha1hex("null")})
		l.tally(7, "3", "70", "3")
		l.word(l.write(7, "delete", true, none, "a", ""), "ok")
		l.tally(7, "2", "47", "4")
		l.same("entries with the parts", l.field(l.keys.record(7), "entries"), "12")
		l.word(l.write(7, "clear", false, none), "ok")
		l.tally(7, "0", "0", "5")
		l.same("bytes with the parts", l.field(l.keys.record(7), "bytes"), "1000")
	})

	t.Run("takes more pairs than Lua can hand over at once", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(7, values{})
		args := []any{7, "put", "0", "0", coordinator.MaxSharedKeys, coordinator.MaxSharedBytes, "", 0}
		for n := range coordinator.MaxSharedKeys {
			args = append(args, n, 20, n)
		}
		l.word(l.run(writeSharedScript, args...), "ok")
		l.same("keys", l.redis.HLen(t.Context(), l.keys.state(7)).Val(), int64(coordinator.MaxSharedKeys))
	})

	t.Run("refuses and changes nothing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.word(l.write(7, "clear", false, none), "job_not_found")
		l.record(7, values{})
		l.record(8, values{"status": "aborted"})
		l.record(9, values{"status": "completed"})
		l.write(7, "put", false, none, "a", "1", "b", "2")
		match := func(tags ...string) coordinator.Precondition { return coordinator.Precondition{IfMatch: tags} }
		fresh := coordinator.Precondition{IfNoneMatch: true}
		l.unchanged(func() {
			l.word(l.write(6, "clear", false, none), "checkpoint_deleted")
			l.word(l.write(10, "clear", false, none), "checkpoint_not_found")
			r := l.word(l.write(8, "clear", false, none), "checkpoint_aborted")
			l.same("next steps", r.body, []any{"7", "9"})
			l.word(l.write(9, "put", true, none, "a", "1"), "checkpoint_completed")

			l.word(l.write(7, "put", true, fresh, "a", "9"), "precondition_failed")
			l.word(l.write(7, "put", true, match(sha1hex("2")), "a", "9"), "precondition_failed")
			l.word(l.write(7, "put", true, match("*"), "c", "9"), "precondition_failed")
			l.word(l.write(7, "delete", true, match("*"), "c", ""), "precondition_failed")
			l.word(l.write(7, "put", false, match("7-s0"), "a", "9"), "precondition_failed")
			l.word(l.write(7, "clear", false, fresh), "precondition_failed")

			r = l.word(l.write(7, "delete", true, none, "c", ""), "key_not_found")
			l.same("arguments", r.body, []any{"7", "c"})
			r = l.word(l.write(7, "put", false, none, "c", "1", "d", "1", "e", "1"), "limit_exceeded")
			l.same("arguments", r.body, []any{"5"})
			r = l.word(l.write(7, "put", false, none, "c", "1234567890123456789012345678901234567890"), "too_large")
			l.same("arguments", r.body, []any{"102"})
		})
	})

	t.Run("heeds conditions that are met", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(7, values{})
		l.word(l.write(7, "put", true, coordinator.Precondition{IfNoneMatch: true}, "a", "1"), "ok")
		l.word(l.write(7, "put", true, coordinator.Precondition{IfMatch: []string{"other", sha1hex("1")}}, "a", "2"), "ok")
		l.word(l.write(7, "delete", true, coordinator.Precondition{IfMatch: []string{"*"}}, "a", ""), "ok")
		l.word(l.write(7, "clear", false, coordinator.Precondition{IfMatch: []string{"7-s3"}}), "ok")
		l.tally(7, "0", "0", "4")
	})

	t.Run("writes the expiry that it meets", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(7, values{})
		l.write(7, "put", false, none, "a", "1")
		l.now += 60_001
		r := l.word(l.write(7, "put", false, none, "a", "2"), "checkpoint_expired")
		l.same("transitions", len(r.ended), 1)
		l.same("status", l.field(l.keys.record(7), "status"), "expired")
		l.same("shared state is there", l.exists(l.keys.state(7)), false)
	})
}

func TestSharedStateScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{"status": "completed", "sentries": "1", "sbytes": "20"})
	l.record(8, values{})
	l.record(9, values{"start": decimal(labTime - 60_001)})
	l.record(10, values{"status": "aborted"})
	l.do("HSET", l.keys.state(7), "a", "1.0")
	l.unchanged(func() {
		r := l.word(l.run(sharedStateScript, "latest", 1, 20), "ok")
		l.same("entries", r.body[1:], []any{"1", []any{"a", "1.0"}})
		for _, most := range [][]any{{0, 20}, {1, 19}} {
			r = l.word(l.run(sharedStateScript, append([]any{"latest"}, most...)...), "ok")
			l.same("too many entries", r.body[1:], []any{"0", []any{}})
		}
		r = l.word(l.run(sharedStateScript, 8, 0, 0), "ok")
		l.same("no entries", r.body[1:], []any{"1", []any{}})
		// Overdue, though nobody has written it yet.
		r = l.word(l.run(sharedStateScript, 9, 1, 20), "checkpoint_expired")
		l.same("next steps", r.body, []any{"8", "7"})
		l.word(l.run(sharedStateScript, 10, 1, 20), "checkpoint_aborted")
	})
}

func TestSharedEntryScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{"status": "completed"})
	l.record(8, values{"status": "aborted"})
	l.do("HSET", l.keys.state(7), "é/\x00", "1.0")
	l.unchanged(func() {
		r := l.word(l.run(sharedEntryScript, "latest", "é/\x00"), "ok")
		l.same("value and tag", r.body[1:], []any{"1.0", sha1hex("1.0")})
		r = l.word(l.run(sharedEntryScript, "7", "e"), "key_not_found")
		l.same("arguments", r.body, []any{"7", "e"})
		l.word(l.run(sharedEntryScript, 8, "e"), "checkpoint_aborted")
	})
}
