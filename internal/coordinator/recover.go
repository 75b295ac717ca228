package coordinator

import (
	"context"
	"errors"
	"strconv"
)

// RecoverRequest restarts a fleet; one Idempotency-Key for each crash gives every
// worker the same answer.
type RecoverRequest struct {
	Job            string
	IdempotencyKey *string
	// CheckpointID is the completed checkpoint to go back to; nil is the latest.
	CheckpointID *int64
}

// Recover aborts everything pending, raises the epoch, and names and leases the
// checkpoint to go on from, which is not one that has lost parts.
func (c *Coordinator) Recover(ctx context.Context, request RecoverRequest) (RecoverResult, error) {
	var f faults
	f.param("job", CheckJob(request.Job))
	idempotency := Idempotency{Fingerprint: "recover", Token: newToken()}
	if request.IdempotencyKey != nil {
		f.param("Idempotency-Key", CheckIdempotencyKey(*request.IdempotencyKey))
		idempotency.Key = *request.IdempotencyKey
	}
	if request.CheckpointID != nil {
		f.body("/checkpointId", CheckCounter(*request.CheckpointID))
		idempotency.Fingerprint += " " + strconv.FormatInt(*request.CheckpointID, 10)
	}
	if err := f.err(); err != nil {
		return RecoverResult{}, err
	}
	if err := c.inspectOrigin(ctx, request); err != nil {
		return RecoverResult{}, err
	}
	result, err := call(c, "recover", func() (RecoverResult, error) {
		return c.store.Recover(ctx, RecoverCall{
			Job: request.Job, CheckpointID: request.CheckpointID, LeaseMs: c.pace.RecoverLease.Milliseconds(), By: byOf(ctx), Idempotency: idempotency,
		})
	})
	if err != nil {
		return result, err
	}
	if !result.Repeated {
		c.observer.Recovered(request.Job, result)
	}
	if result.Checkpoint != nil {
		c.fillDigest(ctx, result.Checkpoint)
	}
	return result, nil
}

// inspectOrigin looks whether what the fleet is about to go back to is whole, and marks what is not.
func (c *Coordinator) inspectOrigin(ctx context.Context, request RecoverRequest) error {
	if request.CheckpointID == nil {
		return c.inspectLatest(ctx, request.Job)
	}
	// What keeps it from looking for another reason than the store, the recovery itself meets, unless
	// its key is known already.
	if err := c.look(ctx, Ref{Job: request.Job, ID: *request.CheckpointID}); CodeOf(err) == CodeStoreUnavailable && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// RecoverCall restarts the fleet.
type RecoverCall struct {
	Job string
	// CheckpointID is the completed checkpoint to go back to; nil is the latest.
	CheckpointID *int64
	// LeaseMs is how long the answered checkpoint is held.
	LeaseMs int64
	// By is who asks, for the events; "" where that is not known.
	By string
	Idempotency
}

// RecoverResult is the job's new epoch and the checkpoint to go on from, as it is now;
// nil when the job truly has none.
type RecoverResult struct {
	Epoch      int64
	Checkpoint *Checkpoint
	Repeated   bool
	// Ended are the ids that this call aborted or expired.
	Ended []int64
}
