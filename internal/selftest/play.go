package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// play is a scenario with the worker in it.
type play struct {
	*stage

	task    string
	timeout time.Duration
	driver  Driver
	windows windows

	number int  // of the present life, 0 before the first
	well   bool // the worker took part when it was last asked to
	// hopeless is one that did not when it had just begun a life.
	hopeless bool
	// epoch and attempt tell whether its messages ever had them, and the last attempt.
	epoch, attempted bool
	attempt          int64

	// fresh are the first parts that it handed in, in the life freshLife.
	fresh     []part
	freshLife int
	told      map[string]bool // kinds of requests whose busy loop was told of

	from     int // the first request of this scenario
	findings []Finding
	note     string
}

// wrong notes what a worker must not do.
func (p *play) wrong(what, why, do string) {
	p.findings = append(p.findings, Finding{Must: true, What: what, Why: why, Do: do})
	p.well = false
}

// advise notes what a worker should do otherwise.
func (p *play) advise(what, why, do string) {
	p.findings = append(p.findings, Finding{What: what, Why: why, Do: do})
}

// Why a wait ended before what was waited for had come.
var (
	errLate   = errors.New("it took too long")
	errExited = errors.New("the worker has ended")
)

// shown are the requests of this scenario, and those that were under way at its beginning.
func (p *play) shown(began time.Time) []string {
	requests := p.front.Requests()
	before := requests[:p.from].Where(func(r fault.Request) bool { return !r.Over || r.End.After(began) })
	return shown(append(before, requests[p.from:]...), began)
}

// seen are the worker's requests of this scenario.
func (p *play) seen() fault.Requests { return p.front.Requests()[p.from:] }

