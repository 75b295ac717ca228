package redisstore

import (
	"context"
	"errors"

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
	result, page := coordinator.ListResult{Next: -1}, coordinator.Page{Limit: call.Limit}
	for full := false; !full; {
		// One more than the page holds tells whether there is a next one.
		wanted := call.Limit + 1 - len(result.Checkpoints)
		r, err := s.run(ctx, listScript, reads, call.Job, string(call.Status), below, wanted, call.NotAckedBy, listLooks, coordinator.PageBytes)
		if err != nil {
			return coordinator.ListResult{}, err
		}
		if r.word != wordOK {
			return coordinator.ListResult{}, refusal(listScript.verb, call.Job, call.Before, r)
		}
		body := cursor{values: r.body}
		below = body.text()
		found := s.checkpoints(call.Job, r.now, body.list())
		lost := cursor{values: body.list()}
		for _, id := range lost.numbers() {
			s.leaveOut(call.Job, id, errNotAsRecorded)
		}
		if err := errors.Join(body.err, lost.err); err != nil {
			return coordinator.ListResult{}, badReply(listScript.verb, r, err)
		}
		for i := range found {
			if full = !page.Takes(found[i].Size()); full {
				result.Next = result.Checkpoints[len(result.Checkpoints)-1].ID
				break
			}
			result.Checkpoints = append(result.Checkpoints, found[i])
		}
		full = full || below == ""
	}
	if len(result.Checkpoints) > 0 {
		s.floors.see(call.Job, floor{id: result.Checkpoints[0].ID, epoch: result.Checkpoints[0].Epoch})
	}
	return result, nil
}
