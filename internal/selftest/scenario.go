package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// scenario is something that happens to workers.
type scenario struct {
	name, title string
	// run plays it. An error is one of the kit, or the end of ctx.
	run func(ctx context.Context, p *play) error
}

// scenarios are in the order in which they are played: the ones that need another life of the
// worker are last.
var scenarios = []scenario{
	{"fresh-start", "with no checkpoint there is, it starts and takes part in the first", freshStart},
	{"several", "it takes part in one checkpoint after the other", several},
	{"idle", "it waits without asking all the time", idle},
	{"two-pending", "it takes part in two checkpoints that are pending at once", twoPending},
	{"acknowledged-once", "what it has acknowledged it does not acknowledge again and again", acknowledgedOnce},
	{"unknown-members", "it ignores members and events that it does not know", unknownMembers},
	{"lost-request", "a message that never arrived is sent again", lostRequest},
	{"lost-answer", "a message whose answer was lost counts once, and the worker goes on", lostAnswer},
	{"refused-503", "a 503 is waited out", refused},
	{"server-away", "it comes back when the server was away", serverAway},
	{"connection-cut", "it comes back when its event stream or long poll is cut", connectionCut},
	{"proxy-page", "a page of a proxy in place of an answer does not end it", proxyPage},
	{"aborted-meanwhile", "a checkpoint is aborted while it hands in its part, and it goes on", abortedMeanwhile},
	{"expired-meanwhile", "a checkpoint expires while it hands in its part, and it goes on", expiredMeanwhile},
	{"deleted-meanwhile", "a checkpoint is deleted while it hands in its part, and it goes on", deletedMeanwhile},
	{"restart", "after a kill -9 it restores its part of the latest completed checkpoint", restarted},
	{"restore-broken-off", "a restore that breaks off in the middle is never taken for the whole", restoreBrokenOff},
	{"restore-page", "a page of a proxy in place of a restore is never taken for a state", restorePage},
	{"storage-down-at-start", "a 503 at its start is never taken for a fresh start", storageDown},
	{"stale-attempt", "it stops when a later life of its task has taken over", staleAttempt},
	{"stale-epoch", "it does not go on when the fleet has recovered without it", staleEpoch},
}

// Options are what a run is told.
type Options struct {
	// URL is where the worker looks for the coordinator: http://HOST:PORT.
	URL       string
	Task, Job string
	// Timeout is how long each step may take.
	Timeout time.Duration
	// Only names the scenarios to play; all when empty.
	Only   []string
	Driver Driver
	// Out is told how it goes.
	Out io.Writer

	windows *windows // nil for the usual ones
}

// Run plays all scenarios. The error is one of the kit, not of the worker.
func Run(ctx context.Context, o Options) (*Report, error) {
	for _, name := range o.Only {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no scenario %q, but %s", name, strings.Join(names(), ", "))
		}
	}
	s, err := raise(ctx, o.URL, o.Job)
	if err != nil {
		return nil, err
	}
	p := &play{stage: s, task: o.Task, timeout: o.Timeout, driver: o.Driver, windows: usual, told: map[string]bool{}}
	if o.windows != nil {
		p.windows = *o.windows
	}
	report := &Report{URL: s.url, Task: o.Task, Job: o.Job, Passed: true}
	sayf(o.Out, "This is the coordinator of job %q now, at %s; your worker is task %q.\n", o.Job, report.URL, o.Task)
	for _, scenario := range scenarios {
		if len(o.Only) > 0 && !slices.Contains(o.Only, scenario.name) {
			continue
		}
		result, fault := p.play(ctx, scenario)
		if fault != nil {
			err = fault
			break
		}
		sayf(o.Out, "%s", &result)
		report.Results = append(report.Results, result)
		report.Passed = report.Passed && result.Outcome != Failed
	}
	o.Driver.Kill()
	if err := errors.Join(err, s.close()); err != nil {
		return nil, err
	}
	sayf(o.Out, "%s\n", report.summary())
	return report, nil
}

// sayf tells how it goes. Nothing can be done about a terminal that has gone.
func sayf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

func names() []string {
	var all []string
	for _, scenario := range scenarios {
		all = append(all, scenario.name)
	}
	return all
}

// play plays one scenario, with a worker that is well at its beginning.
func (p *play) play(ctx context.Context, s scenario) (Result, error) {
	result := Result{Name: s.name, Title: s.title, Outcome: Passed}
	p.findings, p.note, p.from = nil, "", p.mark()
	began := time.Now()
	if p.hopeless {
		result.Outcome, result.Note = Skipped, notPlayed
		return result, nil
	}
	if s.name != "fresh-start" {
		if err := p.makeWell(ctx); err != nil {
			return result, err
		}
		if !p.well { // more of the same helps nobody
			p.hopeless = true
			result.Outcome, result.Note = Skipped, notPlayed
			if p.number == 1 { // nobody was told yet
				result.Outcome, result.Note = Failed, ""
				result.Findings, result.Requests = p.findings, p.shown(began)
			}
			return result, nil
		}
		if err := p.quiet(ctx); err != nil {
			return result, err
		}
		p.findings, p.from = nil, p.mark()
	}
	began = time.Now()
	err := s.run(ctx, p)
	p.front.Clear()
	if err == nil {
		err = p.front.Up()
	}
	if err != nil {
		return result, err
	}
	p.signs()
	p.malformed()
	p.loops()
	result.Findings, result.Note = p.findings, p.note
	switch {
	case slices.ContainsFunc(p.findings, func(f Finding) bool { return f.Must }):
		result.Outcome = Failed
	case p.note != "":
		result.Outcome = Skipped
	case len(p.findings) > 0:
		result.Outcome = Advice
	}
	if result.Outcome == Failed || result.Outcome == Advice {
		result.Requests = p.shown(began)
	}
	return result, nil
}

const notPlayed = "not played: your worker does not take part in checkpoints any more, also after a restart"

// makeWell restarts a worker that has ended, or that did something wrong.
func (p *play) makeWell(ctx context.Context) error {
	if p.number > 0 && p.well && !p.exited() {
		return nil
	}
	if err := p.restart(ctx, nil); err != nil {
		return err
	}
	_, err := p.takesPart(ctx)
	return err
}
