package coordinator

import (
	"context"
	"slices"
)

// CompleteCall completes by hand.
type CompleteCall struct {
	Job   string
	ID    int64
	Force bool
	// Retention is the server's default; the job's own settings win.
	Retention Retention
	Token     string
	// By is who asks, for the events; "" where that is not known.
	By string
}

// AbortCall ends a pending checkpoint. With a TaskID it is that task's decline and is
// checked like an acknowledgement.
type AbortCall struct {
	Job     string
	ID      int64
	TaskID  string
	Attempt int64
	Epoch   *int64
	Message string
	Token   string
	// By is who asks, for the events; "" where that is not known.
	By string
}

// ExtendCall gives a pending checkpoint TimeoutMs more, counted from now; > 0.
type ExtendCall struct {
	Job       string
	ID        int64
	TimeoutMs int64
	// By is who asks, for the events; "" where that is not known.
	By string
}

// MaxExtension is how far a deadline may be moved: as many times the timeout with which the
// checkpoint was triggered, counted from its start.
const MaxExtension = 100

// ExtensionLeft is how many ms from now on a deadline may be moved at most; triggered is the
// timeout with which a checkpoint was triggered that started at start.
func ExtensionLeft(start, triggered, now int64) int64 {
	if triggered > MaxTimeoutMs/MaxExtension {
		return MaxTimeoutMs
	}
	return max(0, start+MaxExtension*triggered-now)
}

// Precondition is If-Match and If-None-Match of a request. Tags are without quotes.
type Precondition struct {
	// IfMatch are the tags one of which the resource must have; "*" is any existing.
	IfMatch []string
	// IfNoneMatch demands that the resource does not exist (If-None-Match: *).
	IfNoneMatch bool
}

// Met tells whether a resource, which has this tag if it exists, meets the precondition.
func (p Precondition) Met(tag string, exists bool) bool {
	if p.IfNoneMatch && exists {
		return false
	}
	return len(p.IfMatch) == 0 || exists && (slices.Contains(p.IfMatch, "*") || slices.Contains(p.IfMatch, tag))
}

// UpdateCall changes what is not nil.
type UpdateCall struct {
	Job         string
	ID          int64
	Labels      *map[string]string
	Description *string
	Pinned      *bool
	// SetAside is for a completed one, see [Checkpoint].
	SetAside *bool
	// Repaired takes the mark of damage away.
	Repaired bool
	If       Precondition
	// By is who asks, for the events; "" where that is not known.
	By string
}

// DeleteCall removes a checkpoint; Force also a pinned one.
type DeleteCall struct {
	Job   string
	ID    int64
	Force bool
	If    Precondition
	// By is who asks, for the events; "" where that is not known.
	By string
}

// Complete ends a pending checkpoint by hand; force does so although acknowledgements
// are missing.
func (c *Coordinator) Complete(ctx context.Context, job string, id int64, force bool) (Checkpoint, error) {
	var f faults
	f.ref(job, id)
	if err := f.err(); err != nil {
		return Checkpoint{}, err
	}
	return call(c, "complete", func() (Checkpoint, error) {
		return c.store.Complete(ctx, CompleteCall{Job: job, ID: id, Force: force, Retention: c.settings.Retention, Token: newToken(), By: byOf(ctx)})
	})
}

// Abort ends a pending checkpoint; with a TaskID it is that task's decline. The call's
// Token and By are filled in.
func (c *Coordinator) Abort(ctx context.Context, abort AbortCall) (Checkpoint, error) {
	var f faults
	f.ref(abort.Job, abort.ID)
	if abort.TaskID != "" {
		f.body("/taskId", CheckTaskID(abort.TaskID))
	}
	f.body("/attempt", CheckCounter(abort.Attempt))
	if abort.Epoch != nil {
		f.body("/epoch", CheckCounter(*abort.Epoch))
	}
	f.body("/reason", atMost(abort.Message, "reasonBytes", MaxReasonBytes))
	if err := f.err(); err != nil {
		return Checkpoint{}, err
	}
	abort.Token, abort.By = newToken(), byOf(ctx)
	return call(c, "abort", func() (Checkpoint, error) { return c.store.Abort(ctx, abort) })
}

// Extend gives a pending checkpoint more time, counted from now.
func (c *Coordinator) Extend(ctx context.Context, extend ExtendCall) (Checkpoint, error) {
	var f faults
	f.ref(extend.Job, extend.ID)
	f.body("/timeoutMs", between(extend.TimeoutMs, 1, MaxTimeoutMs, "milliseconds"))
	if err := f.err(); err != nil {
		return Checkpoint{}, err
	}
	extend.By = byOf(ctx)
	checkpoint, err := call(c, "extend", func() (Checkpoint, error) { return c.store.Extend(ctx, extend) })
	if err == nil {
		c.observer.Extended(checkpoint, extend.By)
	}
	return checkpoint, err
}

// Update changes labels, description and pin of a checkpoint in any status. The call's By is
// filled in.
func (c *Coordinator) Update(ctx context.Context, update UpdateCall) (Checkpoint, error) {
	var f faults
	f.ref(update.Job, update.ID)
	if update.Labels != nil {
		f.labels(*update.Labels)
	}
	if update.Description != nil {
		f.body("/description", atMost(*update.Description, "descriptionBytes", MaxDescriptionBytes))
	}
	if err := f.err(); err != nil {
		return Checkpoint{}, err
	}
	update.By = byOf(ctx)
	if update.Repaired {
		// Only a look that found all of it takes the mark away; one that is not completed has none.
		if err := c.look(ctx, Ref{Job: update.Job, ID: update.ID}); err != nil && CodeOf(err) != CodeCheckpointNotCompleted {
			return Checkpoint{}, err
		}
	}
	checkpoint, err := call(c, "update", func() (Checkpoint, error) { return c.store.Update(ctx, update) })
	if err == nil {
		c.fillDigest(ctx, &checkpoint)
	}
	return checkpoint, err
}

// Delete removes a checkpoint. The call's By is filled in.
func (c *Coordinator) Delete(ctx context.Context, deletion DeleteCall) error {
	var f faults
	f.ref(deletion.Job, deletion.ID)
	if err := f.err(); err != nil {
		return err
	}
	deletion.By = byOf(ctx)
	_, err := call(c, "delete", func() (struct{}, error) { return struct{}{}, c.store.Delete(ctx, deletion) })
	return err
}

// Get reads one checkpoint, or the latest completed one, with its first acknowledgements.
func (c *Coordinator) Get(ctx context.Context, ref Ref) (CheckpointDetail, error) {
	if err := ref.check(); err != nil {
		return CheckpointDetail{}, err
	}
	get := func() (CheckpointDetail, error) {
		return call(c, "get", func() (CheckpointDetail, error) { return c.store.Get(ctx, ref) })
	}
	detail, err := get()
	if ref.ID == Latest && CodeOf(err) == CodeSnapshotDamaged {
		if unseen := c.inspectLatest(ctx, ref.Job); unseen != nil { // else another may be the latest now
			return CheckpointDetail{}, unseen
		}
		detail, err = get()
	} else if CodeOf(err) == CodeSnapshotDamaged {
		_ = c.look(ctx, ref) // so that the observer is told
	}
	if err == nil {
		c.fillDigest(ctx, &detail.Checkpoint)
	}
	return detail, err
}

// check validates the name.
func (r Ref) check() error {
	var f faults
	f.ref(r.Job, r.ID)
	return f.err()
}
