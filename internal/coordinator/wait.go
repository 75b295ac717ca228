package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrDraining ends what waits when the server shuts down.
var ErrDraining = errors.New("the server is draining")

// await calls check at once, then after events that matter, until it is satisfied or
// fails, the wait is over, or the server drains; then once more. A check that is handed
// the watcher may share its answer with others, as long as that has seen the watcher's place.
func (c *Coordinator) await(ctx context.Context, job string, wait time.Duration, matters func(*Event) bool, check func(news *Watcher) (bool, error)) error {
	if wait <= 0 {
		_, err := check(nil)
		return err
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// From before the first check on, or what happens right after it would be missed.
	watcher, err := c.watch(ctx, job, nil, (*feed).begin)
	if err != nil {
		return err
	}
	defer watcher.Close()
	var news *Watcher
	for {
		if done, err := check(news); done || err != nil {
			return err
		}
		for {
			batch, err := watcher.Next(within)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				_, err = check(nil)
				return err
			}
			if batch.matter(matters) {
				break
			}
		}
		news = watcher
	}
}

func (b *Batch) matter(matters func(*Event) bool) bool {
	for _, event := range b.Events {
		if matters(event) {
			return true
		}
	}
	return b.Gap
}

// sharedViews are answers that many waiters of one job want at the same event, which would
// otherwise be thousands of equal reads.
type sharedViews struct {
	pending sharedView[ListResult]
	latest  sharedView[CheckpointDetail]
}

// sharedView is one answer and the place in the log that it has seen.
type sharedView[T any] struct {
	mu    sync.Mutex
	at    EventID
	value T
}

// get gives an answer that has seen at; one caller reads it while the others wait.
func (v *sharedView[T]) get(at EventID, read func() (T, error)) (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at.Compare(v.at) <= 0 {
		return v.value, nil
	}
	value, err := read()
	if err == nil {
		v.at, v.value = at, value
	}
	return value, err
}

// AwaitList is List that waits for a page that is not empty; when the wait is over it
// gives what there is.
func (c *Coordinator) AwaitList(ctx context.Context, list ListCall, wait time.Duration) (ListResult, error) {
	var result ListResult
	kind := map[Status]EventType{
		StatusPending: EventTriggered, StatusCompleted: EventCompleted, StatusExpired: EventExpired, StatusAborted: EventAborted,
	}[list.Status]
	matters := func(e *Event) bool { return list.Status == "" || e.Type == kind }
	err := c.await(ctx, list.Job, wait, matters, func(news *Watcher) (done bool, err error) {
		if news != nil && list.Status == StatusPending && list.Before < 0 {
			if shared, ok, err := c.sharedPending(ctx, list, news); ok || err != nil {
				result = shared
				return len(result.Checkpoints) > 0, err
			}
		}
		result, err = c.List(ctx, list)
		return len(result.Checkpoints) > 0, err
	})
	return result, err
}

// sharedPending answers from one page that all waiters of a job share. ok is false where
// that does not tell what this task has to do.
func (c *Coordinator) sharedPending(ctx context.Context, list ListCall, news *Watcher) (result ListResult, ok bool, err error) {
	page, err := news.feed.shared().pending.get(news.place, func() (ListResult, error) {
		return c.List(ctx, ListCall{Job: list.Job, Status: StatusPending, Before: -1, Limit: MaxListLimit})
	})
	if err != nil || page.Next >= 0 {
		return ListResult{}, false, err
	}
	if list.NotAckedBy != "" {
		for i := range page.Checkpoints {
			// Before the first acknowledgement nobody has acknowledged, but names exclude.
			if c := &page.Checkpoints[i]; c.NamedTasks || c.AcknowledgedTasks > 0 {
				return ListResult{}, false, nil
			}
		}
	}
	if len(page.Checkpoints) > list.Limit {
		page.Checkpoints = page.Checkpoints[:list.Limit]
		page.Next = page.Checkpoints[list.Limit-1].ID
	}
	return page, true, nil
}

// AwaitLatest reads the latest completed checkpoint once its id is above after (< 0 takes any);
// found is false when the wait was over before.
func (c *Coordinator) AwaitLatest(ctx context.Context, job string, after int64, wait time.Duration) (latest CheckpointDetail, found bool, err error) {
	matters := func(e *Event) bool { return e.Type == EventCompleted || e.Type == EventDeleted }
	read := func() (CheckpointDetail, error) { return c.Get(ctx, Ref{Job: job, ID: Latest}) }
	err = c.await(ctx, job, wait, matters, func(news *Watcher) (bool, error) {
		var err error
		if news == nil {
			latest, err = read()
		} else {
			latest, err = news.feed.shared().latest.get(news.place, read)
		}
		if CodeOf(err) == CodeNoCompletedCheckpoint {
			return false, nil
		}
		found = err == nil && latest.ID > after
		return found, err
	})
	return latest, found, err
}

// AwaitEnd reads a checkpoint once it has ended, or as it is when the wait is over.
func (c *Coordinator) AwaitEnd(ctx context.Context, ref Ref, wait time.Duration) (CheckpointDetail, error) {
	var detail CheckpointDetail
	matters := func(e *Event) bool { return e.CheckpointID == ref.ID && e.Type != EventTriggered }
	err := c.await(ctx, ref.Job, wait, matters, func(*Watcher) (done bool, err error) {
		detail, err = c.Get(ctx, ref)
		return detail.Status != StatusPending, err
	})
	return detail, err
}
