package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var triggerDueScript = newScript("trigger_due", triggerPreludes)

// TriggerIfDue makes a pending checkpoint if the job's schedule says so.
func (s *Store) TriggerIfDue(ctx context.Context, call coordinator.DueCall) (coordinator.DueResult, error) {
	call.Token = orNewToken(call.Token)
	for range maxRounds {
		args := []any{call.Token, s.floors.of(call.Job).text(), jitterText(call.Jitter)}
		r, err := s.run(ctx, triggerDueScript, repeatable, call.Job, appendDefaults(args, call.Defaults)...)
		switch {
		case err != nil:
			return coordinator.DueResult{}, err
		case r.word == wordAgain:
		case r.word == wordOK:
			return s.due(call.Job, r)
		default:
			if err = placeError(r.word); err == nil {
				err = refusal(triggerDueScript.verb, call.Job, coordinator.Latest, r)
			}
			return coordinator.DueResult{}, err
		}
	}
	return coordinator.DueResult{}, coordinator.ErrInternal(fmt.Errorf("no free id found in %d rounds", maxRounds))
}

// due reads the script's answer.
func (s *Store) due(job string, r reply) (coordinator.DueResult, error) {
	body := cursor{values: r.body}
	views, c := body.list(), cursor{values: body.list()}
	result := coordinator.DueResult{ObservedAt: r.now, Schedule: coordinator.ScheduleState{
		Due: c.number(), Last: coordinator.ScheduleResult(c.text()), LastAt: c.number(), LastID: -1,
	}}
	if id := c.id(); id != nil {
		result.Schedule.LastID = *id
	}
	result.Schedule.Triggered, result.Schedule.Skipped, result.Schedule.Missed = c.number(), c.number(), c.number()
	if err := errors.Join(body.err, c.err); err != nil {
		return coordinator.DueResult{}, badReply(triggerDueScript.verb, r, err)
	}
	if len(views) > 0 {
		checkpoint, err := parseCheckpoint(job, r.now, views[0])
		if err != nil {
			return coordinator.DueResult{}, badReply(triggerDueScript.verb, r, err)
		}
		s.floors.see(job, floor{id: checkpoint.ID, epoch: checkpoint.Epoch})
		result.Triggered = &checkpoint
	}
	return result, nil
}
