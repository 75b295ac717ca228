package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// takePart takes the cut and hands it in. An error ends the worker's life.
func (r *run) takePart(ctx, handing context.Context, checkpoint Checkpoint) error {
	if checkpoint.Epoch > r.epoch {
		return r.stale(checkpoint.Epoch)
	}
	c := r.ledger.open(handing, checkpoint)
	if c == nil {
		return nil
	}
	r.watchers.Go(func() { r.watch(handing, c) })
	err := r.drain(ctx, c)
	switch {
	case ctx.Err() != nil: // a worker that is asked to stop takes no cut, and declines none
		r.ledger.forget(c)
		return context.Cause(ctx)
	case err != nil:
		return r.decline(handing, c, fmt.Errorf("draining: %w", err), false)
	case !r.ledger.take(c):
		return nil
	}
	entries, err := r.Snapshot(c.ctx, checkpoint)
	if err != nil {
		return r.decline(handing, c, fmt.Errorf("taking the snapshot: %w", err), false)
	}
	return r.handIn(handing, c, entries)
}

// ErrDrainTimeout is the cause of Drain's context after DrainTimeout.
var ErrDrainTimeout = errors.New("what is under way did not finish within the drain timeout")

// drain waits for what is under way. A Drain that goes on after its time is not called a
// second time before it has returned.
func (r *run) drain(life context.Context, c *cut) error {
	if r.Drain == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, r.DrainTimeout, ErrDrainTimeout)
	defer cancel()
	defer context.AfterFunc(life, cancel)() // the cut outlives it, where there is a ShutdownTimeout
	for {
		before := r.draining != nil
		if !before {
			r.draining = make(chan error, 1)
			go func() { r.draining <- r.Drain(ctx) }()
		}
		select {
		case err := <-r.draining:
			r.draining = nil
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case !before:
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// handIn uploads and acknowledges until the checkpoint has the part, or has ended.
func (r *run) handIn(ctx context.Context, c *cut, entries Entries) error {
	policy := r.client.policy
	meter := r.meter(c.ID, false, -1)
	defer meter.done()
	// sent tells that an earlier upload may have counted although its answer did not come.
	for sent := false; ; {
		completed, err := r.upload(c, entries, meter)
		_, unread := errors.AsType[*entriesError](err)
		switch {
		case err == nil:
			r.ledger.acknowledge(c)
			if completed {
				r.ledger.close(&Ended{ID: c.ID, Reason: ReasonCompleted})
			}
			return nil
		case unread:
			return r.decline(ctx, c, err, sent)
		case isAny(err, CodeAckConflict) && sent:
			r.ledger.acknowledge(c)
			return nil
		case isAny(err, CodeAckConflict): // a former life of this task was faster
			r.ledger.exclude(c)
			return nil
		case endsLife(err):
			return err
		case isAny(err, CodeCheckpointCompleted, CodeCheckpointExpired, CodeCheckpointAborted, CodeCheckpointDeleted, CodeCheckpointNotFound):
			return r.conclude(ctx, c, sent)
		case isAny(err, CodeTaskNotExpected):
			r.ledger.exclude(c)
			return nil
		case !transient(err) && !foreign(err):
			return r.decline(ctx, c, err, sent)
		}
		sent = true
		r.Logger.WarnContext(ctx, "the upload did not get through", "checkpoint", c.ID, "error", err)
		if pause(c.ctx, max(policy.next(), retryAfter(err))) != nil { // it has ended, perhaps by what we sent
			return r.conclude(ctx, c, sent)
		}
	}
}

// endsLife tells whether the server will take nothing more from this life of the worker.
func endsLife(err error) bool {
	return isAny(err, CodeStaleEpoch, CodeStaleAttempt, CodeUnauthorized, CodeForbidden, CodeJobNotFound)
}

// conclude finds out what became of a cut of which the upload brought no answer.
func (r *run) conclude(ctx context.Context, c *cut, sent bool) error {
	if r.ledger.endOf(c) == nil {
		if err := r.ask(ctx, c, 0); err != nil {
			return err
		}
	}
	ended := r.ledger.endOf(c)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ended == nil: // it is pending after all: the server lost what it had said
		r.ledger.forget(c)
		return nil
	case ended.Reason != ReasonCompleted:
		return nil
	case !sent:
		r.ledger.exclude(c)
		return nil
	}
	var task statusAnswer
	// The name stands in the query, as proxies may decode and join what stands in a path.
	err := r.client.surely(ctx, call{method: http.MethodGet, path: c.path() + "/task", query: url.Values{"taskId": {r.TaskID}}}, &task)
	switch {
	case err != nil && !isAny(err, CodeTaskNotInCheckpoint, CodeCheckpointDeleted):
		return err
	case err == nil && task.Status == statusAcknowledged:
		r.ledger.acknowledge(c)
	default:
		r.ledger.exclude(c)
	}
	return nil
}

// reasonMax is the longest reason that the server takes, in bytes.
const reasonMax = 4096

// decline ends the checkpoint for all, since this task cannot take part.
func (r *run) decline(ctx context.Context, c *cut, cause error, sent bool) error {
	if c.ctx.Err() != nil { // it has ended already, which may well be the cause
		return r.conclude(ctx, c, sent)
	}
	r.Logger.WarnContext(ctx, "declining the checkpoint", "checkpoint", c.ID, "error", cause)
	body := map[string]any{"taskId": r.TaskID, "epoch": r.epoch, "reason": clip(cause.Error(), reasonMax)}
	if r.Attempt > 0 {
		body["attempt"] = r.Attempt
	}
	var answer checkpointAnswer
	err := r.client.surely(c.ctx, call{method: http.MethodPost, path: c.path() + "/abort", body: body}, &answer)
	switch {
	case err == nil:
		if ended := endedAs(c.ID, answer.Status, answer.Failure); ended != nil {
			r.ledger.close(ended)
		}
		return nil
	case endsLife(err):
		return err
	}
	return r.conclude(ctx, c, sent)
}

// clip shortens a text to so many bytes, without breaking a character.
func clip(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
