package handlers

import (
	"context"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// ListTasks reads a page of a checkpoint's tasks.
func (s *server) ListTasks(ctx context.Context, request api.ListTasksRequestObject) (api.ListTasksResponseObject, error) {
	result, err := s.coordinator.Tasks(ctx, tasksOf(request))
	if err != nil {
		return nil, err
	}
	return api.ListTasks200JSONResponse(taskListOf(result)), nil
}

// GetTask reads one task of a checkpoint.
func (s *server) GetTask(ctx context.Context, request api.GetTaskRequestObject) (api.GetTaskResponseObject, error) {
	task, err := s.coordinator.Task(ctx, coordinator.Ref{Job: jobOf(request.Params.Job), ID: int64(request.ID)}, request.TaskID)
	if err != nil {
		return nil, err
	}
	return api.GetTask200JSONResponse(taskOf(task)), nil
}
