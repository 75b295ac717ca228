package handlers_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestStatisticsOfAJobThatDidNothing(t *testing.T) {
	t.Parallel()
	f := serve(t)
	const none = `{"min":0,"avg":0,"max":0,"p50":0,"p90":0,"p95":0,"p99":0}`
	same(t, f.do("GET", "/checkpoints/stats", "").want(http.StatusOK), `{"job":"default","epoch":0,"observedAt":1795977600000,
		"failing":false,"consecutiveFailures":0,"freshness":"never",
		"counts":{"triggered":0,"pending":0,"completed":0,"failed":0,"deleted":0,"restores":0,"restoredBytes":0,
			"reasons":{"expired":0,"declined":0,"aborted":0,"superseded":0,"evicted":0}},
		"summary":{"checkpoints":0,"durationMs":`+none+`,"bytes":`+none+`,"entries":`+none+`},
		"latest":{},"tasks":{"slowest":[]},"restores":[]}`)
	f.do("GET", "/checkpoints/stats?job=orders", "").refused(coordinator.CodeJobNotFound)
}

func TestStatisticsTellWhatBecameOfTheCheckpoints(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{settings: func(s *coordinator.Settings) { s.Keep = 1 }})
	acknowledge := func(path, task string, after time.Duration) {
		f.clock.advance(after)
		f.do("POST", path+"/acks", `{"taskId":"`+task+`","state":{"a":1}}`).want(http.StatusOK)
	}
	for range 2 { // the second makes retention take the first
		path := f.trigger(`{"requiredTaskAcks":2}`)
		acknowledge(path, "task-1", 100*time.Millisecond)
		acknowledge(path, "task-2", 300*time.Millisecond)
	}
	f.do("POST", f.trigger("")+"/abort", `{"taskId":"task-1","reason":"disk is full"}`).want(http.StatusOK)
	f.do("POST", f.trigger("")+"/abort", "").want(http.StatusOK)
	f.trigger("")
	f.do("POST", "/checkpoints/recover", "").want(http.StatusOK)
	f.trigger("")
	whole := f.do("GET", "/checkpoints/1/restore", "", "User-Agent", "test\u0085/1\xff").want(http.StatusOK)
	f.do("GET", "/checkpoints/1/restore", "", "Range", "bytes=0-9", "User-Agent", "test/2").want(http.StatusPartialContent)

	var stats api.Stats
	f.do("GET", "/checkpoints/stats", "").want(http.StatusOK).into(&stats)
	bytes := int64(len(whole.body))
	if stats.Latest.Completed == nil || stats.Latest.Completed.CheckpointID != 1 {
		t.Errorf("latest completed is %+v", stats.Latest.Completed)
	}
	stats.Latest.Completed = nil
	one := func(value int64) api.Distribution {
		return api.Distribution{Min: value, Avg: value, Max: value, P50: value, P90: value, P95: value, P99: value}
	}
	now := f.clock.Now()
	second := api.RestoreRecord{CheckpointID: 1, At: now, Bytes: 10, Finished: true, By: new("127.0.0.1 test/2")}
	want := api.Stats{
		Job: "default", Epoch: 1, ObservedAt: now, Failing: true, ConsecutiveFailures: 1, Freshness: api.FreshnessHealthy,
		Counts: api.StatsCounts{
			Triggered: 6, Pending: 1, Completed: 2, Failed: 3, Deleted: 1, Restores: 2, RestoredBytes: bytes + 10,
			Reasons: api.StatsReasons{Declined: 1, Aborted: 1, Superseded: 1},
		},
		Summary: api.StatsSummary{Checkpoints: 2, DurationMs: one(400), Bytes: one(bytes), Entries: one(2)},
		Latest: api.StatsLatest{
			Failed:   &api.JobFailure{CheckpointID: 2, Reason: api.FailureReasonDeclined, TaskID: new("task-1"), Message: new("disk is full"), At: now},
			Restored: &second,
		},
		Tasks: api.StatsTasks{
			Straggler: &api.Straggler{TaskID: "task-2", Last: 2, Of: 2},
			Slowest: []api.TaskLatency{
				{TaskID: "task-2", Checkpoints: 1, LatencyMs: one(400)}, {TaskID: "task-1", Checkpoints: 1, LatencyMs: one(100)},
			},
		},
		Restores: []api.RestoreRecord{second, {CheckpointID: 1, At: now, Bytes: bytes, Finished: true, By: new("127.0.0.1 test/1")}},
	}
	if diff := cmp.Diff(want, stats); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
}

// timed is a store that notes how much time it is given.
type timed struct {
	coordinator.Store
	given chan time.Duration
}

func (s timed) note(ctx context.Context) {
	if deadline, has := ctx.Deadline(); has {
		s.given <- time.Until(deadline)
	}
}

func (s timed) History(ctx context.Context, job string) (coordinator.History, error) {
	s.note(ctx)
	return s.Store.History(ctx, job)
}

func (s timed) DeleteJob(ctx context.Context, call coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	s.note(ctx)
	return s.Store.DeleteJob(ctx, call)
}

func TestWhatTakesSeveralStepsHasTimeForThem(t *testing.T) {
	t.Parallel()
	given := make(chan time.Duration, 1)
	f := serve(t, setup{impatient: true, store: func(s coordinator.Store) coordinator.Store { return timed{s, given} }})
	for _, call := range []string{"GET /checkpoints/stats", "DELETE /jobs/default"} {
		method, path, _ := strings.Cut(call, " ")
		f.do(method, path, "")
		if got := <-given; got < 5*time.Second {
			t.Errorf("%s has %v", call, got)
		}
	}
}

func TestStatisticsShowTheNewestRestores(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.completed(`{}`)
	for range 21 {
		f.do("GET", path+"/restore", "", "User-Agent", long(5000)).want(http.StatusOK)
	}
	var stats api.Stats
	f.do("GET", "/checkpoints/stats", "").want(http.StatusOK).into(&stats)
	if len(stats.Restores) != 20 || stats.Counts.Restores != 21 {
		t.Errorf("%d restores are shown and %d counted", len(stats.Restores), stats.Counts.Restores)
	}
	if by := *stats.Restores[0].By; len(by) > 256 {
		t.Errorf("the requester has %d bytes", len(by))
	}
}
