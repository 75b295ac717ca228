package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Scripts that read one checkpoint find it first.
var findPreludes = append(slices.Clip(readPreludes), "prelude_find")

// Those that read its tasks put them in order.
var orderPreludes = append(slices.Clip(findPreludes), "prelude_sort")

var getScript = newScript("get", orderPreludes)

// wordOK is what every script answers that did what it was asked to.
const wordOK = "ok"

// refText is a reference as prelude_find.lua takes it.
func refText(ref coordinator.Ref) string {
	if ref.ID == coordinator.Latest {
		return "latest"
	}
	return decimal(ref.ID)
}

// Get reads one checkpoint with its first acknowledgements.
func (s *Store) Get(ctx context.Context, ref coordinator.Ref) (coordinator.CheckpointDetail, error) {
	r, err := s.runInOrder(ctx, getScript, ref.Job, refText(ref), coordinator.AcksShown)
	if err != nil {
		return coordinator.CheckpointDetail{}, err
	}
	if r.word != wordOK {
		return coordinator.CheckpointDetail{}, refusal(getScript.verb, ref.Job, ref.ID, r)
	}
	checkpoint, err := s.checkpoint(getScript.verb, ref.Job, r)
	if err != nil {
		return coordinator.CheckpointDetail{}, err
	}
	detail := coordinator.CheckpointDetail{Checkpoint: checkpoint}
	body := cursor{values: r.body[1:]}
	rows := cursor{values: body.list()}
	for rows.more() {
		task, text := rows.text(), rows.text()
		ack, err := parseAck(task, text, checkpoint.Start)
		if err != nil {
			return coordinator.CheckpointDetail{}, coordinator.ErrInconsistent(checkpoint.ID, storedAckOf(task), err)
		}
		detail.Acks = append(detail.Acks, ack)
	}
	if err := errors.Join(body.err, rows.err); err != nil {
		return coordinator.CheckpointDetail{}, badReply(getScript.verb, r, err)
	}
	return detail, nil
}
