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
		// A worker may move the deadline; then there is no expiry to see.
		for began := time.Now(); time.Since(began) < 2*p.timeout; {
			var c checkpoint
			err := p.call(ctx, http.MethodGet, fmt.Sprintf("/checkpoints/%d?until=ended&wait=2", id), nil, &c)
			if err != nil || c.Status != "pending" {
				return err
			}
		}
		return nil
	})
}

// meanwhile ends a checkpoint while the worker's message about it is on its way.
func (p *play) meanwhile(ctx context.Context, how string, timeout time.Duration, end func(context.Context, int64) error) error {
	since := p.mark()
	id, sent, err := p.endsUnder(ctx, timeout, end)
	for err == nil && !sent && !p.exited() && timeout > 0 && timeout < p.timeout {
		// The worker needs longer than that to have its part ready.
		timeout *= 3
		id, sent, err = p.endsUnder(ctx, timeout, end)
	}
	if err != nil {
		return err
	}
	if !sent && !p.exited() {
		c, err := p.get(ctx, id)
		if err == nil {
			p.tookPart(c, since)
		}
		return err
	}
	if err := p.watch(ctx, p.windows.settling); err != nil {
		return p.ifExited(err, fmt.Sprintf("It ended because checkpoint %d was %s while it handed in its part.", id, how))
	}
	insists := func() bool {
		n := len(sends(p.front.Requests()[since:], id))
		if n > repeatsMax+1 {
			p.tell(sends(p.front.Requests()[since:], id))
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

// endsUnder triggers a checkpoint that ends as soon as the worker has sent something about it,
// and waits until that is answered.
func (p *play) endsUnder(ctx context.Context, timeout time.Duration, end func(context.Context, int64) error) (id int64, sent bool, err error) {
	var once sync.Once
	var failure error
	triggered := make(chan int64, 1)
	hold := func() {
		once.Do(func() {
			if id, open := <-triggered; open {
				failure = end(ctx, id)
			}
		})
	}
	p.front.Clear()
	p.front.Script(fault.On(fault.Upload).Before(hold), fault.On(fault.Ack).Before(hold))
	since := p.mark()
	id, err = p.trigger(ctx, timeout, p.task)
	if err != nil {
		close(triggered)
		return id, false, err
	}
	triggered <- id
	late := p.timeout
	if timeout > 0 { // the end does not wait for the worker
		late = timeout
	}
	err = p.until(ctx, since, late, func(r fault.Requests) bool { return len(sends(r, id)) > 0 })
	if err == nil {
		err = p.until(ctx, since, p.timeout, func(r fault.Requests) bool {
			return len(sends(r, id).Where(func(r fault.Request) bool { return r.Over })) > 0
		})
	}
	if err != nil && ctx.Err() != nil {
		close(triggered)
		return id, false, err
	}
	sent = len(sends(p.front.Requests()[since:], id)) > 0
	if sent {
		once.Do(func() {}) // waits until it has ended
	}
	return id, sent, failure
}
