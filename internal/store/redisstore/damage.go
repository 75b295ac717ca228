package redisstore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var markDamagedScript = newScript("mark_damaged", endPreludes)

// MarkDamaged notes what a completed checkpoint was found to lack.
func (s *Store) MarkDamaged(ctx context.Context, call coordinator.DamageCall) error {
	// As harmless as a read: what it does twice nobody can tell from once.
	_, err := s.run(ctx, markDamagedScript, reads, call.Job, decimal(call.ID), call.What, call.By)
	return err
}
