package handlers

import (
	"context"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// TriggerCheckpoint starts a checkpoint, or finds the one that its key started.
func (s *server) TriggerCheckpoint(ctx context.Context, request api.TriggerCheckpointRequestObject) (api.TriggerCheckpointResponseObject, error) {
	// Only the end of the checkpoint is waited for, not a store that is away.
	triggering, cancel := context.WithTimeout(ctx, exchangeOf(ctx).budget)
	defer cancel()
	result, err := s.coordinator.Trigger(triggering, triggerOf(request.Params, request.Body))
	if err != nil {
		return nil, err
	}
	if err := s.awaitEnd(ctx, &result.Checkpoint, exchangeOf(ctx).wait); err != nil {
		return nil, err
	}
	body, tag, location := checkpointOf(result.Checkpoint), quoted(result.Checkpoint.Tag()), locationOf(result.Checkpoint)
	if result.Repeated {
		return api.TriggerCheckpoint200JSONResponse{TriggeredBeforeJSONResponse: api.TriggeredBeforeJSONResponse{
			Body: body, Headers: api.TriggeredBeforeResponseHeaders{ETag: tag, Location: location},
		}}, nil
	}
	return api.TriggerCheckpoint201JSONResponse{TriggeredJSONResponse: api.TriggeredJSONResponse{
		Body: body, Headers: api.TriggeredResponseHeaders{ETag: tag, Location: location},
	}}, nil
}

// awaitEnd waits until a checkpoint has ended, and leaves it as it is where that cannot be
// seen: it was triggered, and the answer must say so. An error says that it is gone, and nobody
// knows how it ended.
func (s *server) awaitEnd(ctx context.Context, checkpoint *coordinator.Checkpoint, wait time.Duration) error {
	if wait == 0 || checkpoint.Status != coordinator.StatusPending {
		return nil
	}
	exchangeOf(ctx).untilRevoked(ctx)
	ended, err := s.coordinator.AwaitEnd(ctx, coordinator.Ref{Job: checkpoint.Job, ID: checkpoint.ID}, wait)
	switch code := coordinator.CodeOf(err); {
	case err == nil:
		*checkpoint = ended.Checkpoint
	case code == coordinator.CodeCheckpointDeleted || code == coordinator.CodeJobNotFound:
		return err
	}
	return nil
}

// RecoverJob raises the epoch and names the checkpoint to go on from.
func (s *server) RecoverJob(ctx context.Context, request api.RecoverJobRequestObject) (api.RecoverJobResponseObject, error) {
	wish := coordinator.RecoverRequest{Job: jobOf(request.Params.Job), IdempotencyKey: request.Params.IdempotencyKey}
	if request.Body != nil {
		wish.CheckpointID = request.Body.CheckpointID
	}
	result, err := s.coordinator.Recover(ctx, wish)
	if err != nil {
		return nil, err
	}
	return api.RecoverJob200JSONResponse(recoveryOf(result)), nil
}
