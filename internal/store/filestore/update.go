package filestore

import (
	"context"
	"maps"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Update changes labels, description and pin, and sets aside.
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
		if call.SetAside != nil && *call.SetAside && c.Status != coordinator.StatusCompleted {
			return coordinator.Checkpoint{}, coordinator.ErrNotToSetAside(c.id, c.Status)
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
		if call.SetAside != nil {
			c.SetAside = *call.SetAside
		}
		if call.Repaired {
			c.Damage = ""
		}
		if c.Status == coordinator.StatusCompleted {
			if c.usable() && !c.Pinned {
				st.joinRetained(c)
			} else {
				st.leaveRetained(c)
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
	case coordinator.StatusPending, coordinator.StatusCompleted:
	case coordinator.StatusExpired, coordinator.StatusAborted:
		if pinned {
			j.Remains--
		} else {
			j.Remains++
		}
	}
}
