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

// GetTask reads the task of a checkpoint in the path.
func (s *server) GetTask(ctx context.Context, request api.GetTaskRequestObject) (api.GetTaskResponseObject, error) {
	task, err := s.readTask(ctx, request.Params.Job, request.ID, request.TaskID)
	return api.GetTask200JSONResponse{TaskAnswerJSONResponse: task}, err
}

// GetTaskByQuery reads the task of a checkpoint in the query.
func (s *server) GetTaskByQuery(ctx context.Context, request api.GetTaskByQueryRequestObject) (api.GetTaskByQueryResponseObject, error) {
	task, err := s.readTask(ctx, request.Params.Job, request.ID, request.Params.TaskID)
	return api.GetTaskByQuery200JSONResponse{TaskAnswerJSONResponse: task}, err
}

func (s *server) readTask(ctx context.Context, job *string, id api.ID, taskID string) (api.TaskAnswerJSONResponse, error) {
	task, err := s.coordinator.Task(ctx, coordinator.Ref{Job: jobOf(job), ID: int64(id)}, taskID)
	if err != nil {
		return api.TaskAnswerJSONResponse{}, err
	}
	return api.TaskAnswerJSONResponse(taskOf(task)), nil
}
