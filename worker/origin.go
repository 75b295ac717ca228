package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// start brings the state back. A store that is away is waited for; it is never taken for a
// job without checkpoints.
func (r *run) start(ctx context.Context) error {
	for {
		from, err := r.origin(ctx)
		if err != nil {
			return err
		}
		restore, err := r.openRestore(ctx, from)
		if isAny(err, CodeCheckpointDeleted) {
			continue // retention was faster: there is a newer one, or the RecoveryKey is used up
		}
		if err != nil {
			return err
		}
		r.Logger.InfoContext(ctx, "restoring", "checkpoint", from.ID, "epoch", r.epoch, "bytes", restore.length)
		return r.restore(ctx, from, restore)
	}
}

// origin finds the checkpoint to go on from, and the epoch.
func (r *run) origin(ctx context.Context) (Checkpoint, error) {
	if r.RecoveryKey != "" {
		return r.recover(ctx)
	}
	// First the epoch: should the fleet recover after this, we are told that we are stale,
	// and not that we are part of what we did not restore.
	job, err := r.jobStatus(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	r.epoch = job.Epoch
	var latest checkpointAnswer
	err = r.client.surely(ctx, call{method: http.MethodGet, path: "/checkpoints/latest"}, &latest)
	if isAny(err, CodeNoCompletedCheckpoint) {
		return Checkpoint{ID: None, Epoch: r.epoch}, nil
	}
	return latest.checkpoint(), err
}

// jobStatus is what a worker reads of how its job fares.
type jobStatus struct {
	Epoch           int64  `json:"epoch"`
	LastCompletedID *int64 `json:"lastCompletedId"`
}

func (r *run) jobStatus(ctx context.Context) (jobStatus, error) {
	var job jobAnswer
	err := r.client.surely(ctx, call{method: http.MethodGet, path: "/jobs/" + url.PathEscape(r.Job)}, &job)
	if err != nil {
		return jobStatus{}, err
	}
	return *job.Status, nil
}

type jobAnswer struct {
	Status *jobStatus `json:"status"`
}

func (a *jobAnswer) genuine() bool { return a.Status != nil }

// ErrRecoveryKeyUsed is that a checkpoint has completed since the recovery with this key. A life
// that began with it anew would go back behind what the fleet has done since.
var ErrRecoveryKeyUsed = errors.New("worker: a checkpoint has completed since the recovery with this RecoveryKey; recover the fleet with a new one")

// recover is the restart of the whole fleet.
func (r *run) recover(ctx context.Context) (Checkpoint, error) {
	var recovery recoveryAnswer
	err := r.client.surely(ctx, call{
		method: http.MethodPost, path: "/checkpoints/recover", header: http.Header{"Idempotency-Key": {r.RecoveryKey}},
	}, &recovery)
	if err != nil {
		return Checkpoint{}, err
	}
	r.epoch = recovery.Epoch
	from := Checkpoint{ID: None, Epoch: r.epoch}
	if recovery.Checkpoint != nil {
		from = recovery.Checkpoint.checkpoint()
	}
	// The same key is answered in the same way for a day and longer, so see what has become
	// of the fleet.
	job, err := r.jobStatus(ctx)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case job.Epoch > r.epoch:
		return Checkpoint{}, r.stale(job.Epoch)
	case job.LastCompletedID != nil && *job.LastCompletedID > from.ID:
		return Checkpoint{}, fmt.Errorf("%w: it goes back to checkpoint %d, and %d has completed", ErrRecoveryKeyUsed, from.ID, *job.LastCompletedID)
	}
	return from, nil
}

type recoveryAnswer struct {
	Epoch      int64             `json:"epoch"`
	Checkpoint *checkpointAnswer `json:"checkpoint"`
}

// The first recovery of a job raises its epoch to 1.
func (a *recoveryAnswer) genuine() bool { return a.Epoch > 0 }

// checkpointAnswer is what a worker reads of a checkpoint.
type checkpointAnswer struct {
	ID      int64    `json:"checkpointId"`
	Epoch   int64    `json:"epoch"`
	Status  status   `json:"status"`
	Failure *failure `json:"failure"`
}

func (a *checkpointAnswer) genuine() bool { return a.Status != "" }

func (a *checkpointAnswer) checkpoint() Checkpoint { return Checkpoint{ID: a.ID, Epoch: a.Epoch} }

// restore lets the user read what there is.
func (r *run) restore(ctx context.Context, from Checkpoint, stream *restoreStream) error {
	defer stream.close()
	if stream.body != nil {
		stream.meter = r.meter(from.ID, true, stream.size())
		defer stream.meter.done()
	}
	if err := r.Restore(ctx, from, stream.entries()); err != nil {
		return fmt.Errorf("restoring from checkpoint %d: %w", from.ID, err)
	}
	// A callback that ignored the error would go on with half of its state.
	if stream.err != nil {
		return fmt.Errorf("restoring from checkpoint %d: %w", from.ID, stream.err)
	}
	return nil
}
