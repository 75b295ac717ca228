package redisstore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var cleanupScript = newScript("cleanup", endPreludes)

// Cleanup removes unpinned checkpoints until call.Keep of them survive: first those that
// did not complete, then completed ones, oldest first each.
func (s *Store) Cleanup(ctx context.Context, call coordinator.CleanupCall) (coordinator.CleanupResult, error) {
	how := once
	if call.DryRun {
		how = reads
	}
	r, err := s.run(ctx, cleanupScript, how, call.Job, call.Keep, call.Max, flag(call.DryRun), call.By)
	if err != nil {
		return coordinator.CleanupResult{}, err
	}
	if r.word != wordOK {
		return coordinator.CleanupResult{}, refusal(cleanupScript.verb, call.Job, coordinator.Latest, r)
	}
	body := cursor{values: r.body}
	deleted, skipped := cursor{values: body.list()}, cursor{values: body.list()}
	result := coordinator.CleanupResult{
		Deleted: deleted.numbers(), Skipped: skipped.numbers(), Kept: int(body.number()), More: body.text() == "1",
	}
	for _, c := range []*cursor{&body, &deleted, &skipped} {
		if c.err != nil {
			return coordinator.CleanupResult{}, badReply(cleanupScript.verb, r, c.err)
		}
	}
	if !call.DryRun {
		for _, id := range result.Deleted {
			s.observer.Deleted(call.Job, id, coordinator.DeletedByCleanup)
		}
	}
	return result, nil
}
