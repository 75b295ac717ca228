package redisstore

import (
	"context"
	"errors"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var acknowledgeScript = newScript("acknowledge", ackPreludes)

// Acknowledge applies the items in order as one step.
func (s *Store) Acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	args := make([]any, 0, 4+5*len(call.Items))
	args = append(args, decimal(call.ID), orNewToken(call.Token), retentionText(call.Retention), len(call.Items))
	for _, item := range call.Items {
		args = appendItem(args, item)
	}
	r, err := s.run(ctx, acknowledgeScript, repeatable, call.Job, args...)
	if err != nil {
		return coordinator.AckResult{}, err
	}
	if r.word != wordOK {
		return coordinator.AckResult{}, refusal(acknowledgeScript.verb, call.Job, call.ID, r)
	}
	s.floors.see(call.Job, call.ID)
	body := cursor{values: r.body}
	result := coordinator.AckResult{
		Status: coordinator.Status(body.text()), AcknowledgedTasks: int(body.number()), RequiredTaskAcks: int(body.number()),
		Outcomes: make([]coordinator.AckOutcome, 0, len(call.Items)),
	}
	for _, item := range call.Items {
		outcome, err := parseOutcome(call.Job, call.ID, item.TaskID, result.RequiredTaskAcks, body.list())
		if err := errors.Join(body.err, err); err != nil {
			return coordinator.AckResult{}, badReply(acknowledgeScript.verb, r, err)
		}
		result.Outcomes = append(result.Outcomes, outcome)
	}
	return result, nil
}

// appendItem appends what acknowledge.lua wants of an item.
func appendItem(args []any, item coordinator.AckItem) []any {
	args = append(args, item.TaskID, decimal(item.Attempt), epochText(item.Epoch), item.Digest)
	if item.Part == nil {
		return append(args, "")
	}
	rest := item.Part.Content
	args = append(args, chunksOf(int64(len(rest))), len(rest), item.Part.Entries, item.Part.Digest)
	for len(rest) > 0 {
		n := min(len(rest), coordinator.ChunkBytes)
		args = append(args, rest[:n])
		rest = rest[n:]
	}
	return args
}

// parseOutcome reads one item's outcome as acknowledge_items of prelude_ack.lua gives it.
func parseOutcome(job string, id int64, task string, required int, values []any) (coordinator.AckOutcome, error) {
	c := cursor{values: values}
	outcome := coordinator.AckOutcome{
		TaskID: task, Outcome: coordinator.AckStatus(c.text()), AcknowledgedTasks: int(c.number()),
		Status: coordinator.Status(c.text()), RequiredTaskAcks: required,
	}
	switch outcome.Outcome {
	case coordinator.AckAccepted:
		outcome.LatencyMs = c.number()
	case coordinator.AckDuplicate:
	case coordinator.AckRefused:
		outcome.Refusal = parseRefusal(job, id, c.text(), &c)
		if outcome.Refusal == nil && c.err == nil {
			c.err = errWord
		}
	default:
		c.err = errors.Join(c.err, errWord)
	}
	return outcome, c.err
}
