package filestore

import (
	"cmp"
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Complete ends a pending checkpoint as completed.
func (s *Store) Complete(ctx context.Context, call coordinator.CompleteCall) (coordinator.Checkpoint, error) {
	return mutate(ctx, s, func(st *step) (coordinator.Checkpoint, error) {
		st.by = call.By
		c, err := st.findToChange(call.Job, call.ID, false)
		if err != nil {
			return coordinator.Checkpoint{}, err
		}
		switch c.Status {
		case coordinator.StatusCompleted:
			return c.view(st.now), nil
		case coordinator.StatusExpired, coordinator.StatusAborted:
			return coordinator.Checkpoint{}, st.late(c)
		case coordinator.StatusPending:
		}
		if missing := c.Required - c.Acked; missing > 0 && !call.Force {
			return coordinator.Checkpoint{}, coordinator.ErrAcksMissing(c.id, missing, c.missing(coordinator.MissingTasksShown))
		}
		if err := c.checkTotals(); err != nil {
			return coordinator.Checkpoint{}, err
		}
		st.complete(c, "")
		view := c.view(st.now) // before retention, which may take this very one
		st.retain(c.job, call.Retention)
		return view, nil
	})
}

// late is the refusal for what came after the checkpoint's end.
func (s *step) late(c *checkpoint) *coordinator.Error {
	return s.nextSteps(c.job, coordinator.ErrEnded(c.id, c.Status))
}

// Abort ends a pending checkpoint as aborted.
func (s *Store) Abort(ctx context.Context, call coordinator.AbortCall) (coordinator.Checkpoint, error) {
	return free(ctx, s, func(st *step) (coordinator.Checkpoint, error) {
		st.by = call.By
		c, err := st.findToChange(call.Job, call.ID, true)
		if err != nil {
			return coordinator.Checkpoint{}, err
		}
		if refusal := c.checkSender(call.TaskID, call.Epoch, call.Attempt); refusal != nil {
			return coordinator.Checkpoint{}, refusal
		}
		switch c.Status {
		case coordinator.StatusAborted:
			return c.view(st.now), nil
		case coordinator.StatusExpired, coordinator.StatusCompleted:
			return coordinator.Checkpoint{}, st.late(c)
		case coordinator.StatusPending:
		}
		why := failure{Reason: coordinator.ReasonAborted, Message: call.Message}
		if call.TaskID != "" {
			why.Reason, why.TaskID = coordinator.ReasonDeclined, call.TaskID
			st.hearAttempt(c.job, call.TaskID, call.Attempt)
		}
		st.abort(c, why)
		return c.view(st.now), nil
	})
}

// Extend moves the deadline of a pending checkpoint, never to an earlier time.
func (s *Store) Extend(ctx context.Context, call coordinator.ExtendCall) (coordinator.Checkpoint, error) {
	return mutate(ctx, s, func(st *step) (coordinator.Checkpoint, error) {
		st.by = call.By
		c, err := st.findToChange(call.Job, call.ID, false)
		if err != nil {
			return coordinator.Checkpoint{}, err
		}
		if c.Status != coordinator.StatusPending {
			return coordinator.Checkpoint{}, st.late(c)
		}
		triggered := cmp.Or(c.Triggered, c.TimeoutMs)
		if left := coordinator.ExtensionLeft(c.Start, triggered, st.now); c.TimeoutMs > 0 && call.TimeoutMs > left {
			return coordinator.Checkpoint{}, coordinator.ErrExtendedTooFar(c.id, call.TimeoutMs, left)
		}
		if deadline := st.now + call.TimeoutMs; c.TimeoutMs > 0 && deadline > c.Start+c.TimeoutMs {
			st.moveDeadline(c, c.Start, deadline-c.Start)
			c.Triggered = triggered
			st.bump(c)
			st.logCheckpoint(c, coordinator.EventExtended, "")
		}
		return c.view(st.now), nil
	})
}
