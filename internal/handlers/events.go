package handlers

import (
	"context"
	"errors"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// StreamEvents follows the events of a job.
func (s *server) StreamEvents(context.Context, api.StreamEventsRequestObject) (api.StreamEventsResponseObject, error) {
	return nil, coordinator.ErrInternal(errors.New("not built yet"))
}
