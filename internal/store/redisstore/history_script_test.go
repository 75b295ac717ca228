package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestHistoryScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.word(l.run(historyScript), "job_not_found")
	l.record(0, values{"required": "2"})
	l.now += 30
	l.word(l.run(acknowledgeScript, acks(0, "t", 0,
		coordinator.AckItem{TaskID: "a", Part: aPart("x", "sha256:x")}, coordinator.AckItem{TaskID: "c|d"}, coordinator.AckItem{TaskID: "late"},
	)...), "ok")
	l.record(1, values{})
	l.word(l.run(completeScript, 1, "1", "0|0|0", "t"), "ok")
	l.word(l.run(recordRestoreScript, "one", 0, 17, "1", "me|you", 2), "ok")
	l.unchanged(func() { l.word(l.run(recordRestoreScript, "one", 0, 17, "1", "me|you", 2), "ok") })
	for _, token := range []string{"two", "three"} {
		l.now++
		l.word(l.run(recordRestoreScript, token, 1, int64(coordinator.MaxID), "0", "", 2), "ok")
	}
	got, err := l.store().History(t.Context(), "orders")
	l.ok(err)
	l.same("samples", got.Samples, []coordinator.Sample{
		{CheckpointID: 1, CompletedAt: labTime + 30, DurationMs: 30},
		{CheckpointID: 0, CompletedAt: labTime + 30, DurationMs: 30, Entries: 1, Bytes: 1, Acks: 2, LastTask: "c|d"},
	})
	l.same("restores", got.Restores, []coordinator.RestoreRecord{
		{CheckpointID: 1, At: labTime + 32, Bytes: coordinator.MaxID}, {CheckpointID: 1, At: labTime + 31, Bytes: coordinator.MaxID},
	})
	l.same("counts", got.Counts, coordinator.Counts{Completed: 2, Restores: 3, RestoredBytes: 17 + 2*coordinator.MaxID})

	l = newLab(t, "unknown")
	l.unchanged(func() { l.word(l.run(recordRestoreScript, "one", 0, 17, "1", "me", 2), "ok") })
}

// What has the name of a job's history and is not ours stays, and disturbs nothing else.
func TestForeignHistoryDisturbsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	for _, key := range []string{l.keys.stats(), l.keys.samples()} {
		l.do("SET", key, "foreign")
	}
	l.record(0, values{"required": "1"})
	l.word(l.run(acknowledgeScript, acks(0, "t", 0, coordinator.AckItem{TaskID: "a"})...), "ok")
	l.same("the log", l.log(), []string{"0-1 checkpoint.completed"})
	l.same("when it completed", l.jobState().LastCompletedAt, l.now)
	l.word(l.run(recordRestoreScript, "one", 0, 17, "1", "me", 2), "ok")
	got, err := l.store().History(t.Context(), "orders")
	l.ok(err)
	l.same("restores", len(got.Restores), 1)
	l.same("samples", len(got.Samples), 0)
	l.same("counts", got.Counts, coordinator.Counts{})
	for _, key := range []string{l.keys.stats(), l.keys.samples()} {
		l.same(key, l.redis.Get(t.Context(), key).Val(), "foreign")
	}
	l.do("DEL", l.keys.restores())
	l.do("SET", l.keys.restores(), "foreign")
	if _, err := l.store().History(t.Context(), "orders"); err != nil {
		t.Errorf("history with foreign restores: %v", err)
	}
}

func TestSamplesAreTrimmedNowAndThen(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	sample := "7|1|2|3|4|5|task"
	for range 1100 {
		l.do("LPUSH", l.keys.samples(), sample)
	}
	l.record(8, values{})
	got, err := l.store().History(t.Context(), "orders")
	l.ok(err)
	l.same("samples that are read", len(got.Samples), coordinator.SamplesKept)
	l.word(l.run(completeScript, 8, "1", "0|0|0", "t"), "ok")
	l.same("samples that are kept", l.redis.LLen(t.Context(), l.keys.samples()).Val(), int64(coordinator.SamplesKept))
}

func TestWhatWasOverdueCountsBeforeACompletion(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(0, values{"required": "1"})
	l.record(1, values{"start": decimal(labTime - 60_001)})
	l.word(l.run(acknowledgeScript, acks(0, "t", 0, coordinator.AckItem{TaskID: "a"})...), "ok")
	l.same("the log", l.log(), []string{"0-1 checkpoint.expired", "0-2 job.failing", "0-3 checkpoint.completed", "0-4 job.healthy"})
	state := l.jobState()
	l.same("failures in a row", state.ConsecutiveFailures, 0)
	l.same("the last failure", state.LastFailure.CheckpointID, int64(1))

	// 0 has completed: what is older says nothing about the job.
	l.do("HSET", l.keys.job(), "okid", 9)
	l.record(2, values{})
	l.word(l.run(abortScript, 2, "a", "0", "", "", "t"), "ok")
	l.same("failures in a row after an old one", l.jobState().ConsecutiveFailures, 0)
	l.same("the last failure", l.jobState().LastFailure.CheckpointID, int64(2))
}

