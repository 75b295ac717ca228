package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// ofCheckpoint tells whether a restore is one of this checkpoint, by its id or as the latest.
func ofCheckpoint(r fault.Request, id int64) bool {
	of := r.Var(fault.Restore, "id") + r.Var(fault.Snapshot, "id")
	return of == "latest" || of == fmt.Sprint(id)
}

func restarted(ctx context.Context, p *play) error {
	if well, err := p.takesPart(ctx); !well || err != nil {
		return err
	}
	usual, err := p.latestPart(ctx)
	if err != nil {
		return err
	}
	if well, err := p.takesPart(ctx); !well || err != nil {
		return err
	}
	before, err := p.latestPart(ctx)
	if err != nil {
		return err
	}
	since := p.mark()
	if err := p.restart(ctx, nil); err != nil {
		return err
	}
	if well, err := p.restored(ctx, since, before, p.timeout); !well || err != nil {
		return err
	}
	if well, err := p.takesPart(ctx); !well || err != nil {
		return err
	}
	p.notRecoveredWithoutKey(since)
	after, err := p.partsSince(ctx, since)
	if err != nil || len(after) == 0 {
		return err
	}
	p.compareKeys(before, after[0])
	if len(p.fresh) > 0 && usual.equals(p.fresh[0]) {
		return nil // it comes round to that without a restart, too
	}
	return p.usesRestore(ctx, before, since)
}

// compareKeys looks for entries that were restored and not handed in again.
func (p *play) compareKeys(before, after part) {
	var lost []string
	for _, key := range before.keys {
		if !slices.Contains(after.keys, key) && len(lost) < 5 {
			lost = append(lost, key)
		}
	}
	if len(lost) > 0 {
		p.advise(fmt.Sprintf("What it handed in right after the restore lacks keys that its part had before: %q.", lost),
			"If the worker did not remove them itself, it did not take them back, and its state is lost.",
			"Take every entry of the restore back into the state before the work begins.")
	}
}

// notRecoveredWithoutKey looks at recoveries by the worker.
func (p *play) notRecoveredWithoutKey(since int) {
	for _, request := range p.front.Requests()[since:].Of(fault.Recover) {
		if request.Header.Get("Idempotency-Key") == "" {
			p.wrong("It recovers without an Idempotency-Key.",
				"Each worker's call raises the epoch again, so the workers of one fleet throw each other out.",
				"Send an Idempotency-Key that is the same for all workers, one for each crash.")
			return
		}
	}
}

// restored waits until the worker has read its part to its end, and tells whether it did so
// before it handed anything in. waiting are checkpoints that were triggered for it; while none of them is
// pending, since there was none or the worker's recovery ended it, another one is triggered now and then: a
// worker that has forgotten its state shows that by handing something in.
func (p *play) restored(ctx context.Context, since int, before part, patience time.Duration, waiting ...int64) (bool, error) {
	enough := func(r fault.Requests) bool {
		return len(r.Of(fault.Upload, fault.Ack)) > 0 || len(restores(r).Where(brought)) > 0 || len(before.text) == 0 && len(beginnings(r)) > 0
	}
	mark, lives := since, 0
	for late := time.Now().Add(patience); ; {
		err := p.until(ctx, mark, min(time.Until(late), p.windows.early), enough)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, err
		case errors.Is(err, errExited) && lives < livesMax:
			// Ending is safe: nothing was handed in. Whoever watches over it starts it again.
			lives++
			mark, late = p.mark(), time.Now().Add(patience)
			if err := p.pause(ctx, p.windows.respawn); err != nil {
				return false, err
			}
			if err := p.restart(ctx, nil); err != nil {
				return false, err
			}
			continue
		case errors.Is(err, errLate) && time.Now().Before(late):
			if waiting, err = p.offer(ctx, waiting); err != nil {
				return false, err
			}
			continue
		}
		break
	}
	well := p.judgeRestore(p.front.Requests()[since:], before)
	if well {
		p.front.Clear()
	}
	for _, id := range waiting {
		if err := p.settle(ctx, id); err != nil {
			return false, err
		}
	}
	return well, nil
}

// offer triggers a checkpoint unless one of these is pending.
func (p *play) offer(ctx context.Context, waiting []int64) ([]int64, error) {
	for _, id := range waiting {
		if c, err := p.get(ctx, id); err != nil || c.Status == "pending" {
			return waiting, err
		}
	}
	id, err := p.trigger(ctx, 0, p.task)
	return append(waiting, id), err
}

// livesMax is how often a worker may end itself in one restore.
const livesMax = 40

func (p *play) judgeRestore(seen fault.Requests, before part) bool {
	var got int64 // bytes of the part without a gap
	whole := len(before.text) == 0 && len(beginnings(seen)) > 0
	for _, request := range seen {
		switch {
		case request.Is(fault.Upload) || request.Is(fault.Ack):
			if whole {
				return true
			}
			p.blameRestore(seen, got, before)
			return false
		case !request.Is(fault.Restore) && !request.Is(fault.Snapshot) || request.Status >= http.StatusBadRequest || request.Status == 0:
			continue
		case !ofCheckpoint(request, before.id):
			p.wrong(fmt.Sprintf("It restored checkpoint %s, and the latest completed one is %d.", request.Var(fault.Restore, "id"), before.id),
				"It goes on from an older state and does again what was done.", "Restore what GET /checkpoints/latest or POST /checkpoints/recover names, or GET /checkpoints/latest/restore.")
			return false
		}
		if request.Fault == pageOfHTML {
			continue
		}
		start := int64(0)
		if request.Status == http.StatusPartialContent {
			_, _ = fmt.Sscanf(request.Header.Get("Range"), "bytes=%d-", &start) // none is from the start
		}
		if start > got {
			p.wrong(fmt.Sprintf("It had %d bytes of the restore and asked for those from %d on.", got, start),
				"What lies between is missing in its state.", "Resume at the number of bytes that were read and taken in, or begin anew.")
			return false
		}
		got = start + request.AnswerBytes
		whole = whole || brought(request)
	}
	if !whole {
		p.blameRestore(seen, got, before)
	}
	return whole
}

