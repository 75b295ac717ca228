package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// participate looks for checkpoints that wait for this task, and takes part in them, the
// oldest first. When ctx ends it goes on with the one that is being handed in.
func (r *run) participate(ctx, handing context.Context) error {
	seen := make(map[int64]bool)
	known := 0 // of the times at which the stream began
	for first := true; ; first = false {
		up, anew, changed := r.link.state()
		wait := r.PollWait
		if up || first {
			wait = 0
		}
		r.ledger.asking()
		asked := time.Now()
		pending, err := r.pending(ctx, wait, changed)
		if err != nil {
			return err
		}
		if pending == nil {
			continue // the link has changed
		}
		// A recovery leaves nothing pending, and it may be long until the next trigger.
		var worked bool
		if len(pending) > 0 {
			worked, err = r.takeParts(ctx, handing, pending, seen)
		} else if wait > 0 || anew != known {
			known, err = anew, r.lookAtEpoch(ctx)
		}
		if err != nil {
			return err
		}
		for id := range seen {
			if !slices.ContainsFunc(pending, func(c Checkpoint) bool { return c.ID == id }) {
				delete(seen, id)
			}
		}
		// A poll that finds what could not be done does not wait, and one through a proxy may not.
		hasty := !worked && (len(pending) > 0 || (wait > 0 && time.Since(asked) < pollPause))
		if err := r.idle(ctx, up, changed, hasty); err != nil {
			return err
		}
	}
}

// takeParts takes part in what was not seen before, and tells whether there was anything.
func (r *run) takeParts(ctx, handing context.Context, pending []Checkpoint, seen map[int64]bool) (worked bool, _ error) {
	for _, checkpoint := range pending {
		if seen[checkpoint.ID] {
			continue
		}
		seen[checkpoint.ID], worked = true, true
		if err := r.takePart(ctx, handing, checkpoint); err != nil {
			return worked, err
		}
	}
	return worked, nil
}

// lookAtEpoch asks whether the fleet has recovered, where no stream has told.
func (r *run) lookAtEpoch(ctx context.Context) error {
	job, err := r.job(ctx)
	if err == nil && job.Status.Epoch > r.epoch {
		err = r.stale(job.Status.Epoch)
	}
	return err
}

// pollPause is the pause before the next poll when the last one did not wait for anything.
const pollPause = time.Second

// idle waits for a reason to look again.
func (r *run) idle(ctx context.Context, up bool, changed <-chan struct{}, hasty bool) error {
	if up {
		select {
		case <-r.wake:
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return nil
	}
	if !hasty {
		return nil
	}
	timer := time.NewTimer(pollPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// pending lists what waits for this task. A poll is broken off when the link changes, and gives
// nil: what was seen may still be pending.
func (r *run) pending(ctx context.Context, wait time.Duration, changed <-chan struct{}) ([]Checkpoint, error) {
	poll, stop := context.WithCancel(ctx)
	defer stop()
	if wait > 0 {
		finished := make(chan struct{})
		defer close(finished)
		go func() {
			select {
			case <-changed:
				stop()
			case <-finished:
			}
		}()
	}
	var list listAnswer
	err := r.client.surely(poll, call{
		method: http.MethodGet, path: "/checkpoints", wait: wait,
		query: url.Values{"status": {string(statusPending)}, "notAckedBy": {r.TaskID}, "limit": {"1000"}},
	}, &list)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case poll.Err() != nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	checkpoints := make([]Checkpoint, len(list.Checkpoints))
	for i := range list.Checkpoints {
		checkpoints[i] = list.Checkpoints[i].checkpoint()
	}
	slices.SortFunc(checkpoints, byID)
	return checkpoints, nil
}

type listAnswer struct {
	Checkpoints []checkpointAnswer `json:"checkpoints"`
}

func (a *listAnswer) genuine() bool { return a.Checkpoints != nil }

// watch asks how a checkpoint ended while no stream tells.
func (r *run) watch(ctx context.Context, c *cut) {
	_, known, _ := r.link.state()
	for {
		up, anew, changed := r.link.state()
		if up && anew == known {
			select {
			case <-changed:
				continue
			case <-c.settled:
				return
			case <-ctx.Done():
				return
			}
		}
		wait := r.PollWait
		if up {
			wait = 0
		}
		asked := time.Now()
		err := r.ask(c.ctx, c, wait)
		if err == nil {
			known = anew
		}
		if c.ctx.Err() != nil {
			return
		}
		if err != nil || (wait > 0 && time.Since(asked) < pollPause) {
			r.Logger.DebugContext(ctx, "asking again how a checkpoint ended", "checkpoint", c.ID, "error", err)
			if pause(c.ctx, pollPause) != nil {
				return
			}
		}
	}
}

// ask finds out whether a checkpoint has ended.
func (r *run) ask(ctx context.Context, c *cut, wait time.Duration) error {
	var answer checkpointAnswer
	err := r.client.surely(ctx, call{method: http.MethodGet, path: c.path(), wait: wait}, &answer)
	switch {
	case isAny(err, CodeCheckpointDeleted, CodeCheckpointNotFound, CodeJobNotFound):
		r.ledger.close(&Ended{ID: c.ID, Reason: ReasonDeleted})
		return nil
	case err != nil:
		return err
	}
	if ended := endedAs(c.ID, answer.Status, answer.Failure); ended != nil {
		r.ledger.close(ended)
	}
	return nil
}

func (c *cut) path() string { return fmt.Sprintf("/checkpoints/%d", c.ID) }
