package coordinator

import (
	"context"
	"errors"
	"time"
)

// ErrDraining ends what waits when the server shuts down.
var ErrDraining = errors.New("the server is draining")

// await calls check at once, then after events that matter, until it is satisfied or
// fails, the wait is over, or the server drains; then once more. Thousands wait for the
// same event, so a waiter costs one timer and no goroutine. check is handed the feed, and
// after an event its turn: it may then share an answer that was read at that turn or
// later, which is after the waiter came.
func (c *Coordinator) await(
	ctx context.Context, job string, wait time.Duration, matters func(*Event) bool, check func(f *feed, turn uint64) (done bool, err error),
) error {
	if wait <= 0 {
		_, err := check(nil, 0)
		return err
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	feed, _, err := c.feeds.join(ctx, job, false)
	if err != nil {
		return err
	}
	defer feed.leave()
	// From before the first check on, or what happens right after it would be missed. The
	// feed may lag, which makes another check and no harm.
	seen := feed.now.Load()
	done, err := apart(func() (bool, error) { return check(feed, 0) })
	for !done && err == nil {
		select {
		case <-seen.changed:
			now := feed.now.Load()
			if now.matters(seen.position, matters) {
				done, err = check(feed, now.turn)
			}
			seen = now
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over.C:
			_, err = check(feed, 0)
			return err
		case <-c.draining:
			_, err = check(feed, 0)
			return err
		}
	}
	return err
}

// apart calls f on a stack of its own. A look into the store goes deep, and a stack that has
// grown stays so while its goroutine waits: of thousands that would be most of the memory.
func apart(f func() (bool, error)) (done bool, err error) {
	finished := make(chan any)
	go func() {
		defer func() { finished <- recover() }()
		done, err = f()
	}()
	if cause := <-finished; cause != nil {
		panic(cause)
	}
	return done, err
}

// matters tells whether anything behind place matters; what is not known may.
func (s *stretch) matters(place EventID, matters func(*Event) bool) bool {
	events, reached := s.after(place)
	found := !reached || s.lost != nil
	for i := range events { // all of them: a waiter may note what it hears
		found = matters(events[i]) || found
	}
	return found
}

// AwaitList is List that waits for a page that is not empty; when the wait is over it
// gives what there is. Checkpoints may be shared with others: they are to be read only.
func (c *Coordinator) AwaitList(ctx context.Context, list ListCall, wait time.Duration) (ListResult, error) {
	if err := list.check(); err != nil {
		return ListResult{}, err
	}
	var result ListResult
	kind := map[Status]EventType{
		StatusPending: EventTriggered, StatusCompleted: EventCompleted, StatusExpired: EventExpired, StatusAborted: EventAborted,
	}[list.Status]
	matters := func(e *Event) bool { return list.Status == "" || e.Type == kind }
	err := c.await(ctx, list.Job, wait, matters, func(f *feed, turn uint64) (done bool, err error) {
		shared := false
		if f != nil && list.Status == StatusPending && list.Before < 0 {
			result, shared, err = c.sharedPending(ctx, f, turn, list)
		}
		if !shared && err == nil {
			result, err = inTime(ctx, func(ctx context.Context) (ListResult, error) { return c.List(ctx, list) })
		}
		return len(result.Checkpoints) > 0, err
	})
	return result, err
}

// AwaitLatest reads the latest completed checkpoint once its id is above after (< 0 takes any);
// found is false when the wait was over before.
func (c *Coordinator) AwaitLatest(ctx context.Context, job string, after int64, wait time.Duration) (latest CheckpointDetail, found bool, err error) {
	ref := Ref{Job: job, ID: Latest}
	if err := ref.check(); err != nil {
		return CheckpointDetail{}, false, err
	}
	// An update may take one back that was set aside, or say that it was repaired.
	matters := func(e *Event) bool { return e.Type == EventCompleted || e.Type == EventUpdated }
	err = c.await(ctx, job, wait, matters, func(f *feed, turn uint64) (bool, error) {
		latest, err = c.getShared(ctx, f, turn, ref)
		if CodeOf(err) == CodeNoCompletedCheckpoint {
			return false, nil
		}
		found = err == nil && latest.ID > after
		return found, err
	})
	return latest, found, err
}

// AwaitEnd reads a checkpoint once it has ended, or as it is when the wait is over. Of one that is gone by then, as its
// end and its removal may be one step, it tells the end that the job's log has; CodeCheckpointDeleted and CodeJobNotFound
// are for one that was gone before, or whose end the log has trimmed.
func (c *Coordinator) AwaitEnd(ctx context.Context, ref Ref, wait time.Duration) (CheckpointDetail, error) {
	if err := ref.check(); err != nil {
		return CheckpointDetail{}, err
	}
	var detail CheckpointDetail
	var end *Event
	matters := func(e *Event) bool {
		if e.CheckpointID != ref.ID || e.Type == EventTriggered {
			return false
		}
		if e.Type == EventCompleted || e.Type == EventExpired || e.Type == EventAborted {
			end = e
		}
		return true
	}
	err := c.await(ctx, ref.Job, wait, matters, func(f *feed, turn uint64) (done bool, err error) {
		seen, err := c.getShared(ctx, f, turn, ref)
		if code := CodeOf(err); end != nil && detail.Status == StatusPending && (code == CodeCheckpointDeleted || code == CodeJobNotFound) {
			detail.Checkpoint = endedAs(detail.Checkpoint, end)
			return true, nil
		}
		detail = seen
		return detail.Status != StatusPending, err
	})
	return detail, err
}

// endedAs is a pending checkpoint as an event says that it ended.
func endedAs(c Checkpoint, e *Event) Checkpoint {
	c.Status, c.Failure, c.EndedAt, c.ObservedAt = e.Status, e.Failure, c.Start+e.DurationMs, e.At
	c.AcknowledgedTasks, c.MissingTasks = e.AcknowledgedTasks, e.MissingTasks
	c.Revision++
	if c.Status == StatusCompleted {
		c.SnapshotVersion, c.Entries, c.Bytes = SnapshotVersion, e.Entries, e.Bytes
	}
	return c
}
