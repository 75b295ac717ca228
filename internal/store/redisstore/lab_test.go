package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// labTime is the time at which a lab begins, Unix ms.
const labTime = 1_750_000_000_000

// lab drives single scripts against a real Redis: what they find is written by hand, so
// that a mistake in one script cannot hide one in another.
type lab struct {
	testing.TB
	server *redistest.Server
	redis  *redis.Client
	job    string
	keys   keyspace
	now    int64
}

// newLab makes a lab for a job in keys of its own.
func newLab(t testing.TB, job string) *lab {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	return labOn(t, server, job)
}

func labOn(t testing.TB, server *redistest.Server, job string) *lab {
	t.Helper()
	return &lab{TB: t, server: server, redis: server.Client(t), job: job, keys: newKeyspace(server.Prefix, job), now: labTime}
}

// in gives the same lab to a subtest.
func (l *lab) in(t testing.TB) *lab {
	t.Helper()
	other := *l
	other.TB = t
	return &other
}

// store opens a store over the lab's keys and clock.
func (l *lab) store() *Store {
	l.Helper()
	s, err := New(Options{URL: l.server.URL, KeyPrefix: l.server.Prefix, Clock: func() int64 { return l.now }})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := s.Close(); err != nil {
			l.Error(err)
		}
	})
	return s
}

func (l *lab) ref(id int64) coordinator.Ref { return coordinator.Ref{Job: l.job, ID: id} }

// refused checks the code of an error.
func (l *lab) refused(err error, want coordinator.Code) {
	l.Helper()
	if got := coordinator.CodeOf(err); got != want {
		l.Errorf("refusal = %q (%v), want %q", got, err, want)
	}
}

// ok ends the test on an error.
func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// run sends a script as a server would, without its retries.
func (l *lab) run(sc *script, args ...any) reply {
	l.Helper()
	value, err := l.try(sc, args...)
	if err != nil {
		l.Fatalf("script %s: %v", sc.verb, err)
	}
	r, err := parseReply(sc.verb, l.job, value)
	if err != nil {
		l.Fatal(err)
	}
	return r
}

func (l *lab) try(sc *script, args ...any) (any, error) {
	all := append([]any{decimal(l.now)}, args...)
	return sc.text.Run(context.Background(), l.redis, []string{l.keys.job()}, all...).Result()
}

// jobState reads the job as everybody does.
func (l *lab) jobState() coordinator.JobState {
	l.Helper()
	r := l.word(l.run(jobStateScript), "ok")
	state, err := parseJob(l.job, r.now, r.body[0])
	l.ok(err)
	return state.JobState
}

// do writes by hand.
func (l *lab) do(args ...any) {
	l.Helper()
	if err := l.redis.Do(context.Background(), args...).Err(); err != nil {
		l.Fatalf("%v: %v", args, err)
	}
}

// values are fields of a hash.
type values map[string]string

// record writes a record and its index entries, and sees to it that the job has given the id.
func (l *lab) record(id int64, changed values) {
	l.Helper()
	fields := values{
		"v": "1", "status": "pending", "epoch": "0", "rev": "1", "ts": decimal(labTime), "start": decimal(labTime),
		"timeout": "60000", "required": "3", "acked": "0", "tasks": "", "version": "1", "entries": "0", "bytes": "0",
	}
	maps.Copy(fields, changed)
	if fields["status"] != "pending" && fields["ended"] == "" {
		fields["ended"] = decimal(labTime)
	}
	l.do(append([]any{"HSET", l.keys.record(id)}, flat(fields)...)...)
	l.do("SADD", jobsKey(l.server.Prefix), l.job)
	next, _ := l.redis.HGet(context.Background(), l.keys.job(), "next").Int64()
	l.do("HSET", l.keys.job(), "next", decimal(max(next, id+1)))
	l.do("HSETNX", l.keys.job(), "epoch", "0")
	indexes := map[string][]string{
		"pending": {l.keys.pending()}, "completed": {l.keys.completed(), l.keys.retained()},
		"expired": {l.keys.ended(), l.keys.remains()}, "aborted": {l.keys.ended(), l.keys.remains()},
	}[fields["status"]]
	for _, index := range append(indexes, l.keys.index()) {
		l.do("ZADD", index, id, id)
	}
	if fields["status"] == "pending" && fields["timeout"] != "0" {
		l.do("ZADD", l.keys.deadlines(), labNumber(fields["start"])+labNumber(fields["timeout"]), id)
	}
}

