package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func statsOf(t *testing.T, store *logStore) coordinator.Stats {
	t.Helper()
	stats, err := coordinator.New(store, coordinator.Options{Settings: coordinator.DefaultSettings()}).Stats(t.Context(), coordinator.DefaultJob)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func TestDistributionsAreNearestRank(t *testing.T) {
	t.Parallel()
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	for _, tc := range []struct {
		name   string
		values []int64
		want   coordinator.Distribution
	}{
		{"nothing", nil, coordinator.Distribution{}},
		{"one", []int64{7}, coordinator.Distribution{Min: 7, Avg: 7, Max: 7, P50: 7, P90: 7, P95: 7, P99: 7}},
		{"two", []int64{4, 1}, coordinator.Distribution{Min: 1, Avg: 3, Max: 4, P50: 1, P90: 4, P95: 4, P99: 4}},
		{"ten", []int64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, coordinator.Distribution{Min: 1, Avg: 6, Max: 10, P50: 5, P90: 9, P95: 10, P99: 10}},
		{"a hundred", hundred, coordinator.Distribution{Min: 1, Avg: 51, Max: 100, P50: 50, P90: 90, P95: 95, P99: 99}},
		{
			"more together than an int64 holds",
			[]int64{1 << 62, 1 << 62, 1 << 62},
			coordinator.Distribution{Min: 1 << 62, Avg: 1 << 62, Max: 1 << 62, P50: 1 << 62, P90: 1 << 62, P95: 1 << 62, P99: 1 << 62},
		},
	} {
		store := newLogStore()
		for _, value := range tc.values {
			store.jobs[coordinator.DefaultJob].history.Samples = append(store.jobs[coordinator.DefaultJob].history.Samples,
				coordinator.Sample{DurationMs: value, Bytes: value, Entries: value})
		}
		want := coordinator.Summary{Count: len(tc.values), DurationMs: tc.want, Bytes: tc.want, Entries: tc.want}
		if diff := cmp.Diff(want, statsOf(t, store).Completions); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestTheStragglerCameLastMostOften(t *testing.T) {
	t.Parallel()
	sample := func(last string, acks int) coordinator.Sample { return coordinator.Sample{LastTask: last, Acks: acks} }
	for _, tc := range []struct {
		name    string
		samples []coordinator.Sample
		want    *coordinator.Straggler
	}{
		{"nothing completed", nil, nil},
		{"completed by hand", []coordinator.Sample{sample("", 3)}, nil},
		{"a task alone waits for nobody", []coordinator.Sample{sample("a", 1), sample("a", 1)}, nil},
		{
			"most often",
			[]coordinator.Sample{sample("a", 3), sample("b", 3), sample("b", 3), sample("", 3), sample("c", 1)},
			&coordinator.Straggler{TaskID: "b", Last: 2, Of: 3},
		},
		{"of equals the first by name", []coordinator.Sample{sample("b", 2), sample("a", 2)}, &coordinator.Straggler{TaskID: "a", Last: 1, Of: 2}},
	} {
		store := newLogStore()
		store.jobs[coordinator.DefaultJob].history.Samples = tc.samples
		if diff := cmp.Diff(tc.want, statsOf(t, store).Straggler); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// complete makes a completed checkpoint whose tasks acknowledged after the latencies.
func (j *logJob) complete(latencies map[string]int64) int64 {
	id := j.trigger()
	for task, latency := range latencies {
		j.acks[id] = append(j.acks[id], coordinator.Ack{TaskID: task, LatencyMs: latency})
	}
	j.at(id).AcknowledgedTasks = len(latencies)
	j.end(id, coordinator.StatusCompleted)
	return id
}

func TestTheSlowestTasksAreNamedSlowestFirst(t *testing.T) {
	t.Parallel()
	store := newLogStore()
	store.change(coordinator.DefaultJob, func(j *logJob) {
		j.complete(map[string]int64{"ancient": 1_000_000})
		for range 9 {
			j.complete(map[string]int64{"slow": 900, "even": 10, "also": 10})
		}
		j.complete(map[string]int64{"slow": 1900, "quick": 1})
		j.trigger()
	})
	stats := statsOf(t, store)
	same := func(n int64) coordinator.Distribution {
		return coordinator.Distribution{Min: n, Avg: n, Max: n, P50: n, P90: n, P95: n, P99: n}
	}
	want := []coordinator.TaskLatency{
		{TaskID: "slow", Count: 10, LatencyMs: coordinator.Distribution{Min: 900, Avg: 1000, Max: 1900, P50: 900, P90: 900, P95: 1900, P99: 1900}},
		{TaskID: "also", Count: 9, LatencyMs: same(10)},
		{TaskID: "even", Count: 9, LatencyMs: same(10)},
		{TaskID: "quick", Count: 1, LatencyMs: same(1)},
	}
	if diff := cmp.Diff(want, stats.Slowest); diff != "" {
		t.Error(diff)
	}
	if stats.Latest == nil || stats.Latest.ID != 10 {
		t.Errorf("the latest is %+v", stats.Latest)
	}
}

// A fleet of a hundred thousand must not make one GET read a million acknowledgements.
func TestStatsReadABoundedNumberOfAcknowledgements(t *testing.T) {
	t.Parallel()
	store := newLogStore()
	store.change(coordinator.DefaultJob, func(j *logJob) {
		for range 10 {
			latencies := map[string]int64{}
			for i := range 3000 {
				latencies[fmt.Sprintf("task-%d", i)] = int64(i)
			}
			j.complete(latencies)
		}
	})
	stats := statsOf(t, store)
	if pages := store.counted("tasks"); pages != 18 {
		t.Errorf("%d pages of a thousand were read; six checkpoints of 3000 fit", pages)
	}
	if len(stats.Slowest) != coordinator.SlowestTasks || stats.Slowest[0].TaskID != "task-2999" || stats.Slowest[0].Count != 6 {
		t.Errorf("%d named, the slowest is %+v", len(stats.Slowest), stats.Slowest[0])
	}
}

func TestACheckpointThatIsDeletedWhileStatsReadDoesNotFailThem(t *testing.T) {
	t.Parallel()
	store := newLogStore()
	store.change(coordinator.DefaultJob, func(j *logJob) {
		j.complete(map[string]int64{"a": 5})
		j.complete(map[string]int64{"a": 7})
	})
	store.before = func(_ context.Context, call string) {
		if call == "tasks" {
			store.set(func() {
				j := store.jobs[coordinator.DefaultJob]
				j.checkpoints = slices.DeleteFunc(j.checkpoints, func(c coordinator.Checkpoint) bool { return c.ID == 1 })
			})
		}
	}
	if stats := statsOf(t, store); len(stats.Slowest) != 1 || stats.Slowest[0].Count != 1 || stats.Slowest[0].LatencyMs.Max != 5 {
		t.Errorf("%+v", stats.Slowest)
	}
}

func TestStatsHandOnWhatTheStoreCounted(t *testing.T) {
	t.Parallel()
	store := newLogStore()
	j := store.jobs[coordinator.DefaultJob]
	j.history = coordinator.History{
		State:    coordinator.JobState{Job: coordinator.DefaultJob, Settings: coordinator.JobSettings{Keep: new(3)}},
		Counts:   coordinator.Counts{Triggered: 9, Completed: 3, Expired: 1, Declined: 2, Aborted: 1, Superseded: 1, Evicted: 1},
		Restores: []coordinator.RestoreRecord{{CheckpointID: 2, Bytes: 8}},
	}
	stats := statsOf(t, store)
	if stats.Counts != j.history.Counts || stats.Counts.Failed() != 6 || stats.Settings.Keep != 3 || stats.Settings.MaxConcurrent != 16 {
		t.Errorf("%+v", stats)
	}
	if diff := cmp.Diff(j.history.Restores, stats.Restores); diff != "" {
		t.Error(diff)
	}
}
