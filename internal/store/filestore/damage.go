package filestore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// MarkDamaged notes what a completed checkpoint was found to lack.
func (s *Store) MarkDamaged(ctx context.Context, call coordinator.DamageCall) error {
	_, err := free(ctx, s, func(st *step) (struct{}, error) {
		st.by = call.By
		c, err := st.find(coordinator.Ref{Job: call.Job, ID: call.ID}, false)
		if err != nil || c.Status != coordinator.StatusCompleted || c.Damage != "" {
			return struct{}{}, nil //nolint:nilerr // There is nothing to mark.
		}
		st.leaveRetained(c)
		c.Damage = call.What
		st.bump(c)
		st.logCheckpoint(c, coordinator.EventUpdated, "")
		return struct{}{}, nil
	})
	return err
}