func TestRetentionWalks(t *testing.T) {
	t.Parallel()
	// walk makes completed checkpoints of a byte each, a second apart, and sweeps.
	walk := func(t *testing.T, n int64, limits string, arrange func(l *lab)) (evicted []int64, l *lab) {
		t.Helper()
		l = newLab(t, "orders")
		for id := range n {
			l.record(id, values{"status": "completed", "ended": decimal(labTime - 1000*(n-id)), "bytes": "1"})
		}
		if arrange != nil {
			arrange(l)
		}
		return l.word(l.run(sweepScript, limits, 100), "ok").evicted, l
	}
	lease := func(id int64) func(l *lab) {
		return func(l *lab) { l.do("ZADD", l.keys.leases(id), labTime+1, "lease") }
	}
	for what, test := range map[string]struct {
		limits  string
		arrange func(l *lab)
		want    []int64
	}{
		"no limit":                     {"0|0|0", nil, nil},
		"by age":                       {"0|2500|0", nil, []int64{0, 1, 2}},
		"by age, all but the newest":   {"0|1|0", nil, []int64{0, 1, 2, 3}},
		"by age, past a younger one":   {"0|2500|0", func(l *lab) { l.do("HSET", l.keys.record(1), "ended", labTime) }, []int64{0, 2}},
		"by bytes":                     {"0|0|3", nil, []int64{0, 1}},
		"by bytes, past a leased one":  {"0|0|3", lease(0), []int64{1, 2}},
		"by bytes, all but the newest": {"0|0|1", func(l *lab) { l.do("HSET", l.keys.record(4), "bytes", 7) }, []int64{0, 1, 2, 3}},
		"by number, past a leased one": {"3|0|0", lease(0), []int64{1}},
		"by the job's own number":      {"1|0|0", func(l *lab) { l.do("HSET", l.keys.job(), "s_keep", 4) }, []int64{0}},
		"by the job's own 0":           {"1|1|1", func(l *lab) { l.do("HSET", l.keys.job(), "s_keep", 0, "s_age", 0, "s_bytes", 0) }, nil},
		"past what is not ours":        {"4|0|0", func(l *lab) { l.do("SET", l.keys.record(9), "x"); l.do("ZADD", l.keys.retained(), -1, 9) }, []int64{0}},
		"but the newest that is ours": {"0|1|0", func(l *lab) {
			l.do("SET", l.keys.record(9), "foreign")
			l.do("ZADD", l.keys.retained(), 9, 9)
		}, []int64{0, 1, 2, 3}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			evicted, l := walk(t, 5, test.limits, test.arrange)
			l.same("evicted", evicted, test.want)
		})
	}

	t.Run("by age, behind as many younger ones as were pending together", func(t *testing.T) {
		t.Parallel()
		for younger, want := range map[int64][]int64{99: {99}, 100: nil} {
			evicted, l := walk(t, 150, "0|200000|0", func(l *lab) { l.do("HSET", l.keys.record(younger), "ended", labTime-200_001) })
			l.same("evicted", evicted, want)
		}
	})

	t.Run("in steps, behind any number that are passed over", func(t *testing.T) {
		t.Parallel()
		evicted, l := walk(t, 350, "0|0|1", func(l *lab) {
			for id := range int64(150) {
				lease(id)(l)
			}
		})
		l.same("evicted in the first step", len(evicted), 100)
		l.same("the first of them", evicted[0], int64(150))
		l.same("evicted in the second", len(l.word(l.run(sweepScript, "0|0|1", 100), "ok").evicted), 99)
		l.same("left", len(l.members(l.keys.retained())), 151)
		l.same("sum of bytes", l.field(l.keys.job(), "rbytes"), "151")
	})
}

// Once somebody needed the sum of bytes it follows every change of what is retained.
func TestTheSumOfRetainedBytesIsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	for id := range int64(4) {
		l.record(id, values{"status": "completed", "bytes": "5"})
	}
	const limits = "0|0|1000"
	sum := func(what, want string) {
		t.Helper()
		l.same("sum "+what, l.field(l.keys.job(), "rbytes"), want)
	}
	sum("before anybody needs it", "")
	l.word(l.run(sweepScript, limits, 100), "ok")
	sum("of all", "20")
	l.word(l.run(updateScript, 0, "0", "", "0", "", "1", "0", 0), "ok")
	l.word(l.run(updateScript, 0, "0", "", "0", "", "1", "0", 0), "ok")
	sum("without a pinned one", "15")
	l.word(l.run(updateScript, 0, "0", "", "0", "", "0", "0", 0), "ok")
	sum("with it again", "20")
	l.word(l.run(deleteScript, 1, "0", "0", 0), "ok")
	sum("without a deleted one", "15")
	l.record(4, values{"bytes": "7"})
	l.word(l.run(completeScript, 4, "1", limits, "t"), "ok")
	sum("with a new one", "22")
	l.do("SET", l.keys.record(2), "foreign")
	l.word(l.run(cleanupScript, 1, 100, "0"), "ok")
	sum("when it is not known", "")
	l.word(l.run(sweepScript, "0|0|1", 100), "ok")
	l.record(5, values{"bytes": "1"})
	l.word(l.run(completeScript, 5, "1", limits, "t"), "ok")
	sum("added up anew", "8")
}
