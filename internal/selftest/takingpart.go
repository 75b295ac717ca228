package selftest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// personal is how long a person may take to start a worker.
const personal = 24 * time.Hour

func freshStart(ctx context.Context, p *play) error {
	if err := p.restart(ctx, nil); err != nil {
		return err
	}
	patience := p.timeout
	if p.driver.Exited() == nil {
		patience = personal
	}
	err := p.until(ctx, p.from, patience, func(r fault.Requests) bool { return len(r) > 0 })
	switch {
	case errors.Is(err, errLate):
		p.wrong("It did not connect within "+p.timeout.String()+".", "", "Tell it where the server is: "+p.url+" (CHECKPOINTD_URL, or {url} in the command).")
		return nil
	case errors.Is(err, errExited):
		p.wrong("It ended before it had sent anything.", "", "Look at its output above.")
		return nil
	case err != nil:
		return err
	}
	_, err = p.takesPart(ctx)
	return err
}

// inARow is how many checkpoints it takes to call it a habit.
const inARow = 5

func several(ctx context.Context, p *play) error {
	for range inARow {
		if well, err := p.takesPart(ctx); !well || err != nil {
			return err
		}
	}
	p.signs()
	if !p.epoch {
		p.advise("Its messages name no epoch.",
			"After a recovery of the fleet, messages of a former life count, and the checkpoint mixes two lives.",
			"Read it from POST /checkpoints/recover or GET /jobs/{job} at the start, before the restore, and send it with each upload, acknowledgement and decline. "+
				"A worker that stands for itself needs none.")
	}
	if !p.attempted {
		p.advise("Its messages name no attempt.",
			"A former life of this task that is still about (paused, cut off) can hand in its part in place of the present one.",
			"Count the lives of the task, from 1, where the worker is started, and send the number as attempt.")
	}
	return nil
}

// busy requests a second are too many, and quick ones are more than waiting needs.
const (
	busy  = 10
	quick = 2
)

// over tells whether so many requests within such a time are more than the rate allows.
func over(n, rate int, within time.Duration) bool { return float64(n) > float64(rate)*within.Seconds() }

func idle(ctx context.Context, p *play) error {
	from := p.mark()
	if err := p.watch(ctx, p.windows.idle); err != nil {
		return p.ifExited(err, "It ended while there was nothing to do.")
	}
	sent := p.front.Requests()[from:]
	switch n := len(sent); {
	case over(n, busy, p.windows.idle):
		p.tell(sent)
		p.wrong(fmt.Sprintf("It sent %d requests within %s while nothing was to be done.", n, p.windows.idle),
			"A fleet that asks in a tight loop is an attack on its own coordinator.",
			"Let the server keep the question open (&wait=30), follow GET /events, or at least pause between two questions.")
	case over(n, quick, p.windows.idle):
		p.advise(fmt.Sprintf("It sent %d requests within %s while nothing was to be done.", n, p.windows.idle),
			"It asks more often than it has to, and hears later than it could.", "Let the server keep the question open: &wait=30.")
	}
	return nil
}

// ifExited makes a finding of the end of the worker; other errors are the kit's.
func (p *play) ifExited(err error, what string) error {
	if !errors.Is(err, errExited) {
		return err
	}
	p.wrong(what, "Work stops until somebody starts it again.", "Look at its output above: catch what ended it and go on.")
	return nil
}

func twoPending(ctx context.Context, p *play) error {
	// It hears of neither until there are both.
	p.front.Script(fault.On(fault.Any).CutBefore().Always())
	p.front.Cut(fault.Any)
	since := p.mark()
	var ids []int64
	for range 2 {
		id, err := p.trigger(ctx, 0, p.task)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	p.front.Clear()
	for _, id := range ids {
		if took, err := p.handedIn(ctx, id, since); !took || err != nil {
			return err
		}
	}
	return nil
}

// repeatsMax is how often a message that cannot count any more is excused while the worker settles.
const repeatsMax = 4

func acknowledgedOnce(ctx context.Context, p *play) error {
	since := p.mark()
	id, err := p.trigger(ctx, 0, p.task, other)
	if err != nil {
		return err
	}
	c, err := p.ended(ctx, id)
	if err != nil || !p.tookPart(c, since) {
		return err
	}
	mark := p.mark()
	if err := p.watch(ctx, p.windows.settling); err != nil {
		return p.ifExited(err, "It ended after it had acknowledged a checkpoint that waits for another task.")
	}
	switch n := len(sends(p.front.Requests()[mark:], id)); {
	case n > repeatsMax:
		p.wrong(fmt.Sprintf("It handed in its part of checkpoint %d %d times more within %s, after its acknowledgement had been answered.", id, n, p.windows.settling),
			"It is busy with a checkpoint that it is done with for as long as another task takes.",
			"Ask with notAckedBy: GET /checkpoints?status=pending&notAckedBy=… leaves out what has the task's acknowledgement; or remember what was answered.")
	case n > 0:
		p.advise(fmt.Sprintf("It handed in its part of checkpoint %d again (%d times) after its acknowledgement had been answered.", id, n), "It is work for nothing.",
			"Ask with notAckedBy, or remember what was answered.")
	}
	return p.acknowledgeOther(ctx, id)
}
