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

func (s *Store) History(context.Context, string) (coordinator.History, error) {
	return coordinator.History{}, errUnbuilt
}

func (s *Store) RecordRestore(context.Context, string, coordinator.RestoreRecord) error { return nil }
