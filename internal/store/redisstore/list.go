package redisstore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var listScript = newScript("list", readPreludes)

// listLooks is how many records one run of the script looks at.
const listLooks = 1000

// List reads checkpoints newest first. Where filters leave out many it takes several
// steps, each of which goes on below the last record that was looked at.
func (s *Store) List(ctx context.Context, call coordinator.ListCall) (coordinator.ListResult, error) {
	below := ""
	if call.Before >= 0 {
		below = decimal(call.Before)
	}
	found := make([]coordinator.Checkpoint, 0, min(call.Limit+1, listLooks))
	for {
		// One more than the page holds tells whether there is a next one.
		wanted := call.Limit + 1 - len(found)
		r, err := s.run(ctx, listScript, reads, call.Job, string(call.Status), below, wanted, call.NotAckedBy, listLooks)
		if err != nil {
			return coordinator.ListResult{}, err
		}
		if r.word != wordOK {
			return coordinator.ListResult{}, refusal(listScript.verb, call.Job, call.Before, r)
		}
		body := cursor{values: r.body}
		below = body.text()
		found = append(found, parseCheckpoints(call.Job, r.now, body.list())...)
		if body.err != nil {
			return coordinator.ListResult{}, badReply(listScript.verb, r, body.err)
		}
		if below == "" || len(found) > call.Limit {
			break
		}
	}
	if len(found) > 0 {
		s.floors.see(call.Job, floor{id: found[0].ID, epoch: found[0].Epoch})
	}
	if len(found) <= call.Limit {
		return coordinator.ListResult{Checkpoints: found, Next: -1}, nil
	}
	page := found[:call.Limit]
	return coordinator.ListResult{Checkpoints: page, Next: page[call.Limit-1].ID}, nil
}
