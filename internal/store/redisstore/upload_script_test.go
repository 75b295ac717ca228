package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// sender are the arguments that identify an upload: checkpoint 7, the task, epoch 2,
// attempt 4, upload "up".
func sender(task string) []any { return []any{7, task, "2", "4", "up"} }

// begin calls begin_upload or check_upload for at most three tasks.
func (l *lab) begin(sc *script, args []any) reply {
	l.Helper()
	return l.run(sc, append(args, 60_000, 3, "")...)
}

// write stores a chunk of the upload "up".
func (l *lab) chunk(index int, chunk string) reply {
	l.Helper()
	r := l.run(writeChunkScript, 7, "up", index, len(chunk))
	l.redis.SetXX(l.Context(), l.keys.chunk(7, "up", index), chunk, 0)
	return r
}

func (l *lab) commit(task string, chunks, bytes int, ack bool) reply {
	l.Helper()
	return l.run(commitUploadScript, append(sender(task), 3, chunks, bytes, 1, "sha256:d", flag(ack), "5|0|0", "")...)
}

// uploadLab has the pending checkpoint 7 for named tasks, in epoch 2.
func uploadLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t, "orders")
	l.record(7, values{"tasks": "named"})
	l.names("named", "a", "b", "c")
	l.do("HSET", l.keys.job(), "epoch", 2)
	return l
}

// Three scripts judge an upload, and give the same refusals in the same order.
func TestUploadRefusals(t *testing.T) {
	t.Parallel()
	judges := map[string]func(l *lab, args []any) reply{
		"begin_upload": func(l *lab, args []any) reply { return l.begin(beginUploadScript, args) },
		"check_upload": func(l *lab, args []any) reply { return l.begin(checkUploadScript, args) },
		"commit_upload": func(l *lab, args []any) reply {
			return l.run(commitUploadScript, append(args, 3, 0, 0, 0, "sha256:d", "1", "5|0|0", "")...)
		},
	}
	for name, judge := range judges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "orders")
			l.word(judge(l, sender("a")), "job_not_found")

			l = uploadLab(t)
			l.record(9, values{"status": "completed"})
			r := l.word(judge(l, []any{8, "a", "", "0", "up"}), "checkpoint_deleted")
			l.same("next steps", r.body, []any{"7", "9"})
			l.word(judge(l, []any{10, "a", "", "0", "up"}), "checkpoint_not_found")

			// From here on each refusal stands before those above it.
			l.do("HSET", l.keys.parts(7), "b", "", "c", "", "d", "")
			l.do("SADD", l.keys.staged(7), "b", "c", "d")
			r = l.word(judge(l, sender("a")), "limit_exceeded")
			l.same("arguments", r.body, []any{"3"})
			if name != "begin_upload" {
				l.word(judge(l, sender("b")), "upload_lost")
			}
			l.do("HSET", l.keys.record(7), "status", "completed", "ended", labTime)
			l.word(judge(l, sender("a")), "checkpoint_completed")
			l.ack(7, "a", "4", piece("older", 1))
			r = l.word(judge(l, sender("a")), "ack_conflict")
			l.same("arguments", r.body, []any{"a"})
			l.do("HSET", l.keys.record(7), "status", "aborted")
			l.word(judge(l, sender("a")), "checkpoint_aborted")
			l.do("HSET", l.keys.record(7), "status", "pending")
			l.now += 60_001
			r = l.word(judge(l, sender("a")), "checkpoint_expired")
			l.same("transitions", len(r.ended), 1)
			l.do("HSET", l.keys.attempts(), "a", 5)
			r = l.word(judge(l, sender("a")), "stale_attempt")
			l.same("arguments", r.body, []any{"a", "4", "5"})
			r = l.word(judge(l, []any{7, "a", "1", "4", "up"}), "stale_epoch")
			l.same("arguments", r.body, []any{"1", "2"})
			r = l.word(judge(l, []any{7, "x", "1", "4", "up"}), "task_not_expected")
			l.same("arguments", r.body, []any{"x"})
		})
	}
}

