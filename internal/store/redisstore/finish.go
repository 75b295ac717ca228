package redisstore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	completeScript = newScript("complete", repeatPreludes)
	abortScript    = newScript("abort", repeatPreludes)
	extendScript   = newScript("extend", endPreludes)
)

// wordTooFar refuses an extension beyond what is left.
const wordTooFar = "too_far"

// Complete ends a pending checkpoint as completed.
func (s *Store) Complete(ctx context.Context, call coordinator.CompleteCall) (coordinator.Checkpoint, error) {
	return s.change(ctx, completeScript, repeatable, call.Job, call.ID,
		flag(call.Force), retentionText(call.Retention), orNewToken(call.Token), call.By)
}

// Abort ends a pending checkpoint as aborted.
func (s *Store) Abort(ctx context.Context, call coordinator.AbortCall) (coordinator.Checkpoint, error) {
	return s.change(ctx, abortScript, repeatable, call.Job, call.ID,
		call.TaskID, decimal(call.Attempt), epochText(call.Epoch), call.Message, orNewToken(call.Token), call.By)
}

// Extend moves the deadline of a pending checkpoint, never to an earlier time.
func (s *Store) Extend(ctx context.Context, call coordinator.ExtendCall) (coordinator.Checkpoint, error) {
	return s.change(ctx, extendScript, once, call.Job, call.ID, decimal(call.TimeoutMs), call.By, coordinator.MaxExtension, decimal(coordinator.MaxTimeoutMs))
}

// change runs a script that is about one checkpoint, its id first, and answers its view.
func (s *Store) change(ctx context.Context, sc *script, how repetition, job string, id int64, args ...any) (coordinator.Checkpoint, error) {
	r, err := s.run(ctx, sc, how, job, append([]any{decimal(id)}, args...)...)
	if err != nil {
		return coordinator.Checkpoint{}, err
	}
	switch r.word {
	case wordOK:
		return s.checkpoint(sc.verb, job, r)
	case string(coordinator.CodeAcksMissing):
		body := cursor{values: r.body}
		missing := body.number()
		var names []string
		for body.more() {
			names = append(names, body.text())
		}
		if body.err != nil {
			return coordinator.Checkpoint{}, badReply(sc.verb, r, body.err)
		}
		return coordinator.Checkpoint{}, coordinator.ErrAcksMissing(id, int(missing), names)
	case wordTooFar:
		body := cursor{values: r.body}
		asked, left := body.number(), body.number()
		if body.err != nil {
			return coordinator.Checkpoint{}, badReply(sc.verb, r, body.err)
		}
		return coordinator.Checkpoint{}, coordinator.ErrExtendedTooFar(id, asked, left)
	case string(coordinator.CodeCheckpointNotCompleted):
		body := cursor{values: r.body}
		status := coordinator.Status(body.text())
		if body.err != nil {
			return coordinator.Checkpoint{}, badReply(sc.verb, r, body.err)
		}
		return coordinator.Checkpoint{}, coordinator.ErrNotToSetAside(id, status)
	default:
		return coordinator.Checkpoint{}, refusal(sc.verb, job, id, r)
	}
}
