package storetest

import (
	"context"
	"errors"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var errUnbuilt = coordinator.ErrInternal(errors.New("not built yet"))

func (r *reference) TriggerIfDue(context.Context, coordinator.DueCall) (coordinator.DueResult, error) {
	return coordinator.DueResult{}, errUnbuilt
}

func (r *reference) Job(context.Context, string) (coordinator.JobState, error) {
	return coordinator.JobState{}, errUnbuilt
}

func (r *reference) PutJob(context.Context, coordinator.PutJobCall) (coordinator.PutJobResult, error) {
	return coordinator.PutJobResult{}, errUnbuilt
}

func (r *reference) DeleteJob(context.Context, coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	return coordinator.DeleteJobResult{}, errUnbuilt
}

func (r *reference) ForgetTask(context.Context, string, string) error { return errUnbuilt }

func (r *reference) Events(context.Context, coordinator.EventsCall) (coordinator.EventsResult, error) {
	return coordinator.EventsResult{}, errUnbuilt
}

func (r *reference) Listen(ctx context.Context, _ func(string)) { <-ctx.Done() }

func (r *reference) History(context.Context, string) (coordinator.History, error) {
	return coordinator.History{}, errUnbuilt
}

func (r *reference) RecordRestore(context.Context, string, coordinator.RestoreRecord) error {
	return nil
}