// ack writes an acknowledgement by hand, with the part that counts.
func (l *lab) ack(id int64, task, attempt string, p storedPart) {
	l.Helper()
	place := l.redis.HLen(context.Background(), l.keys.acks(id)).Val() + 1
	l.do("HSET", l.keys.acks(id), task, fmt.Sprintf("%s|%d|%d|%d|%d|%s|token", attempt, labTime+5, place, p.Entries, p.Bytes, p.Digest))
	l.do("ZADD", l.keys.acked(id), 0, task)
	if p.uploadID != "" {
		l.do("HSET", l.keys.parts(id), task, partFields(p))
	}
	l.do("HINCRBY", l.keys.record(id), "acked", 1)
	l.do("HINCRBY", l.keys.record(id), "entries", p.Entries)
	l.do("HINCRBY", l.keys.record(id), "bytes", p.Bytes)
}

// upload writes a part that waits for its acknowledgement.
func (l *lab) upload(id int64, task string, p storedPart) {
	l.Helper()
	l.do("HSET", l.keys.parts(id), task, partFields(p))
	l.do("SADD", l.keys.staged(id), task)
	l.chunks(id, p)
}

// chunks writes the chunks of a part, one byte each.
func (l *lab) chunks(id int64, p storedPart) {
	l.Helper()
	for n := range p.chunks {
		l.do("SET", l.keys.chunk(id, p.uploadID, n), "x")
	}
}

func partFields(p storedPart) string {
	return fmt.Sprintf("%s|%d|%d|%d|%s", p.uploadID, p.chunks, p.Bytes, p.Entries, p.Digest)
}

// piece is a part of as many chunks, with made-up numbers.
func piece(uploadID string, chunks int) storedPart {
	return storedPart{uploadID: uploadID, chunks: chunks, PartInfo: coordinator.PartInfo{
		Entries: int64(chunks), Bytes: int64(chunks) * coordinator.ChunkBytes, Digest: "sha256:" + uploadID,
	}}
}

// names writes the list of expected tasks of a checkpoint.
func (l *lab) names(token string, names ...string) {
	l.Helper()
	for _, name := range names {
		l.do("ZADD", l.keys.tasks(token), 0, name)
		l.do("ZADD", l.keys.missing(token), 0, name)
	}
}

func (l *lab) field(key, name string) string {
	l.Helper()
	value, err := l.redis.HGet(context.Background(), key, name).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis does not wrap Nil.
		l.Fatalf("HGET %s %s: %v", key, name, err)
	}
	return value
}

// members are the members of a sorted set in its order.
func (l *lab) members(key string) []string {
	l.Helper()
	members, err := l.redis.ZRange(context.Background(), key, 0, -1).Result()
	if err != nil {
		l.Fatalf("ZRANGE %s: %v", key, err)
	}
	return members
}

func (l *lab) exists(key string) bool {
	l.Helper()
	return l.redis.Exists(context.Background(), key).Val() == 1
}

// everything is all that the lab's Redis holds under its prefix, to see that nothing changed.
func (l *lab) everything() map[string]string {
	l.Helper()
	ctx := context.Background()
	found := map[string]string{}
	scan := l.redis.Scan(ctx, 0, l.keys.base+"*", 1000).Iterator()
	for scan.Next(ctx) {
		dump, err := l.redis.Dump(ctx, scan.Val()).Result()
		if err != nil {
			l.Fatalf("DUMP %s: %v", scan.Val(), err)
		}
		found[scan.Val()] = dump
	}
	return found
}

// unchanged checks that f leaves everything as it is.
func (l *lab) unchanged(f func()) {
	l.Helper()
	before := l.everything()
	f()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(l.everything()))); diff != "" {
		l.Errorf("keys changed (-before +after):\n%s", diff)
	}
	for key, value := range l.everything() {
		if before[key] != value {
			l.Errorf("the value of %s changed", key)
		}
	}
}

// word checks the word of a reply, and gives it back.
func (l *lab) word(r reply, want string) reply {
	l.Helper()
	if r.word != want {
		l.Fatalf("word = %q %v, want %q", r.word, r.body, want)
	}
	return r
}

// same checks a value.
func (l *lab) same(what string, got, want any) {
	l.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func flat(fields values) []any {
	var list []any
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		list = append(list, name, fields[name])
	}
	return list
}

func labNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// shown is the id of a view in a reply.
func shown(view any) string {
	return view.([]any)[0].(string)
}
