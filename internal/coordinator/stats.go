package coordinator

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
)

const (
	// latencySamples is how many completed checkpoints the latencies of tasks look back on,
	// as far as retention has left them.
	latencySamples = 10
	// latencyAcks bounds how many acknowledgements one call of Stats reads.
	latencyAcks = 20_000
)

// Stats are a job's statistics.
type Stats struct {
	State    JobState
	Settings Settings // what holds for the job
	Counts   Counts
	// Completions sums up the last SamplesKept completions.
	Completions Summary
	// Slowest are the tasks that acknowledged latest, slowest first, over the newest
	// completed checkpoints that are still there.
	Slowest []TaskLatency
	// Straggler is the task that most often came last among Completions; nil is none.
	Straggler *Straggler
	// Latest is the latest completed checkpoint, nil for none.
	Latest   *Checkpoint
	Restores []RestoreRecord
}

// Summary describes a number of completions.
type Summary struct {
	Count                      int
	DurationMs, Bytes, Entries Distribution
}

// Distribution sums up values; all are 0 where there are none.
type Distribution struct {
	Min, Avg, Max, P50, P90, P95, P99 int64
}

// TaskLatency is how long after its checkpoint's start a task acknowledges.
type TaskLatency struct {
	TaskID    string
	Count     int
	LatencyMs Distribution
}

// Straggler is a task that keeps the others waiting.
type Straggler struct {
	TaskID string
	// Last is how often its acknowledgement was the last one, Of the completions looked at.
	Last, Of int
}

// Stats reads a job's statistics.
func (c *Coordinator) Stats(ctx context.Context, job string) (Stats, error) {
	var f faults
	f.param("job", CheckJob(job))
	if err := f.err(); err != nil {
		return Stats{}, err
	}
	history, err := call(c, "history", func() (History, error) { return c.store.History(ctx, job) })
	if err != nil {
		return Stats{}, err
	}
	stats := Stats{
		State: history.State, Settings: history.State.Settings.Over(c.settings), Counts: history.Counts,
		Completions: summarize(history.Samples), Straggler: straggler(history.Samples), Restores: history.Restores,
	}
	completed, err := c.List(ctx, ListCall{Job: job, Status: StatusCompleted, Before: -1, Limit: latencySamples})
	if err != nil {
		return Stats{}, err
	}
	if len(completed.Checkpoints) > 0 {
		stats.Latest = &completed.Checkpoints[0]
	}
	stats.Slowest, err = c.slowest(ctx, completed.Checkpoints)
	return stats, err
}

// slowest reads the acknowledgements of some checkpoints. One that is deleted meanwhile
// counts as far as it was read.
func (c *Coordinator) slowest(ctx context.Context, checkpoints []Checkpoint) ([]TaskLatency, error) {
	latencies := map[string][]int64{}
	budget := latencyAcks
	for _, checkpoint := range checkpoints {
		if budget -= checkpoint.AcknowledgedTasks; budget < 0 {
			break
		}
		page := TasksCall{Ref: Ref{Job: checkpoint.Job, ID: checkpoint.ID}, Status: TaskAcknowledged, Limit: MaxListLimit}
		for {
			result, err := c.Tasks(ctx, page)
			if CodeOf(err) == CodeCheckpointDeleted {
				break
			}
			if err != nil {
				return nil, err
			}
			for _, task := range result.Tasks {
				latencies[task.TaskID] = append(latencies[task.TaskID], task.Ack.LatencyMs)
			}
			if page.After = result.Next; page.After == "" {
				break
			}
		}
	}
	all := make([]TaskLatency, 0, len(latencies))
	for task, values := range latencies {
		all = append(all, TaskLatency{TaskID: task, Count: len(values), LatencyMs: distribution(values)})
	}
	slices.SortFunc(all, func(a, b TaskLatency) int {
		return cmp.Or(cmp.Compare(b.LatencyMs.Avg, a.LatencyMs.Avg), cmp.Compare(a.TaskID, b.TaskID))
	})
	return all[:min(len(all), SlowestTasks)], nil
}

func summarize(samples []Sample) Summary {
	of := func(value func(Sample) int64) Distribution {
		values := make([]int64, len(samples))
		for i, sample := range samples {
			values[i] = value(sample)
		}
		return distribution(values)
	}
	return Summary{
		Count:      len(samples),
		DurationMs: of(func(s Sample) int64 { return s.DurationMs }),
		Bytes:      of(func(s Sample) int64 { return s.Bytes }),
		Entries:    of(func(s Sample) int64 { return s.Entries }),
	}
}

// distribution sorts values and sums them up; percentiles are nearest rank.
func distribution(values []int64) Distribution {
	if len(values) == 0 {
		return Distribution{}
	}
	slices.Sort(values)
	sum := 0.0 // bytes may add up to more than an int64
	for _, value := range values {
		sum += float64(value)
	}
	rank := func(percent int) int64 { return values[(percent*len(values)+99)/100-1] }
	return Distribution{
		Min: values[0], Avg: int64(math.Round(sum / float64(len(values)))), Max: values[len(values)-1],
		P50: rank(50), P90: rank(90), P95: rank(95), P99: rank(99),
	}
}

// straggler finds the task that came last most often; of equals the first by name.
func straggler(samples []Sample) *Straggler {
	last := map[string]int{}
	of := 0
	for _, sample := range samples {
		if sample.LastTask != "" && sample.Acks > 1 {
			last[sample.LastTask]++
			of++
		}
	}
	if of == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(last))
	found := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(last[a], last[b]) })
	return &Straggler{TaskID: found, Last: last[found], Of: of}
}
