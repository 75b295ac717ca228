package coordinator

import "context"

// Cleanup removes checkpoints until keep unpinned ones survive, in atomic steps. It
// answers at most MaxCleanupAnswer ids and then says that there is more.
func (c *Coordinator) Cleanup(ctx context.Context, job string, keep int64, dryRun bool) (CleanupResult, error) {
	var f faults
	f.param("job", CheckJob(job))
	f.body("/keep", between(keep, 0, MaxID, "checkpoints"))
	if err := f.err(); err != nil {
		return CleanupResult{}, err
	}
	total := CleanupResult{Deleted: []int64{}, Skipped: []int64{}}
	for {
		step := min(CleanupStep, MaxCleanupAnswer-len(total.Deleted))
		if dryRun {
			step = MaxCleanupAnswer
		}
		result, err := call(c, "cleanup", func() (CleanupResult, error) {
			return c.store.Cleanup(ctx, CleanupCall{Job: job, Keep: int(keep), DryRun: dryRun, Max: step, By: byOf(ctx)})
		})
		if err != nil {
			return total, err
		}
		total.Deleted = append(total.Deleted, result.Deleted...)
		total.Skipped = append([]int64{}, result.Skipped...) // each step names all that it passed over
		total.Kept, total.More = result.Kept, result.More
		if dryRun || !result.More || len(total.Deleted) >= MaxCleanupAnswer || len(result.Deleted) == 0 {
			return total, nil
		}
	}
}

// CleanupCall removes checkpoints until Keep unpinned ones survive.
type CleanupCall struct {
	Job    string
	Keep   int
	DryRun bool
	// Max is how many may go in this call: CleanupStep, or MaxCleanupAnswer for DryRun.
	Max int
	// By is who asks, for the events; "" where that is not known.
	By string
}

// CleanupResult names what went (or would go), what was skipped because a restore or a
// recovery holds it, and how many unpinned ones are left.
type CleanupResult struct {
	Deleted []int64
	Skipped []int64
	Kept    int
	More    bool
}
