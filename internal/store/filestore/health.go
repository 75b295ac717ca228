package filestore

import (
	"context"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Alive is nil unless writing has failed in a way that only the next start gets over.
func (s *Store) Alive() error {
	if broken := s.committer.broken.Load(); broken != nil {
		return broken //nolint:wrapcheck // It is our own.
	}
	return nil
}

// Health reaches for the database. After a failed commit it answers
// CodeStoreUnavailable until the process starts again.
func (s *Store) Health(ctx context.Context) ([]coordinator.Warning, error) {
	if err := s.Alive(); err != nil {
		return nil, coordinator.ErrStoreUnavailable(err)
	}
	if _, err := read(ctx, s, func(*step) (struct{}, error) { return struct{}{}, nil }); err != nil {
		return nil, err
	}
	return s.warnings(ctx), nil
}

func (s *Store) warnings(ctx context.Context) []coordinator.Warning {
	var warnings []coordinator.Warning
	if !s.reserve.isHeld() {
		warnings = append(warnings, coordinator.Warning{
			Code:   "disk_full",
			Detail: "The disk of the data directory is or was full, and the room in reserve is used up. Free room with POST /checkpoints/cleanup, or give the disk more; this warning goes when there is room again.",
		})
	}
	if s.copied != nil {
		warnings = append(warnings, coordinator.Warning{
			Code:   "data_copied",
			Detail: fmt.Sprintf("The server was started on a data directory that is a copy, or of which parts are: %d ids and epochs of each job were passed over, since the copy may be older than what workers know. Recover each fleet. This warning goes with the next start.", copiesBehind),
		})
	}
	if sick := s.still(ctx); len(sick) > 0 {
		first := sick[0]
		where := fmt.Sprintf("checkpoint %d of job %q", first.id, first.job)
		if first.id == noCheckpoint {
			where = fmt.Sprintf("job %q", first.job)
		}
		warnings = append(warnings, coordinator.Warning{
			Code:   "records_unreadable",
			Detail: fmt.Sprintf("Records in meta.db are not as they were written (%d, %s among them): look at the disk, and restore the data directory from a backup, or delete what they are of. The log names each.", len(sick), where),
		})
	}
	if err := s.folder.works(); err != nil {
		warnings = append(warnings, coordinator.Warning{
			Code:   "parts_failing",
			Detail: "Files of parts/ in the data directory cannot be opened or written (" + reasonOf(err) + "), so large parts are refused with 503. Give the server the right to write there, or more open files; this warning goes when it works again.",
		})
	}
	return warnings
}
