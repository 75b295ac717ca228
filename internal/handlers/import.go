package handlers

import (
	"context"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/archive"
)

// ImportJob brings an export into a job.
func (s *server) ImportJob(ctx context.Context, request api.ImportJobRequestObject) (api.ImportJobResponseObject, error) {
	e := exchangeOf(ctx)
	if err := checkMediaType(e.request, mediaNDJSON); err != nil {
		return nil, err
	}
	body := s.uploadBody(ctx, e)
	defer body.endTurn()
	ask := func(bytes int) error { return s.takeBuffered(e, int64(bytes)) }
	read, err := archive.Read(body, s.coordinator.Settings().MaxPartBytes, s.options.TempDir, ask)
	body.endTurn() // the store takes its time
	if err != nil {
		return nil, err
	}
	defer read.Close() //nolint:errcheck // The temporary file has no name any more.
	if err := s.coordinator.Import(ctx, request.Job, read); err != nil {
		return nil, err
	}
	state, err := s.coordinator.Job(ctx, request.Job)
	if err != nil {
		return nil, err
	}
	return api.ImportJob200JSONResponse{JobAnswerJSONResponse: s.jobAnswer(&state)}, nil
}
