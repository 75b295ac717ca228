package handlers

import (
	"context"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// CompleteCheckpoint ends a pending checkpoint as completed.
func (s *server) CompleteCheckpoint(ctx context.Context, request api.CompleteCheckpointRequestObject) (api.CompleteCheckpointResponseObject, error) {
	checkpoint, err := s.coordinator.Complete(ctx, jobOf(request.Params.Job), int64(request.ID), valueOr(request.Params.Force, false))
	if err != nil {
		return nil, err
	}
	return api.CompleteCheckpoint200JSONResponse{CheckpointAnswerJSONResponse: checkpointAnswer(checkpoint)}, nil
}

// AbortCheckpoint ends a pending checkpoint as aborted.
func (s *server) AbortCheckpoint(ctx context.Context, request api.AbortCheckpointRequestObject) (api.AbortCheckpointResponseObject, error) {
	call, err := abortOf(request)
	if err != nil {
		return nil, err
	}
	if err := admitAbort(ctx, call.TaskID); err != nil {
		return nil, err
	}
	checkpoint, err := s.coordinator.Abort(ctx, call)
	if err != nil {
		return nil, err
	}
	return api.AbortCheckpoint200JSONResponse{CheckpointAnswerJSONResponse: checkpointAnswer(checkpoint)}, nil
}

// ExtendCheckpoint gives a pending checkpoint more time.
func (s *server) ExtendCheckpoint(ctx context.Context, request api.ExtendCheckpointRequestObject) (api.ExtendCheckpointResponseObject, error) {
	checkpoint, err := s.coordinator.Extend(ctx, coordinator.ExtendCall{
		Job: jobOf(request.Params.Job), ID: int64(request.ID), TimeoutMs: request.Body.TimeoutMs,
	})
	if err != nil {
		return nil, err
	}
	return api.ExtendCheckpoint200JSONResponse{CheckpointAnswerJSONResponse: checkpointAnswer(checkpoint)}, nil
}
