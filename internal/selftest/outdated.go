package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

func staleEpoch(ctx context.Context, p *play) error {
	if well, err := p.takesPart(ctx); !well || err != nil {
		return err
	}
	p.signs()
	if !p.epoch {
		p.note = "your worker names no epoch, so a recovery of the fleet cannot keep it out; that is right only for one that stands for itself"
		return nil
	}
	since := p.mark()
	if err := p.call(ctx, http.MethodPost, "/checkpoints/recover", nil, nil); err != nil {
		return err
	}
	return p.outdated(ctx, since, "stale_epoch",
		"The fleet has gone back to a checkpoint. What this worker holds, and writes to others, belongs to a time that did not happen.",
		"On 409 stale_epoch, or the event job.recovered_epoch, stop the work, drop the state, and begin anew: epoch, restore, then the work.")
}

func staleAttempt(ctx context.Context, p *play) error {
	if well, err := p.takesPart(ctx); !well || err != nil {
		return err
	}
	p.signs()
	if !p.attempted {
		p.note = "your worker names no attempt, so a later life of its task cannot keep it out"
		return nil
	}
	var once sync.Once
	var failure error
	triggered := make(chan int64, 1)
	later := func() {
		once.Do(func() {
			id, open := <-triggered
			if !open {
				return
			}
			path := fmt.Sprintf("/checkpoints/%d/tasks/%s/state?attempt=%d", id, url.PathEscape(p.task), p.attempt+1000)
			failure = p.call(ctx, http.MethodPut, path, struct{}{}, nil)
		})
	}
	p.front.Script(fault.On(fault.Upload).Before(later), fault.On(fault.Ack).Before(later))
	since := p.mark()
	id, err := p.trigger(ctx, 0, p.task)
	if err != nil {
		close(triggered)
		return err
	}
	triggered <- id
	if err := p.until(ctx, since, p.timeout, func(r fault.Requests) bool { return len(sends(r, id)) > 0 }); err != nil && ctx.Err() != nil {
		return err
	}
	err = p.outdated(ctx, since, "stale_attempt",
		"Two lives of one task work side by side and write everything twice.",
		"On 409 stale_attempt stop for good: a later life has taken over.")
	once.Do(func() {})
	forget := p.call(ctx, http.MethodDelete, "/jobs/"+url.PathEscape(p.job)+"/tasks/"+url.PathEscape(p.task), nil, nil)
	return errors.Join(err, failure, forget, p.abort(ctx, id))
}

// chances is how many checkpoints a worker is offered that belongs to the past.
const chances = 2

// outdated looks what a worker does whose messages are refused as those of a former life.
// It may end, or begin anew; it must not go on.
func (p *play) outdated(ctx context.Context, since int, code, why, do string) error {
	stale := func(r fault.Requests) fault.Requests {
		return r.Where(func(r fault.Request) bool { return problemCode(r) == code })
	}
	before, err := p.latestPart(ctx)
	if err != nil {
		return err
	}
	patience := p.timeout
	p.well = false // until it has begun another life
	for range chances {
		if p.exited() {
			return nil
		}
		mark := p.mark()
		id, err := p.trigger(ctx, 0, p.task)
		if err != nil {
			return err
		}
		err = p.until(ctx, mark, patience, func(r fault.Requests) bool {
			return len(stale(r)) > 0 || len(sends(r, id).Where(func(r fault.Request) bool { return r.Whole })) > 0
		})
		if err == nil {
			err = p.watch(ctx, p.windows.settling) // it may need a moment to end
		}
		switch {
		case errors.Is(err, errExited):
			return nil
		case err != nil && ctx.Err() != nil:
			return err
		}
		c, failed := p.get(ctx, id)
		if failed != nil {
			return failed
		}
		seen := p.front.Requests()[since:]
		anew := len(restores(seen).Where(brought)) > 0 || len(before.text) == 0 && len(beginnings(seen)) > 0
		switch {
		case c.Status == "completed" && anew:
			p.well = true
			return nil
		case c.Status == "completed":
			p.wrong("It took part in a checkpoint of the new epoch without having restored.", why, do)
			return nil
		case c.Status == "pending":
			if err := p.abort(ctx, id); err != nil {
				return err
			}
		}
		if err != nil && !anew && p.driver.Exited() != nil {
			p.wrong(fmt.Sprintf("It neither ended nor began anew within %s, and takes part in nothing.", p.timeout),
				"It looks alive to whatever watches over it, and nobody starts it again.", do)
			return nil
		}
		if p.driver.Exited() == nil { // one that a person watches has stopped when it is silent
			patience = min(p.timeout, 2*p.windows.settling)
		}
		if anew && code == "stale_epoch" {
			well, err := p.takesPart(ctx)
			if err != nil || well {
				return err
			}
		}
	}
	if n := len(stale(p.front.Requests()[since:])); n > 1 {
		p.wrong(fmt.Sprintf("It goes on although its messages are refused as %s (%d times).", code, n), why, do)
	}
	return nil
}
