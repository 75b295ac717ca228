package filestore

import (
	"context"
	"maps"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Update changes labels, description and pin.
func (s *Store) Update(ctx context.Context, call coordinator.UpdateCall) (coordinator.Checkpoint, error) {
	return mutate(ctx, s, func(st *step) (coordinator.Checkpoint, error) {
		st.by = call.By
		c, err := st.findToChange(call.Job, call.ID, false)
		if err != nil {
			return coordinator.Checkpoint{}, err
		}
		if !call.If.Met(c.tag(), true) {
			return coordinator.Checkpoint{}, coordinator.ErrPreconditionFailed()
		}
		if call.Labels != nil {
			c.Labels = maps.Clone(*call.Labels)
		}
		if call.Description != nil {
			c.Description = *call.Description
		}
		if call.Pinned != nil && *call.Pinned != c.Pinned {
			st.pin(c, *call.Pinned)
		}
		if call.Repaired && c.Damage != "" {
			if c.Damage = ""; !c.Pinned {
				st.joinRetained(c)
			}
		}
		st.bump(c)
		st.logCheckpoint(c, coordinator.EventUpdated, "")
		return c.view(st.now), nil
	})
}

// pin pins or unpins a checkpoint: pinned ones do not count among those that retention
// and the trimming of ended ones keep.
func (s *step) pin(c *checkpoint, pinned bool) {
	c.Pinned = pinned
	s.touch(c)
	j := c.job
	if pinned {
		j.Pinned++
	} else {
		j.Pinned--
	}
	s.touchJob(j)
	switch c.Status {
	case coordinator.StatusPending:
	case coordinator.StatusCompleted:
		if pinned {
			s.leaveRetained(c)
		} else if c.Damage == "" {
			s.joinRetained(c)
		}
	case coordinator.StatusExpired, coordinator.StatusAborted:
		if pinned {
			j.Remains--
		} else {
			j.Remains++
		}
	}
}
