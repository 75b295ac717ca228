package filestore

import (
	"context"
	"errors"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var errUnbuilt = coordinator.ErrInternal(errors.New("not built yet"))

func (s *Store) TriggerIfDue(context.Context, coordinator.DueCall) (coordinator.DueResult, error) {
	return coordinator.DueResult{}, errUnbuilt
}

func (s *Store) PutJob(context.Context, coordinator.PutJobCall) (coordinator.PutJobResult, error) {
	return coordinator.PutJobResult{}, errUnbuilt
}

func (s *Store) DeleteJob(context.Context, coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	return coordinator.DeleteJobResult{}, errUnbuilt
}

func (s *Store) ForgetTask(context.Context, string, string) error { return errUnbuilt }

func (s *Store) History(context.Context, string) (coordinator.History, error) {
	return coordinator.History{}, errUnbuilt
}

func (s *Store) RecordRestore(context.Context, string, coordinator.RestoreRecord) error { return nil }