// blameRestore says what is wrong with a worker that has not restored.
func (p *play) blameRestore(seen fault.Requests, got int64, before part) {
	first := slices.IndexFunc(seen, func(r fault.Request) bool { return r.Is(fault.Upload) || r.Is(fault.Ack) })
	handedIn := first >= 0
	if handedIn {
		seen = seen[:first] // what came later was not why
	}
	refusedFirst := slices.ContainsFunc(seen, func(r fault.Request) bool {
		return r.Status == http.StatusServiceUnavailable && asksForState(r)
	})
	switch {
	case handedIn && got > 0:
		p.wrong(fmt.Sprintf("It handed in a part after it had read %d of the %d bytes of its restore.", got, len(before.text)),
			"It goes on with half of its state and makes a checkpoint of it: the other half is lost for good.",
			"Compare with Content-Length, take an error while reading for what it is, and resume (Range with If-Range) or begin anew until all of it is read.")
	case handedIn && len(seen.Where(func(r fault.Request) bool { return r.Fault == pageOfHTML })) > 0:
		p.wrong("It was answered with a page of HTML when it asked what to restore, and handed in a part without having restored.",
			"It took what a proxy said for an empty state, and the next checkpoint has that: all is lost.",
			"A restore is application/x-ndjson, and has a Checkpoint-Id and Content-Length; on anything else ask again.")
	case handedIn && refusedFirst:
		p.wrong("It was answered 503 when it asked what to restore, and handed in a part without having restored.",
			"It took a store that is away for a job without checkpoints, and the next checkpoint has its empty state: all is lost.",
			"Only 404 no_completed_checkpoint is a fresh start. Wait and ask again on 503, and on no answer.")
	case handedIn:
		p.wrong(fmt.Sprintf("It handed in a part without having restored checkpoint %d.", before.id),
			"It begins with nothing and makes a checkpoint of it: its state is lost.",
			"At its start, read GET /checkpoints/latest/restore?taskId="+url.QueryEscape(p.task)+" to its end before anything else.")
	case got > 0:
		p.wrong(fmt.Sprintf("It read %d of the %d bytes of its restore and did not come back for the rest within %s.", got, len(before.text), p.timeout),
			"It hangs.", "Resume (Range with If-Range) or begin anew until all of it is read.")
	case p.exited():
		p.wrong("It ends again and again at its start, instead of restoring.", "It does not work any more.", "Look at its output above.")
	default:
		p.wrong(fmt.Sprintf("It did not restore checkpoint %d within %s.", before.id, p.timeout), "Its state is lost, or it hangs.",
			"At its start, read GET /checkpoints/latest/restore?taskId="+url.QueryEscape(p.task)+" to its end; wait and ask again on 503, and on no answer.")
	}
}

// startsUnder restarts the worker with a checkpoint pending, so that it could hand something
// in at once, under these rules, and judges what it does about its state.
func (p *play) startsUnder(ctx context.Context, rules []fault.Rule, patience time.Duration) error {
	before, err := p.latestPart(ctx)
	if err != nil {
		return err
	}
	since := p.mark()
	var waiting int64
	err = p.restart(ctx, func() error {
		p.front.Script(rules...)
		since = p.mark()
		var err error
		if p.driver.Exited() != nil { // it is dead now; one that a person kills is not yet
			waiting, err = p.trigger(ctx, 0, p.task)
		}
		return err
	})
	if err != nil {
		return err
	}
	if p.driver.Exited() == nil {
		if waiting, err = p.trigger(ctx, 0, p.task); err != nil {
			return err
		}
	}
	if well, err := p.restored(ctx, since, before, patience, waiting); !well || err != nil {
		return err
	}
	_, err = p.takesPart(ctx)
	return err
}

// settle waits for the end of a checkpoint, whatever it is; a worker that recovered has ended it.
func (p *play) settle(ctx context.Context, id int64) error {
	if p.well {
		if c, err := p.ended(ctx, id); err != nil || c.Status != "pending" {
			return err
		}
	}
	c, err := p.get(ctx, id)
	if err != nil || c.Status != "pending" {
		return err
	}
	return p.abort(ctx, id)
}

func restoreBrokenOff(ctx context.Context, p *play) error {
	before, err := p.latestPart(ctx)
	if err != nil {
		return err
	}
	half := int64(len(before.text) / 2)
	if half == 0 {
		p.note = "the part of your worker is too small to break off"
		return nil
	}
	return p.startsUnder(ctx, []fault.Rule{
		fault.On(fault.Restore).CutAnswerAfter(half), fault.On(fault.Snapshot).CutAnswerAfter(half),
		fault.On(fault.Restore).CutAnswerAfter(0), fault.On(fault.Snapshot).CutAnswerAfter(0),
	}, p.timeout)
}

// pageOfHTML is what the front notes of such an answer.
const pageOfHTML = "answered with a page of HTML"

func restorePage(ctx context.Context, p *play) error {
	return p.startsUnder(ctx, []fault.Rule{
		fault.On(fault.Restore).Garbage(), fault.On(fault.Snapshot).Garbage(), fault.On("GET /checkpoints/latest").Garbage(),
	}, p.timeout)
}

// pause waits, whatever the worker does.
func (p *play) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
