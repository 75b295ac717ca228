package handlers

import (
	"context"
	"slices"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// GetStats reads a job's statistics.
func (s *server) GetStats(ctx context.Context, request api.GetStatsRequestObject) (api.GetStatsResponseObject, error) {
	stats, err := s.coordinator.Stats(ctx, jobOf(request.Params.Job))
	if err != nil {
		return nil, err
	}
	return api.GetStats200JSONResponse(statsOf(&stats)), nil
}

func statsOf(stats *coordinator.Stats) api.Stats {
	state, completions := &stats.State, &stats.Completions
	return api.Stats{
		Job: state.Job, Epoch: state.Epoch, ObservedAt: state.ObservedAt, Failing: state.Failing,
		ConsecutiveFailures: state.ConsecutiveFailures, Freshness: api.Freshness(state.Freshness(stats.Settings)),
		Counts: countsOf(stats.Counts, state.Pending),
		Summary: api.StatsSummary{
			Checkpoints: completions.Count, DurationMs: distributionOf(completions.DurationMs),
			Bytes: distributionOf(completions.Bytes), Entries: distributionOf(completions.Entries),
		},
		Latest: latestOfEachKind(stats), Tasks: statsTasksOf(stats),
		Restores: restoreRecordsOf(stats.Restores[:min(len(stats.Restores), coordinator.RestoresShown)]),
	}
}

func countsOf(counts coordinator.Counts, pending int) api.StatsCounts {
	return api.StatsCounts{
		Triggered: counts.Triggered, Pending: pending, Completed: counts.Completed, Failed: counts.Failed(),
		Deleted: counts.Deleted, Restores: counts.Restores, RestoredBytes: counts.RestoredBytes,
		Reasons: api.StatsReasons{
			Expired: counts.Expired, Declined: counts.Declined, Aborted: counts.Aborted,
			Superseded: counts.Superseded, Evicted: counts.Evicted,
		},
	}
}

func distributionOf(d coordinator.Distribution) api.Distribution {
	return api.Distribution{Min: d.Min, Avg: d.Avg, Max: d.Max, P50: d.P50, P90: d.P90, P95: d.P95, P99: d.P99}
}

// latestOfEachKind names the last completed and failed checkpoint, and the last restore
// that went through.
func latestOfEachKind(stats *coordinator.Stats) api.StatsLatest {
	out := api.StatsLatest{Failed: jobFailureOf(stats.State.LastFailure)}
	if stats.Latest != nil {
		out.Completed = new(checkpointOf(*stats.Latest))
	}
	if i := slices.IndexFunc(stats.Restores, func(r coordinator.RestoreRecord) bool { return r.Finished }); i >= 0 {
		out.Restored = new(restoreRecordOf(stats.Restores[i]))
	}
	return out
}

func statsTasksOf(stats *coordinator.Stats) api.StatsTasks {
	out := api.StatsTasks{Slowest: make([]api.TaskLatency, len(stats.Slowest))}
	for i, task := range stats.Slowest {
		out.Slowest[i] = api.TaskLatency{TaskID: task.TaskID, Checkpoints: task.Count, LatencyMs: distributionOf(task.LatencyMs)}
	}
	if straggler := stats.Straggler; straggler != nil {
		out.Straggler = &api.Straggler{TaskID: straggler.TaskID, Last: straggler.Last, Of: straggler.Of}
	}
	return out
}

func restoreRecordsOf(restores []coordinator.RestoreRecord) []api.RestoreRecord {
	out := make([]api.RestoreRecord, len(restores))
	for i, restore := range restores {
		out[i] = restoreRecordOf(restore)
	}
	return out
}

func restoreRecordOf(restore coordinator.RestoreRecord) api.RestoreRecord {
	return api.RestoreRecord{
		CheckpointID: restore.CheckpointID, At: restore.At, Bytes: restore.Bytes, Finished: restore.Finished, By: present(restore.By),
	}
}
