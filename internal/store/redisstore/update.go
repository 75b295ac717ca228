package redisstore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	updateScript = newScript("update", endPreludes)
	deleteScript = newScript("delete", endPreludes)
)

// Update changes labels, description and pin, and sets aside. Under a condition the second run would be
// refused by the first, so a lost reply is outcome_unknown; so it is for Delete.
func (s *Store) Update(ctx context.Context, call coordinator.UpdateCall) (coordinator.Checkpoint, error) {
	labels, description, pin := "", "", ""
	if call.Labels != nil {
		labels = encodeLabels(*call.Labels)
	}
	if call.Description != nil {
		description = *call.Description
	}
	if call.Pinned != nil {
		pin = flag(*call.Pinned)
	}
	aside := ""
	if call.SetAside != nil {
		aside = flag(*call.SetAside)
	}
	args := []any{flag(call.Labels != nil), labels, flag(call.Description != nil), description, pin}
	return s.change(ctx, updateScript, once, call.Job, call.ID, append(appendPrecondition(args, call.If), call.By, flag(call.Repaired), aside)...)
}

// Delete removes a checkpoint.
func (s *Store) Delete(ctx context.Context, call coordinator.DeleteCall) error {
	args := append(appendPrecondition([]any{decimal(call.ID), flag(call.Force)}, call.If), call.By)
	r, err := s.run(ctx, deleteScript, once, call.Job, args...)
	if err != nil {
		return err
	}
	if r.word != wordOK {
		return refusal(deleteScript.verb, call.Job, call.ID, r)
	}
	s.floors.see(call.Job, floor{id: call.ID})
	s.observer.Deleted(call.Job, call.ID, coordinator.DeletedByRequest)
	return nil
}

// appendPrecondition appends a precondition as met of prelude.lua takes it.
func appendPrecondition(args []any, condition coordinator.Precondition) []any {
	args = append(args, flag(condition.IfNoneMatch), len(condition.IfMatch))
	for _, tag := range condition.IfMatch {
		args = append(args, tag)
	}
	return args
}
