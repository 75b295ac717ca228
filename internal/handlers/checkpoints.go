package handlers

import (
	"context"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// ListCheckpoints reads a page, newest first.
func (s *server) ListCheckpoints(ctx context.Context, request api.ListCheckpointsRequestObject) (api.ListCheckpointsResponseObject, error) {
	call, err := listOf(request.Params)
	if err != nil {
		return nil, err
	}
	result, err := s.coordinator.AwaitList(ctx, call, exchangeOf(ctx).wait)
	if err != nil {
		return nil, err
	}
	return api.ListCheckpoints200JSONResponse(checkpointListOf(result)), nil
}

// GetCheckpoint reads one checkpoint.
func (s *server) GetCheckpoint(ctx context.Context, request api.GetCheckpointRequestObject) (api.GetCheckpointResponseObject, error) {
	ref := coordinator.Ref{Job: jobOf(request.Params.Job), ID: int64(request.ID)}
	detail, err := s.coordinator.AwaitEnd(ctx, ref, exchangeOf(ctx).wait)
	if err != nil {
		return nil, err
	}
	tag := quoted(detail.Tag())
	if unchanged(request.Params.IfNoneMatch, detail.Tag()) {
		return api.GetCheckpoint304Response{Headers: api.NotModifiedResponseHeaders{ETag: tag}}, nil
	}
	return api.GetCheckpoint200JSONResponse{Body: detailsOf(detail), Headers: api.GetCheckpoint200ResponseHeaders{ETag: tag}}, nil
}

// GetLatestCheckpoint reads the latest completed one.
func (s *server) GetLatestCheckpoint(ctx context.Context, request api.GetLatestCheckpointRequestObject) (api.GetLatestCheckpointResponseObject, error) {
	detail, found, err := s.latest(ctx, request.Params)
	if err != nil {
		return nil, err
	}
	if !found {
		return api.GetLatestCheckpoint204Response{}, nil
	}
	tag := quoted(detail.Tag())
	if unchanged(request.Params.IfNoneMatch, detail.Tag()) {
		return api.GetLatestCheckpoint304Response{Headers: api.NotModifiedResponseHeaders{ETag: tag}}, nil
	}
	return api.GetLatestCheckpoint200JSONResponse{Body: detailsOf(detail), Headers: api.GetLatestCheckpoint200ResponseHeaders{
		ETag: tag, CheckpointID: detail.ID, Age: max(0, detail.ObservedAt-detail.EndedAt) / 1000,
	}}, nil
}

// latest reads the latest completed checkpoint, or waits for one. Only who asks for more
// than there may be learns with found that there is none.
func (s *server) latest(ctx context.Context, params api.GetLatestCheckpointParams) (detail coordinator.CheckpointDetail, found bool, err error) {
	wait := exchangeOf(ctx).wait
	if params.After == nil && wait == 0 {
		detail, err = s.coordinator.Get(ctx, latestOf(params.Job))
		return detail, true, err
	}
	after := valueOr(params.After, -1)
	if params.After != nil && coordinator.CheckCounter(after) != nil {
		return detail, false, invalidParameter("after", parameterForms["after"])
	}
	return s.coordinator.AwaitLatest(ctx, jobOf(params.Job), after, wait)
}

// latestOf names the latest completed checkpoint of a job.
func latestOf(job *string) coordinator.Ref {
	return coordinator.Ref{Job: jobOf(job), ID: coordinator.Latest}
}

// UpdateCheckpoint changes labels, description and pin.
func (s *server) UpdateCheckpoint(ctx context.Context, request api.UpdateCheckpointRequestObject) (api.UpdateCheckpointResponseObject, error) {
	call, err := updateOf(request)
	if err != nil {
		return nil, err
	}
	checkpoint, err := s.coordinator.Update(ctx, call)
	if err != nil {
		return nil, err
	}
	return api.UpdateCheckpoint200JSONResponse{CheckpointAnswerJSONResponse: checkpointAnswer(checkpoint)}, nil
}

// checkpointAnswer is the answer of every call that gives back the changed checkpoint.
func checkpointAnswer(c coordinator.Checkpoint) api.CheckpointAnswerJSONResponse {
	return api.CheckpointAnswerJSONResponse{
		Body: checkpointOf(c), Headers: api.CheckpointAnswerResponseHeaders{ETag: quoted(c.Tag())},
	}
}

// DeleteCheckpoint removes a checkpoint.
func (s *server) DeleteCheckpoint(ctx context.Context, request api.DeleteCheckpointRequestObject) (api.DeleteCheckpointResponseObject, error) {
	condition, err := precondition(request.Params.IfMatch, nil)
	if err != nil {
		return nil, err
	}
	err = s.coordinator.Delete(ctx, coordinator.DeleteCall{
		Job: jobOf(request.Params.Job), ID: int64(request.ID), Force: valueOr(request.Params.Force, false), If: condition,
	})
	return api.DeleteCheckpoint204Response{}, err
}

// CleanupCheckpoints evicts until so many survive.
func (s *server) CleanupCheckpoints(ctx context.Context, request api.CleanupCheckpointsRequestObject) (api.CleanupCheckpointsResponseObject, error) {
	result, err := s.coordinator.Cleanup(ctx, jobOf(request.Params.Job), int64(request.Body.Keep), valueOr(request.Params.DryRun, false))
	if err != nil {
		return nil, err
	}
	return api.CleanupCheckpoints200JSONResponse(cleanupResultOf(result)), nil
}
