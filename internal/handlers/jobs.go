package handlers

import (
	"context"
	"slices"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// ListJobs reads a page of the jobs.
func (s *server) ListJobs(ctx context.Context, request api.ListJobsRequestObject) (api.ListJobsResponseObject, error) {
	const pageOfJobs = 100
	after, page := valueOr(request.Params.After, ""), coordinator.Page{Limit: valueOr(request.Params.Limit, pageOfJobs)}
	if page.Limit < 1 || page.Limit > coordinator.MaxListLimit {
		return nil, invalidParameter("limit", parameterForms["limit"])
	}
	if request.Params.After != nil && coordinator.CheckJob(after) != nil {
		return nil, invalidParameter("after", parameterForms["job"])
	}
	jobs, err := s.coordinator.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	jobs = jobsFor(ctx, jobs)
	out := api.ListJobs200JSONResponse{Jobs: []api.JobState{}}
	for i := range jobs {
		if jobs[i].Job <= after {
			continue
		}
		if !page.Takes(jobs[i].Size()) {
			out.Next = &out.Jobs[len(out.Jobs)-1].Job
			break
		}
		out.Jobs = append(out.Jobs, jobStateOf(&jobs[i], s.coordinator.Settings()))
	}
	return out, nil
}

// jobsFor leaves out the jobs that the caller is not for.
func jobsFor(ctx context.Context, jobs []coordinator.JobState) []coordinator.JobState {
	caller := exchangeOf(ctx).caller
	return slices.DeleteFunc(jobs, func(state coordinator.JobState) bool { return !caller.InJob(state.Job) })
}

// GetJob reads one job.
func (s *server) GetJob(ctx context.Context, request api.GetJobRequestObject) (api.GetJobResponseObject, error) {
	state, err := s.coordinator.Job(ctx, request.Job)
	if err != nil {
		return nil, err
	}
	return api.GetJob200JSONResponse{JobAnswerJSONResponse: s.jobAnswer(&state)}, nil
}

// jobAnswer is a job with the tag of its settings.
func (s *server) jobAnswer(state *coordinator.JobState) api.JobAnswerJSONResponse {
	return api.JobAnswerJSONResponse{
		Body: jobStateOf(state, s.coordinator.Settings()), Headers: api.JobAnswerResponseHeaders{ETag: quoted(state.Tag())},
	}
}

// PutJob replaces a job's settings.
func (s *server) PutJob(ctx context.Context, request api.PutJobRequestObject) (api.PutJobResponseObject, error) {
	condition, err := precondition(request.Params.IfMatch, request.Params.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	result, err := s.coordinator.PutJob(ctx, request.Job, settingsOf(request.Body), condition)
	if err != nil {
		return nil, err
	}
	answer := s.jobAnswer(&result.State)
	if result.Created {
		return api.PutJob201JSONResponse{Body: answer.Body, Headers: api.PutJob201ResponseHeaders{
			ETag: answer.Headers.ETag, Location: "/jobs/" + request.Job,
		}}, nil
	}
	return api.PutJob200JSONResponse{JobAnswerJSONResponse: answer}, nil
}

// PatchJob changes some of a job's settings.
func (s *server) PatchJob(ctx context.Context, request api.PatchJobRequestObject) (api.PatchJobResponseObject, error) {
	condition, err := precondition(request.Params.IfMatch, nil)
	if err != nil {
		return nil, err
	}
	body := request.Body
	patch := coordinator.JobPatch{JobSettings: settingsOf(body), Paused: body.Paused, Description: body.Description}
	state, err := s.coordinator.PatchJob(ctx, request.Job, patch, condition.IfMatch)
	if err != nil {
		return nil, err
	}
	return api.PatchJob200JSONResponse{JobAnswerJSONResponse: s.jobAnswer(&state)}, nil
}

// DeleteJob removes a job with its checkpoints.
func (s *server) DeleteJob(ctx context.Context, request api.DeleteJobRequestObject) (api.DeleteJobResponseObject, error) {
	condition, err := precondition(request.Params.IfMatch, nil)
	if err != nil {
		return nil, err
	}
	err = s.coordinator.DeleteJob(ctx, request.Job, valueOr(request.Params.Force, false), condition)
	return api.DeleteJob204Response{}, err
}

// GetSchedule tells when a job triggers next, and why not now.
func (s *server) GetSchedule(ctx context.Context, request api.GetScheduleRequestObject) (api.GetScheduleResponseObject, error) {
	schedule, err := s.coordinator.Schedule(ctx, request.Job)
	if err != nil {
		return nil, err
	}
	return api.GetSchedule200JSONResponse(scheduleOf(request.Job, schedule)), nil
}

// ForgetTask forgets the attempt of the task in the path.
func (s *server) ForgetTask(ctx context.Context, request api.ForgetTaskRequestObject) (api.ForgetTaskResponseObject, error) {
	return api.ForgetTask204Response{}, s.coordinator.ForgetTask(ctx, request.Job, request.TaskID)
}

// ForgetTaskByQuery forgets the attempt of the task in the query.
func (s *server) ForgetTaskByQuery(ctx context.Context, request api.ForgetTaskByQueryRequestObject) (api.ForgetTaskByQueryResponseObject, error) {
	return api.ForgetTaskByQuery204Response{}, s.coordinator.ForgetTask(ctx, request.Job, request.Params.TaskID)
}

// settingsOf maps what a PUT says.
func settingsOf(body *api.JobSettings) coordinator.JobSettings {
	return coordinator.JobSettings{
		RequiredTaskAcks: body.RequiredTaskAcks, Tasks: body.Tasks,
		TimeoutMs: body.TimeoutMs, IntervalMs: body.IntervalMs, MinPauseMs: body.MinPauseMs,
		MaxConcurrent: body.MaxConcurrentCheckpoints, TolerableFailures: body.TolerableFailedCheckpoints, StaleAfterMs: body.StaleAfterMs,
		Keep: body.CheckpointsToKeep, MaxAgeMs: body.CheckpointsMaxAgeMs, MaxBytes: body.CheckpointsMaxBytes,
		Paused: valueOr(body.Paused, false), Description: valueOr(body.Description, ""),
	}
}

// jobStateOf is a job with the settings that hold for it.
func jobStateOf(state *coordinator.JobState, defaults coordinator.Settings) api.JobState {
	holds := state.Settings.Over(defaults)
	return api.JobState{
		Job: state.Job, Configured: state.Configured,
		RequiredTaskAcks: holds.RequiredTaskAcks, Tasks: state.Settings.Tasks,
		TimeoutMs: holds.TimeoutMs, IntervalMs: holds.IntervalMs, MinPauseMs: holds.MinPauseMs,
		MaxConcurrentCheckpoints: holds.MaxConcurrent, TolerableFailedCheckpoints: holds.TolerableFailures, StaleAfterMs: holds.StaleAfterMs,
		CheckpointsToKeep: holds.Keep, CheckpointsMaxAgeMs: holds.MaxAgeMs, CheckpointsMaxBytes: holds.MaxBytes,
		Paused: state.Settings.Paused, Description: present(state.Settings.Description),
		Status: jobStatusOf(state, holds),
	}
}

func jobStatusOf(state *coordinator.JobState, holds coordinator.Settings) api.JobStatus {
	out := api.JobStatus{
		Epoch: state.Epoch, NextCheckpointID: state.NextID, PendingCheckpoints: state.Pending, Failing: state.Failing,
		ConsecutiveFailures: state.ConsecutiveFailures, Freshness: api.Freshness(state.Freshness(holds)),
		LastCompletedAgeMs: completedAge(state), LastFailure: jobFailureOf(state.LastFailure),
	}
	if state.LatestID >= 0 {
		out.LastCompletedID, out.LastCompletedAt = &state.LatestID, &state.LatestAt
	}
	return out
}

// completedAge is how old the latest completed checkpoint is, nil where there is none. A
// clock that stepped back behind it makes it new.
func completedAge(state *coordinator.JobState) *int64 {
	if state.LatestID < 0 {
		return nil
	}
	return new(max(0, state.ObservedAt-state.LatestAt))
}

func jobFailureOf(failure *coordinator.JobFailure) *api.JobFailure {
	if failure == nil {
		return nil
	}
	return &api.JobFailure{
		CheckpointID: failure.CheckpointID, Reason: api.FailureReason(failure.Reason),
		TaskID: present(failure.TaskID), Message: present(failure.Message), At: failure.At,
	}
}

func scheduleOf(job string, schedule coordinator.Schedule) api.Schedule {
	state := schedule.State
	out := api.Schedule{
		Job: job, IntervalMs: schedule.IntervalMs, Paused: schedule.Paused, NextDue: present(state.Due),
		Triggered: state.Triggered, Skipped: state.Skipped, Missed: state.Missed,
		Delays: make([]api.ScheduleDelay, len(schedule.Delays)), ObservedAt: schedule.ObservedAt,
	}
	if state.Last != "" {
		out.Last = &api.ScheduleLast{Result: api.ScheduleLastResult(state.Last), At: state.LastAt}
	}
	if state.Last != "" && state.LastID >= 0 {
		out.LastCheckpointID = &state.LastID
	}
	for i, delay := range schedule.Delays {
		out.Delays[i] = api.ScheduleDelay{Reason: api.ScheduleDelayReason(delay.Reason), Until: present(delay.Until), Detail: delay.Detail}
	}
	return out
}

// readyJobsOf tells how each job fares.
func readyJobsOf(jobs []coordinator.JobState, defaults coordinator.Settings) []api.ReadyJob {
	out := make([]api.ReadyJob, len(jobs))
	for i := range jobs {
		state := &jobs[i]
		out[i] = api.ReadyJob{
			Job: state.Job, Failing: state.Failing, ConsecutiveFailures: state.ConsecutiveFailures,
			Freshness:          api.Freshness(state.Freshness(state.Settings.Over(defaults))),
			LastCompletedAgeMs: completedAge(state),
		}
	}
	return out
}