// patient is a context that ends after so long, or when the worker does.
func (p *play) patient(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, late := context.WithTimeoutCause(ctx, d, errLate)
	ctx, end := context.WithCancelCause(ctx)
	exited, done := p.driver.Exited(), make(chan struct{})
	go func() {
		select {
		case <-exited:
			end(errExited)
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		end(nil)
		late()
	}
}

// until waits until what the worker has sent since the mark is enough.
func (p *play) until(ctx context.Context, mark int, d time.Duration, enough func(fault.Requests) bool) error {
	patient, done := p.patient(ctx, d)
	defer done()
	_, err := p.front.Wait(patient, func(r fault.Requests) bool { return enough(r[mark:]) })
	return err
}

// quiet waits until no message of the worker is under way, so that what is done to it next does
// not hit the last of what was before.
func (p *play) quiet(ctx context.Context) error {
	_ = p.until(ctx, 0, p.timeout, func(r fault.Requests) bool {
		return len(r.Of(fault.Upload, fault.Ack).Where(func(r fault.Request) bool { return !r.Over })) == 0
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// watch lets some time pass, and tells whether the worker ended meanwhile.
func (p *play) watch(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-p.driver.Exited():
		return errExited
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *play) mark() int { return len(p.front.Requests()) }

// exited tells whether the worker has ended by itself.
func (p *play) exited() bool {
	select {
	case <-p.driver.Exited():
		return true
	default:
		return false
	}
}

// other is a task that keeps a checkpoint pending until the kit acknowledges for it.
const other = "checkpointd-selftest"

func (p *play) trigger(ctx context.Context, timeout time.Duration, tasks ...string) (int64, error) {
	var c checkpoint
	err := p.call(ctx, http.MethodPost, "/checkpoints", map[string]any{"tasks": tasks, "timeoutMs": timeout.Milliseconds()}, &c)
	return c.ID, err
}

func (p *play) get(ctx context.Context, id int64) (checkpoint, error) {
	var c checkpoint
	return c, p.call(ctx, http.MethodGet, fmt.Sprintf("/checkpoints/%d", id), nil, &c)
}

// abort ends a checkpoint; one that has just ended by itself is left as it is.
func (p *play) abort(ctx context.Context, id int64) error {
	err := p.call(ctx, http.MethodPost, fmt.Sprintf("/checkpoints/%d/abort", id), nil, nil)
	if refusal, is := errors.AsType[*refusal](err); is && refusal.status == http.StatusConflict {
		return nil
	}
	return err
}

// ended waits for the end of a checkpoint, for its acknowledgement by the worker where
// another task is missing, or until the patience is over; the checkpoint is as it is then.
func (p *play) ended(ctx context.Context, id int64) (checkpoint, error) {
	patient, done := p.patient(ctx, p.timeout)
	defer done()
	for {
		var c checkpoint
		err := p.call(patient, http.MethodGet, fmt.Sprintf("/checkpoints/%d?until=ended&wait=1", id), nil, &c)
		if err == nil && c.Status == "pending" && c.AcknowledgedTasks == 0 {
			continue
		}
		if err != nil && ctx.Err() == nil && patient.Err() != nil {
			return p.get(ctx, id)
		}
		return c, err
	}
}

// handedIn waits for the worker's part in a checkpoint, and judges whether it came. The checkpoint is
// over then.
func (p *play) handedIn(ctx context.Context, id int64, since int) (bool, error) {
	c, err := p.ended(ctx, id)
	if err == nil && c.Status == "pending" {
		err = p.abort(ctx, id)
	}
	if err != nil {
		return false, err
	}
	return p.tookPart(c, since), nil
}

// tookPart judges a checkpoint that the worker was to take part in.
func (p *play) tookPart(c checkpoint, since int) bool {
	if c.Status == "completed" || c.AcknowledgedTasks > 0 {
		p.well = true
		return true
	}
	seen := p.front.Requests()[since:]
	switch {
	case c.Failure.Reason == "declined":
		p.wrong(fmt.Sprintf("It declined checkpoint %d: %s", c.ID, c.Failure.Message),
			"A decline ends the checkpoint for all workers.", "Decline only when the cut itself cannot be taken; send again what did not get through.")
	case p.exited():
		p.wrong(fmt.Sprintf("It ended while checkpoint %d waited for it.", c.ID),
			"Work stops, and no checkpoint completes until it is started again.", "Look at its output above: catch what ended it and go on.")
	case p.foreign(seen):
	case len(seen) == 0:
		p.wrong(fmt.Sprintf("It sent nothing at all while checkpoint %d waited for it for %s.", c.ID, p.timeout),
			"It hangs: no checkpoint completes any more.",
			"Bound every call in time (a connection may die silently), and ask again: GET /checkpoints?status=pending&notAckedBy="+url.QueryEscape(p.task)+"&wait=30.")
	case len(sends(seen, c.ID)) == 0:
		p.wrong(fmt.Sprintf("It did not hand anything in for checkpoint %d within %s.", c.ID, p.timeout),
			"The checkpoint cannot complete: after a crash everybody goes back further.",
			"Ask for what is pending (GET /checkpoints?status=pending&notAckedBy="+url.QueryEscape(p.task)+"), do not rely on events alone, and take part in each.")
	default:
		p.wrong(fmt.Sprintf("It did not acknowledge checkpoint %d within %s.", c.ID, p.timeout),
			"The checkpoint cannot complete: after a crash everybody goes back further.",
			"Send the upload and the acknowledgement again until there is an answer that says how it ended.")
	}
	return false
}

// foreign notes messages of a task that the kit did not ask for.
func (p *play) foreign(seen fault.Requests) bool {
	for _, request := range seen {
		if problemCode(request) == "task_not_expected" {
			p.wrong(fmt.Sprintf("It handed in a part as another task than %q.", p.task),
				"A part under another name is refused, and the task's own is missing.",
				"Give the worker the same task as the kit (--task, CHECKPOINTD_TASK or {task}), percent-encoded in paths.")
			return true
		}
	}
	return false
}

// takesPart triggers a checkpoint for the worker, which must complete. A worker that
// recovers at its start ends what is pending then; this does not count.
func (p *play) takesPart(ctx context.Context) (bool, error) {
	for tries := 0; ; tries++ {
		since := p.mark()
		id, err := p.trigger(ctx, 0, p.task)
		if err != nil {
			return false, err
		}
		c, err := p.ended(ctx, id)
		if err != nil {
			return false, err
		}
		if c.Failure.Reason == "superseded" && tries < 3 {
			continue
		}
		if c.Status == "pending" {
			if err := p.abort(ctx, id); err != nil {
				return false, err
			}
		}
		if c.Status == "completed" {
			if err := p.remember(ctx, c.ID); err != nil {
				return false, err
			}
		}
		return p.tookPart(c, since), nil
	}
}

// acknowledgeOther completes a checkpoint that waits for the kit's task only.
func (p *play) acknowledgeOther(ctx context.Context, id int64) error {
	return p.call(ctx, http.MethodPost, fmt.Sprintf("/checkpoints/%d/acks", id), map[string]string{"taskId": other}, nil)
}

// restart kills the worker and begins another life. prepare is called in between.
func (p *play) restart(ctx context.Context, prepare func() error) error {
	if p.number > 0 {
		p.driver.Kill()
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			return err
		}
	}
	p.number++
	asked, mark := make(chan struct{}), p.mark()
	watching, done := context.WithCancel(ctx)
	defer done()
	go func() {
		if _, err := p.front.Wait(watching, func(r fault.Requests) bool { return len(beginnings(r[mark:])) > 0 }); err == nil {
			close(asked)
		}
	}()
	return p.driver.Start(ctx, Life{URL: p.url, Task: p.task, Job: p.job, Number: p.number, Asked: asked})
}
