package redisstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var recoverScript = newScript("recover", append(slices.Clip(repeatPreludes), "prelude_find", "prelude_floor"))

// Recover aborts everything pending, raises the epoch, and leases the latest completed
// checkpoint.
func (s *Store) Recover(ctx context.Context, call coordinator.RecoverCall) (coordinator.RecoverResult, error) {
	call.Token = orNewToken(call.Token)
	name, ttl := repeatOf(repeatRecover, call.Idempotency)
	r, err := s.recover(ctx, call, name, ttl, false)
	if err == nil && r.word == wordRegister {
		if err = s.register(ctx, call.Job); err == nil {
			r, err = s.recover(ctx, call, name, ttl, true)
		}
		if err == nil && r.word == wordOK {
			s.registerMade(ctx, call.Job)
		}
	}
	if err != nil {
		return coordinator.RecoverResult{}, err
	}
	return s.recovered(call, r)
}

func (s *Store) recover(ctx context.Context, call coordinator.RecoverCall, name string, ttl int, registered bool) (reply, error) {
	return s.run(ctx, recoverScript, repeatable, call.Job,
		name, ttl, call.Token, call.Fingerprint, decimal(max(0, call.LeaseMs)), flag(registered), call.By, s.floors.of(call.Job).text(),
		optionalText(call.CheckpointID), coordinator.SnapshotVersion)
}

// recovered reads the script's answer.
func (s *Store) recovered(call coordinator.RecoverCall, r reply) (coordinator.RecoverResult, error) {
	body := cursor{values: r.body}
	if r.word != wordOK {
		var err error
		switch coordinator.Code(r.word) {
		case coordinator.CodeIdempotencyKeyReused, coordinator.CodeIdempotencyTargetDeleted:
			err = repeatRefusal(recoverScript.verb, call.Job, r, &body)
		default:
			err = restoreRefusal(recoverScript.verb, coordinator.Ref{Job: call.Job, ID: *cmp.Or(call.CheckpointID, new(coordinator.Latest))}, r)
		}
		if body.err != nil {
			err = badReply(recoverScript.verb, r, body.err)
		}
		return coordinator.RecoverResult{}, err
	}
	result := coordinator.RecoverResult{Epoch: body.number(), Repeated: body.text() == "1"}
	found := body.list()
	for body.more() {
		result.Ended = append(result.Ended, body.number())
	}
	if body.err != nil {
		return coordinator.RecoverResult{}, badReply(recoverScript.verb, r, body.err)
	}
	s.floors.see(call.Job, floor{id: -1, epoch: result.Epoch})
	if len(found) > 0 {
		checkpoint, err := parseCheckpoint(call.Job, r.now, found[0])
		if err != nil {
			return coordinator.RecoverResult{}, coordinator.ErrInconsistent(idOf(found[0]), theRecord, err)
		}
		result.Checkpoint = &checkpoint
		s.floors.see(call.Job, floor{id: checkpoint.ID})
	}
	return result, nil
}
