package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// start brings the state back. A store that is away is waited for; it is never taken for a
// job without checkpoints.
func (r *run) start(ctx context.Context) error {
	var damaged []int64
	for {
		from, err := r.origin(ctx)
		var restore *restoreStream
		if err == nil {
			restore, err = r.openRestore(ctx, from)
		}
		// Retention was faster: there is a newer one, or the RecoveryKey is used up.
		if restore != nil && isAny(err, CodeCheckpointDeleted) {
			continue
		}
		if id, goesBack := r.passOver(err, damaged); goesBack {
			r.Logger.WarnContext(ctx, "the checkpoint is damaged, so the worker goes back to an older one", "checkpoint", id, "error", err)
			damaged = append(damaged, id)
			continue
		}
		if err != nil {
			return err
		}
		if len(r.named) > 0 && !slices.Contains(r.named, r.TaskID) {
			r.Logger.WarnContext(ctx, "the job names other tasks and not this one; nothing will be asked of it unless a trigger names it", "tasks", r.named[:min(len(r.named), 10)], "of", len(r.named))
		}
		r.Logger.InfoContext(ctx, "restoring", "checkpoint", from.ID, "epoch", r.epoch, "bytes", restore.length)
		return r.restore(ctx, from, restore)
	}
}

// passOver tells whether err is that a checkpoint is damaged which was none of those before: asked anew, the server
// names an older one. Where it names the same one again, none is whole. A fleet must go back together, so its workers
// make the same new key of the old one and of what is damaged: those that have restored another part are told
// that they are stale, and come the same way when they are started again.
func (r *run) passOver(err error, before []int64) (id int64, goesBack bool) {
	p, is := errors.AsType[*Problem](err)
	if !is || p.Code != CodeSnapshotDamaged || p.CheckpointID == nil || slices.Contains(before, *p.CheckpointID) {
		return 0, false
	}
	if r.RecoveryKey != "" {
		r.RecoveryKey = keyAfterDamage(r.RecoveryKey, *p.CheckpointID)
	}
	return *p.CheckpointID, true
}

// recoveryKeyMax is how many bytes an Idempotency-Key may have.
const recoveryKeyMax = 255

// keyAfterDamage makes the key of a recovery that takes the place of one which went back to a damaged checkpoint.
func keyAfterDamage(key string, id int64) string {
	next := key + "+damaged-" + strconv.FormatInt(id, 10)
	if len(next) > recoveryKeyMax {
		return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(next)))
	}
	return next
}

// origin finds the checkpoint to go on from, and the epoch.
func (r *run) origin(ctx context.Context) (Checkpoint, error) {
	if r.RecoveryKey != "" {
		return r.recover(ctx)
	}
	// First the epoch: should the fleet recover after this, we are told that we are stale,
	// and not that we are part of what we did not restore.
	job, err := r.job(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	r.epoch, r.named = job.Status.Epoch, job.Tasks
	var latest checkpointAnswer
	err = r.client.surely(ctx, call{method: http.MethodGet, path: "/checkpoints/latest"}, &latest)
	if isAny(err, CodeNoCompletedCheckpoint) {
		return Checkpoint{ID: None, Epoch: r.epoch}, nil
	}
	return latest.checkpoint(), err
}

// job reads how the job fares.
func (r *run) job(ctx context.Context) (jobAnswer, error) {
	var job jobAnswer
	err := r.client.surely(ctx, call{method: http.MethodGet, path: "/jobs/" + url.PathEscape(r.Job)}, &job)
	return job, err
}

type jobAnswer struct {
	// Tasks are the only ones that may acknowledge, none when any may.
	Tasks  []string   `json:"tasks"`
	Status *jobStatus `json:"status"`
}

type jobStatus struct {
	Epoch           int64  `json:"epoch"`
	LastCompletedID *int64 `json:"lastCompletedId"`
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
	job, err := r.job(ctx)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case job.Status.Epoch > r.epoch:
		return Checkpoint{}, r.stale(job.Status.Epoch)
	case job.Status.LastCompletedID != nil && *job.Status.LastCompletedID > from.ID:
		return Checkpoint{}, fmt.Errorf("%w: it goes back to checkpoint %d, and %d has completed", ErrRecoveryKeyUsed, from.ID, *job.Status.LastCompletedID)
	}
	r.named = job.Tasks
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
	// A callback that ignored the error, or the rest, would go on with half of its state.
	err := stream.err
	if err == nil && stream.left {
		err = errLeft
	}
	if err != nil {
		return fmt.Errorf("restoring from checkpoint %d: %w", from.ID, err)
	}
	return nil
}

var errLeft = errors.New("the callback returned nil before it had read all entries; read on also where nothing more is wanted, or return an error")
