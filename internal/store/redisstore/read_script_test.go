package redisstore

import (
	"fmt"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Every script that reads one checkpoint finds it in the same way.
func TestFindScripts(t *testing.T) {
	t.Parallel()
	for _, sc := range []*script{getScript, tasksScript, taskScript, sharedStateScript, sharedEntryScript, openRestoreScript} {
		t.Run(sc.verb, func(t *testing.T) {
			t.Parallel()
			// Enough arguments for each of them.
			find := func(l *lab, ref string) reply { return l.run(sc, ref, "1", "", "1") }

			l := newLab(t, "orders")
			l.word(find(l, "0"), "job_not_found")
			l.record(3, values{})
			l.word(find(l, "2"), "checkpoint_deleted")
			l.word(find(l, "4"), "checkpoint_not_found")
			l.word(find(l, "latest"), "no_completed_checkpoint")
			l.do("SET", l.keys.record(1), `{"seed":"library"}`)
			l.word(find(l, "1"), "checkpoint_deleted")

			l = newLab(t, coordinator.DefaultJob)
			l.word(find(l, "0"), "checkpoint_not_found")
		})
	}
}

func TestGetScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(0, values{"status": "completed"})
	l.record(1, values{"status": "completed"})
	l.record(2, values{"status": "completed"})
	l.record(3, values{})
	// The newest of the index is somebody else's by now.
	l.do("DEL", l.keys.record(2))
	l.do("SET", l.keys.record(2), "foreign")
	l.unchanged(func() {
		for _, ref := range []string{"latest", "2"} {
			l.same("what makes no sense, by "+ref, l.word(l.run(getScript, ref, 3), "inconsistent").body, []any{"2", "the record"})
		}
	})
	l.word(l.run(deleteScript, 2, "0", "0", 0), "ok")
	l.same("the foreign value", l.redis.Get(t.Context(), l.keys.record(2)).Val(), "foreign")
	for _, task := range []string{"é", "b", "a", "B"} {
		l.ack(1, task, "7", storedPart{})
	}
	l.unchanged(func() {
		r := l.word(l.run(getScript, "latest", 3), "ok")
		l.same("the latest", shown(r.body[0]), "1")
		l.same("its first acknowledgements", r.body[1], []any{
			"B", fmt.Sprintf("7|%d|4|0|0||token", labTime+5),
			"a", fmt.Sprintf("7|%d|3|0|0||token", labTime+5),
			"b", fmt.Sprintf("7|%d|2|0|0||token", labTime+5),
		})
		r = l.word(l.run(getScript, "3", 3), "ok")
		l.same("without acknowledgements", r.body[1], []any{})
	})
}

func TestListScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.word(l.run(listScript, "", "", 10, "", 1000), "job_not_found")
	l.record(0, values{"status": "completed"})
	l.record(1, values{"status": "aborted"})
	l.record(2, values{"start": decimal(labTime - 60_001)})
	l.record(3, values{"status": "expired"})
	l.record(4, values{"tasks": "named"})
	l.names("named", "a", "b")
	l.record(9, values{})
	l.record(10, values{})
	l.do("DEL", l.keys.record(9))
	l.do("SET", l.keys.record(9), "foreign")
	l.ack(10, "a", "0", storedPart{})
	l.do("SET", l.keys.acks(0), "a foreign value breaks only its own checkpoint")

	for _, c := range []struct {
		name                string
		status, below, task string
		limit, looks        int
		cursor              string
		ids                 []string
	}{
		{name: "all, newest first by number", limit: 10, looks: 1000, ids: []string{"10", "4", "3", "2", "1", "0"}},
		{name: "a full page goes on below its last", limit: 2, looks: 1000, cursor: "4", ids: []string{"10", "4"}},
		{name: "from the cursor on", below: "4", limit: 2, looks: 1000, cursor: "2", ids: []string{"3", "2"}},
		{name: "at most so many records are looked at", limit: 10, looks: 2, cursor: "9", ids: []string{"10"}},
		{name: "below the lowest id is the end", below: "0", limit: 10, looks: 1000},
		{name: "pending leaves out what is overdue", status: "pending", limit: 10, looks: 1000, ids: []string{"10", "4"}},
		{name: "overdue counts as expired", status: "expired", limit: 10, looks: 1000, ids: []string{"3", "2"}},
		{name: "aborted", status: "aborted", limit: 10, looks: 1000, ids: []string{"1"}},
		{name: "completed", status: "completed", limit: 10, looks: 1000, ids: []string{"0"}},
		{name: "expired merges by number", status: "expired", limit: 1, looks: 1000, cursor: "3", ids: []string{"3"}},
		{name: "not what the task acknowledged", task: "a", limit: 10, looks: 1000, ids: []string{"4", "3", "2", "1"}},
		{name: "nor what it may not", task: "c", limit: 10, looks: 1000, ids: []string{"10", "3", "2", "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := l.in(t)
			r := l.word(l.run(listScript, c.status, c.below, c.limit, c.task, c.looks), "ok")
			ids := []string(nil)
			for _, view := range r.body[1].([]any) {
				ids = append(ids, shown(view))
			}
			l.same("ids", ids, c.ids)
			l.same("cursor", r.body[0], any(c.cursor))
		})
	}
}

func TestTasksScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(0, values{"tasks": "named"})
	l.names("named", "a", "b", "c", "d")
	l.ack(0, "b", "0", piece("u", 1))
	l.do("ZREM", l.keys.missing("named"), "b")
	l.upload(0, "c", piece("w", 1))
	l.record(1, values{})
	l.ack(1, "z", "0", storedPart{})
	l.upload(1, "y", piece("w", 1))
	acked := l.field(l.keys.acks(0), "b")

	for _, c := range []struct {
		name         string
		id           int
		which, after string
		limit        int
		rows         []any
	}{
		{name: "named tasks of both kinds", limit: 10, rows: []any{"a", "", "", "b", acked, "", "c", "", partFields(piece("w", 1)), "d", "", ""}},
		{name: "a page", after: "a", limit: 2, rows: []any{"b", acked, "", "c", "", partFields(piece("w", 1))}},
		{name: "missing ones", which: "missing", limit: 2, rows: []any{"a", "", "", "c", "", partFields(piece("w", 1))}},
		{name: "acknowledged ones", which: "acknowledged", limit: 10, rows: []any{"b", acked, ""}},
		{name: "without names only acknowledged ones are known", id: 1, limit: 10, rows: []any{"z", l.field(l.keys.acks(1), "z"), ""}},
		{name: "without names nobody knows who is missing", id: 1, which: "missing", limit: 10, rows: []any{}},
		{name: "past the last", after: "d", limit: 10, rows: []any{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := l.in(t)
			r := l.word(l.run(tasksScript, c.id, c.which, c.after, c.limit), "ok")
			l.same("checkpoint", shown(r.body[0]), fmt.Sprint(c.id))
			l.same("rows", r.body[1], any(c.rows))
		})
	}
}

func TestTaskScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(5, values{"tasks": "named"})
	l.names("named", "a", "b", "c")
	l.ack(5, "a", "0", piece("u", 1))
	l.upload(5, "b", piece("w", 1))
	l.record(6, values{})
	l.upload(6, "y", piece("w", 1))

	r := l.word(l.run(taskScript, 5, "a"), "ok")
	l.same("an acknowledged task", r.body[1:], []any{l.field(l.keys.acks(5), "a"), ""})
	r = l.word(l.run(taskScript, 5, "b"), "ok")
	l.same("a missing one with a part", r.body[1:], []any{"", partFields(piece("w", 1))})
	r = l.word(l.run(taskScript, 5, "c"), "ok")
	l.same("a missing one", r.body[1:], []any{"", ""})
	r = l.word(l.run(taskScript, 5, "d"), "task_not_in_checkpoint")
	l.same("arguments", r.body, []any{"5"})
	l.word(l.run(taskScript, 6, "y"), "task_not_in_checkpoint")
}

func TestReadManifestScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(5, values{"status": "completed"})
	for _, task := range []string{"b", "a", "é"} {
		l.ack(5, task, "0", piece("u-"+task, 1))
	}
	row := func(task string) []any {
		return []any{task, l.field(l.keys.acks(5), task), partFields(piece("u-"+task, 1))}
	}
	l.same("first page", l.run(readManifestScript, 5, "page", "", 2).body, append(row("a"), row("b")...))
	l.same("second page", l.run(readManifestScript, 5, "page", "b", 2).body, row("é"))
	l.same("past the last", l.run(readManifestScript, 5, "page", "é", 2).body, []any{})
	l.same("named tasks", l.run(readManifestScript, 5, "tasks", "é", "x").body, append(row("é"), "x", "", ""))
	l.word(l.run(readManifestScript, 4, "page", "", 2), "checkpoint_deleted")
}