func TestBeginUploadScript(t *testing.T) {
	t.Parallel()
	l := uploadLab(t)
	l.word(l.begin(beginUploadScript, sender("a")), "ok")
	l.same("index", l.members(l.keys.uploads()), []string{"7:up"})
	l.same("lease", l.redis.ZScore(t.Context(), l.keys.uploads(), "7:up").Val(), float64(labTime+60_000))
	l.word(l.begin(beginUploadScript, sender("a")), "ok")
	l.same("index after a second run", l.members(l.keys.uploads()), []string{"7:up"})
	l.commit("a", 0, 0, false)
	l.unchanged(func() { l.word(l.begin(beginUploadScript, sender("a")), "ok") })
}

func TestWriteChunkScript(t *testing.T) {
	t.Parallel()
	l := uploadLab(t)
	l.unchanged(func() { l.word(l.chunk(0, "abc"), "upload_lost") })
	l.begin(beginUploadScript, sender("a"))
	// Several chunks are in flight, so they come in any order.
	l.word(l.chunk(2, "z"), "ok")
	l.word(l.chunk(0, "abc"), "ok")
	l.word(l.chunk(0, "abc"), "ok")
	l.same("tally", l.redis.HGetAll(t.Context(), l.keys.upload(7, "up")).Val(), map[string]string{"n": "2", "top": "3", "bytes": "4"})
	l.same("chunk", l.redis.Get(t.Context(), l.keys.chunk(7, "up", 0)).Val(), "abc")
	l.word(l.chunk(0, "abcd"), "ok")
	l.same("bytes", l.field(l.keys.upload(7, "up"), "bytes"), "5")
	l.run(discardUploadScript, 7, "up")
	l.unchanged(func() { l.word(l.chunk(1, "late"), "upload_lost") })
}

func TestCheckUploadScript(t *testing.T) {
	t.Parallel()
	l := uploadLab(t)
	l.begin(beginUploadScript, sender("a"))
	l.now += 50_000
	l.word(l.begin(checkUploadScript, sender("a")), "ok")
	l.same("lease", l.redis.ZScore(t.Context(), l.keys.uploads(), "7:up").Val(), float64(labTime+110_000))
	l.run(discardUploadScript, 7, "up")
	l.unchanged(func() { l.word(l.begin(checkUploadScript, sender("a")), "upload_lost") })
}

func TestCommitUploadScript(t *testing.T) {
	t.Parallel()

	t.Run("flips one pointer and makes the older part garbage", func(t *testing.T) {
		t.Parallel()
		l := uploadLab(t)
		l.upload(7, "a", piece("older", 2))
		l.begin(beginUploadScript, sender("a"))
		l.chunk(0, "abc")
		l.word(l.commit("a", 1, 3, false), "ok")
		l.same("part", l.field(l.keys.parts(7), "a"), "up|1|3|1|sha256:d")
		l.same("garbage", l.members(l.keys.garbage()), []string{"upload:7:older:2"})
		l.same("staged", l.redis.SMembers(t.Context(), l.keys.staged(7)).Val(), []string{"a"})
		l.same("attempt", l.field(l.keys.attempts(), "a"), "4")
		l.same("running", l.members(l.keys.uploads()), []string{})
		l.same("tally is there", l.exists(l.keys.upload(7, "up")), false)
		l.same("bytes of the snapshot", l.field(l.keys.record(7), "bytes"), "0")

		// The second run comes when the checkpoint has ended meanwhile.
		l.do("HSET", l.keys.record(7), "status", "completed", "ended", l.now)
		l.unchanged(func() { l.word(l.commit("a", 1, 3, false), "ok") })
	})

	t.Run("acknowledges in the same step", func(t *testing.T) {
		t.Parallel()
		l := uploadLab(t)
		l.do("HSET", l.keys.record(7), "required", "1")
		l.do("ZREM", l.keys.tasks("named"), "b", "c")
		l.upload(7, "a", piece("older", 2))
		l.begin(beginUploadScript, sender("a"))
		l.chunk(0, "abc")
		l.now += 10
		r := l.word(l.commit("a", 1, 3, true), "ok")
		l.same("outcome", l.outcomes(r), []string{"acknowledged 1 completed 10"})
		l.same("transitions", len(r.ended), 1)
		l.same("ack", l.field(l.keys.acks(7), "a"), fmt.Sprintf("4|%d|1|1|3|sha256:d|up", labTime+10))
		l.same("staged is there", l.exists(l.keys.staged(7)), false)
		l.same("bytes of the snapshot", l.field(l.keys.record(7), "bytes"), "3")
		l.unchanged(func() {
			r = l.word(l.commit("a", 1, 3, true), "ok")
			l.same("outcome of a second run", l.outcomes(r), []string{"acknowledged 1 completed 10"})
		})
	})

	t.Run("takes an empty part", func(t *testing.T) {
		t.Parallel()
		l := uploadLab(t)
		l.begin(beginUploadScript, sender("a"))
		l.word(l.commit("a", 0, 0, false), "ok")
		l.same("part", l.field(l.keys.parts(7), "a"), "up|0|0|1|sha256:d")
		l.same("staged", l.redis.SMembers(t.Context(), l.keys.staged(7)).Val(), []string{"a"})
	})

	t.Run("refuses what is not all there", func(t *testing.T) {
		t.Parallel()
		l := uploadLab(t)
		l.begin(beginUploadScript, sender("a"))
		l.chunk(0, "abc")
		l.chunk(2, "de")
		l.unchanged(func() {
			r := l.word(l.commit("a", 3, 5, false), "upload_incomplete")
			l.same("arguments", r.body, []any{"2", "5"})
			l.word(l.commit("a", 2, 5, false), "upload_incomplete")
			l.word(l.commit("a", 2, 4, false), "upload_incomplete")
		})
	})

	t.Run("changes nothing when Redis is full", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{Own: true})
		l := labOn(t, server, "orders")
		l.record(7, values{"required": "1"})
		l.do("HSET", l.keys.job(), "epoch", 2)
		l.begin(beginUploadScript, sender("a"))
		l.chunk(0, "abc")
		l.do("CONFIG", "SET", "maxmemory", 1)
		l.unchanged(func() {
			for _, ack := range []string{"0", "1"} {
				_, err := l.try(commitUploadScript, append(sender("a"), 3, 1, 3, 1, "sha256:d", ack, "5|0|0", "")...)
				if err == nil || !strings.Contains(err.Error(), "OOM") {
					t.Errorf("commit at maxmemory: %v, want OOM", err)
				}
			}
		})
	})
}

func TestDiscardUploadScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	l := labOn(t, server, "orders")
	l.record(7, values{})
	l.do("HSET", l.keys.job(), "epoch", 2)
	l.begin(beginUploadScript, sender("a"))
	l.chunk(1, "abc")
	// Giving up frees memory, so it must work when there is none.
	l.do("CONFIG", "SET", "maxmemory", 1)
	l.word(l.run(discardUploadScript, 7, "up"), "ok")
	l.same("running", l.members(l.keys.uploads()), []string{})
	l.same("garbage", l.members(l.keys.garbage()), []string{"upload:7:up:2"})
	l.same("tally is there", l.exists(l.keys.upload(7, "up")), false)
	l.unchanged(func() { l.word(l.run(discardUploadScript, 7, "up"), "ok") })
	if err := l.redis.ConfigSet(context.Background(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
}

// What is left of maxmemory is for acknowledgements: chunks stop before it is used up.
func TestChunksLeaveRoomInRedisForWhatIsSmall(t *testing.T) {
	t.Parallel()
	const most = 40 << 20
	own := redistest.Start(t, redistest.Options{Config: []string{"--maxmemory", strconv.Itoa(most), "--maxmemory-policy", "noeviction"}})
	l := labOn(t, own, "orders")
	l.record(7, values{"tasks": "named"})
	l.names("named", "a", "b", "c")
	l.do("HSET", l.keys.job(), "epoch", 2)
	l.word(l.begin(beginUploadScript, sender("a")), wordOK)
	chunk := strings.Repeat("x", 256<<10)
	index := 0
	for ; index < 160; index++ {
		if r := l.chunk(index, chunk); r.word != wordOK {
			l.word(r, "store_full")
			break
		}
	}
	if index < 100 || index > 152 {
		t.Errorf("%d chunks of 256 KiB went into 40 MB", index)
	}
	info, err := own.Client(t).InfoMap(t.Context(), "memory").Result()
	used, _ := strconv.Atoi(info["Memory"]["used_memory"])
	if err != nil || used > most*97/100 {
		t.Errorf("%d bytes of %d are used (%v)", used, most, err)
	}
}
