package filestore

import (
	"context"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Cleanup removes unpinned checkpoints until call.Keep of them survive: first those that
// did not complete, then completed ones, oldest first each.
func (s *Store) Cleanup(ctx context.Context, call coordinator.CleanupCall) (coordinator.CleanupResult, error) {
	if call.DryRun {
		return read(ctx, s, func(st *step) (coordinator.CleanupResult, error) { return st.cleanup(call) })
	}
	return free(ctx, s, func(st *step) (coordinator.CleanupResult, error) { return st.cleanup(call) })
}

func (s *step) cleanup(call coordinator.CleanupCall) (coordinator.CleanupResult, error) {
	s.by = call.By
	j := s.job(call.Job)
	if j == nil {
		return coordinator.CleanupResult{}, coordinator.ErrJobNotFound(call.Job)
	}
	if !call.DryRun {
		s.catchUp(j, everything)
		s.finish()
	}
	candidates := j.evictionOrder()
	result := coordinator.CleanupResult{Kept: len(candidates)}
	latest := j.latest()
	for _, c := range candidates {
		switch {
		case result.Kept <= call.Keep:
			return result, nil
		case c.leased(s.now):
			result.Skipped = append(result.Skipped, c.id)
		case call.Keep >= 1 && c == latest:
			// Where leased ones hold all places, a fleet must still find what to restore.
		case len(result.Deleted) == call.Max:
			result.More = true
			return result, nil
		default:
			if !call.DryRun {
				s.evict(c, coordinator.ReasonEvicted, coordinator.DeletedByCleanup)
			}
			result.Deleted = append(result.Deleted, c.id)
			result.Kept--
		}
	}
	return result, nil
}

// evictionOrder gives the unpinned checkpoints in the order in which a cleanup takes them.
func (j *job) evictionOrder() []*checkpoint {
	var order []*checkpoint
	add := func(ids []int64) {
		for _, id := range ids {
			if c, err := j.checkpoint(id); err == nil && c != nil && !c.Pinned { // others are only deleted by name
				order = append(order, c)
			}
		}
	}
	uncompleted := slices.Concat(ids(child(j.b, bucketPending)), ids(child(j.b, bucketEnded)))
	slices.Sort(uncompleted)
	add(uncompleted)
	add(ids(child(j.b, bucketRetained)))
	return order
}
