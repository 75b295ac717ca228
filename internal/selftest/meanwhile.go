package selftest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// soon is the deadline of a checkpoint that expires while its part is on the way.
const soon = 300 * time.Millisecond

func abortedMeanwhile(ctx context.Context, p *play) error {
	return p.meanwhile(ctx, "aborted", 0, p.abort)
}

func deletedMeanwhile(ctx context.Context, p *play) error {
	return p.meanwhile(ctx, "deleted", 0, func(ctx context.Context, id int64) error {
		return p.call(ctx, http.MethodDelete, fmt.Sprintf("/checkpoints/%d", id), nil, nil)
	})
}

func expiredMeanwhile(ctx context.Context, p *play) error {
	return p.meanwhile(ctx, "expired", soon, func(ctx context.Context, id int64) error {
		ctx, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		for { // a worker may move the deadline; then there is no expiry to see
			var c checkpoint
			if err := p.call(ctx, http.MethodGet, fmt.Sprintf("/checkpoints/%d?until=ended&wait=2", id), nil, &c); err != nil || c.Status != "pending" {
				return err
			}
		}
	})
}

// meanwhile ends a checkpoint while the worker's message about it is on its way.
func (p *play) meanwhile(ctx context.Context, how string, timeout time.Duration, end func(context.Context, int64) error) error {
	var once sync.Once
	var failure error
	triggered := make(chan int64, 1)
	hold := func() {
		once.Do(func() {
			select {
			case id := <-triggered:
				failure = end(ctx, id)
			case <-ctx.Done():
			}
		})
	}
	p.front.Script(fault.On(fault.Upload).Before(hold), fault.On(fault.Ack).Before(hold))
	since := p.mark()
	id, err := p.trigger(ctx, timeout, p.task)
	if err != nil {
		close(triggered)
		return err
	}
	triggered <- id
	err = p.until(ctx, since, p.timeout, func(r fault.Requests) bool {
		return len(sends(r, id).Where(func(r fault.Request) bool { return r.Over })) > 0
	})
	once.Do(func() {}) // it may not begin any more, and has ended
	if failure != nil {
		return failure
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil && !p.exited() {
		c, err := p.get(ctx, id)
		if err != nil {
			return err
		}
		p.tookPart(c, since)
		return nil
	}
	if err := p.watch(ctx, settling); err != nil {
		return p.ifExited(err, fmt.Sprintf("It ended because checkpoint %d was %s while it handed in its part.", id, how))
	}
	insists := func() bool {
		n := len(sends(p.front.Requests()[since:], id))
		if n > repeatsMax+1 {
			p.wrong(fmt.Sprintf("It handed in its part of checkpoint %d, which was %s, %d times.", id, how, n),
				"A checkpoint that has ended does not come back: the worker is busy for nothing and does not come to the next.",
				"On 409 checkpoint_aborted, checkpoint_expired, checkpoint_completed and 404 checkpoint_deleted drop the part and go on; the answer's current names the next.")
		}
		return n > repeatsMax+1
	}
	if insists() {
		return nil
	}
	well, err := p.takesPart(ctx)
	if err == nil && !well {
		insists() // slowly
	}
	return err
}
