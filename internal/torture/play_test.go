package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// scene is what the clients of a history do.
type scene struct {
	clients, calls int
	// keep is how many completed checkpoints retention leaves, 0 for all. Where it leaves all
	// there are cleanups instead: what both have taken is hard to tell.
	keep int
	// lags is that of [history].
	lags bool
	// pause is the longest time between two calls of a client.
	pause time.Duration
}

// verbs are what clients do, as often as they are listed.
var verbs = []verb{
	trigger, trigger, trigger, ack, ack, ack, ack, ack, ack, ack, ack, upload, upload, complete, abort, extend, remove, pin, unpin,
	recovery, put, put, create, patch, patch, erase, get, get, latest, latest, list, shared, shared, restore, restore, restore,
}

// mostTriggers is how many checkpoints a history has: of those that end uncompleted the
// store keeps no more than twenty, which the model does not know.
const mostTriggers = 18

// mostLost is how many answers a client may lose before it goes.
const mostLost = 2

// play is a history in the making.
type play struct {
	*history
	*caller

	scene scene
	tally *tally

	lock     sync.Mutex
	known    []int64          // ids that somebody was told, in order
	triggers int              // how many were made
	names    map[string]input // what was sent with each Idempotency-Key
	open     []string         // those of triggers without an answer
	epoch    int64            // the highest that was heard
}

// perform plays a history on a job of its own. It ends early with ctx, which is no fault.
func perform(ctx context.Context, c *caller, s scene, seed uint64, tally *tally) *history {
	p := &play{
		history: &history{Job: c.job, Seed: seed, Keep: s.keep, Lags: s.lags, began: time.Now()},
		caller:  c, scene: s, tally: tally, names: map[string]input{},
	}
	if !p.configure(ctx) {
		return p.history
	}
	var clients sync.WaitGroup
	for client := range s.clients {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(client)))
			lane := client
			// With many calls that may happen any time the search for an order takes long.
			for i := 0; i < s.calls && lane < s.clients*mostLost && ctx.Err() == nil; i++ {
				in := p.next(r, fmt.Sprintf("%d.%d", client, i))
				if out, _ := p.call(ctx, r, lane, in); out.Unknown {
					lane += s.clients // what has no end takes up its row of the picture
				}
				if s.pause > 0 {
					rest(ctx, time.Duration(r.Int64N(int64(s.pause))))
				}
			}
		})
	}
	clients.Wait()
	p.settle(ctx, rand.New(rand.NewPCG(seed, 1<<32)))
	return p.history
}

// rest waits for so long, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// configure makes the job; it is no part of the history, since it is over when that begins.
func (p *play) configure(ctx context.Context) bool {
	for ctx.Err() == nil {
		at := p.pick(ctx, rand.New(rand.NewPCG(p.Seed, 0)))
		heard, err := p.send(ctx, "PUT", at.url+"/jobs/"+p.job, fmt.Sprintf(`{"checkpointsToKeep":%d}`, p.scene.keep), nil)
		if err == nil && heard.status < http.StatusBadRequest {
			p.began = time.Now()
			return true
		}
		at.shun()
		rest(ctx, 50*time.Millisecond)
	}
	return false
}

// next decides what a client does. As long as there is no checkpoint to do anything to it
// triggers one.
func (p *play) next(r *rand.Rand, unique string) input {
	p.lock.Lock()
	defer p.lock.Unlock()
	in := input{Verb: verbs[r.IntN(len(verbs))], Epoch: -1}
	if in.Verb == recovery && p.scene.keep == 0 && r.IntN(2) == 0 {
		in.Verb = cleanup // half of them: both end everything
	}
	switch in.Verb {
	case trigger:
		return p.nextTrigger(r, unique)
	case recovery:
		if r.IntN(2) == 0 {
			in.Name = fmt.Sprintf("crash-%d", r.IntN(3))
		}
		return in
	case cleanup:
		in.Keep = r.IntN(4)
		return in
	case latest, list:
		return in
	default: // one of the checkpoints
	}
	if len(p.known) == 0 {
		return p.nextTrigger(r, unique)
	}
	back := min(r.IntN(3), r.IntN(3), len(p.known)-1)
	in.ID = p.known[len(p.known)-1-back]
	in.Task = fmt.Sprintf("task-%d", r.IntN(3))
	in.Key = keys[r.IntN(len(keys))]
	in.Value = "v" + unique
	switch in.Verb {
	case ack, upload:
		in.Key = ""
		if in.Verb == ack && r.IntN(3) == 0 {
			in.Value = ""
		}
		if r.IntN(4) == 0 {
			in.Epoch = p.epoch
		}
		return in
	case put, create:
		in.Task = ""
		return in
	case patch:
		in.Task, in.Key = "", ""
		return in
	case erase:
		in.Task, in.Value = "", ""
		return in
	case extend:
		in.TimeoutMs = 200 + r.Int64N(400)
	case complete, remove:
		in.Force = r.IntN(2) == 0
	case restore:
		if r.IntN(2) == 0 {
			in.ID = newest
		}
	default: // needs no more than the checkpoint
	}
	in.Task, in.Key, in.Value = "", "", ""
	return in
}

// nextTrigger is a trigger: half of them with an Idempotency-Key, and of those some with one
// that was sent before. Where nothing tells which checkpoints a cleanup took, all have one. A
// history that has enough of them goes on with a list.
func (p *play) nextTrigger(r *rand.Rand, unique string) input {
	if names := p.sent(); len(names) > 0 && r.IntN(4) == 0 {
		return p.names[names[r.IntN(len(names))]]
	}
	if p.triggers == mostTriggers {
		return input{Verb: list, Epoch: -1}
	}
	p.triggers++
	in := input{Verb: trigger, Epoch: -1}
	if r.IntN(3) == 0 {
		in.TimeoutMs = 130 + r.Int64N(600) // so that no extension comes to its limit
	}
	if p.scene.keep == 0 || r.IntN(2) == 0 {
		in.Name = "at-" + unique
		p.names[in.Name] = in
	}
	return in
}

// sent are the Idempotency-Keys of triggers, in order.
func (p *play) sent() []string {
	names := make([]string, 0, len(p.names))
	for name := range p.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// call makes a call and notes it.
func (p *play) call(ctx context.Context, r *rand.Rand, lane int, in input) (output, certainty) {
	call := p.now()
	out, sure := p.do(ctx, r, in)
	end := p.now()
	p.tally.count(in, out, sure)
	if in.Verb == restore {
		id := in.ID
		if out.ID > 0 || out.Text != "" {
			id = out.ID
		}
		p.lend(id, call)
	}
	if sure != unchanged {
		p.note(record{Client: lane, In: in, Out: out, Call: call, Return: end})
	}
	p.hear(in, out, sure)
	return out, sure
}

// hear learns from an answer.
func (p *play) hear(in input, out output, sure certainty) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if in.Verb == trigger && in.Name != "" {
		if at := slices.Index(p.open, in.Name); at >= 0 && sure == answered {
			p.open = slices.Delete(p.open, at, at+1)
		} else if at < 0 && sure == unknown {
			p.open = append(p.open, in.Name)
		}
	}
	if sure != answered || out.Code != "" {
		return
	}
	if in.Verb == trigger && !slices.Contains(p.known, out.ID) {
		p.known = append(p.known, out.ID)
		slices.Sort(p.known)
	}
	if in.Verb == recovery {
		p.epoch = max(p.epoch, out.Epoch)
	}
}

// settle finds out what became of triggers without an answer, and reads everything, until
// there are answers.
func (p *play) settle(ctx context.Context, r *rand.Rand) {
	lane := 1000
	insist := func(in input) {
		for ctx.Err() == nil {
			out, sure := p.call(ctx, r, lane, in)
			if sure == answered {
				return
			}
			if out.Unknown {
				lane++
			}
			rest(ctx, 50*time.Millisecond)
		}
	}
	for _, name := range slices.Clone(p.open) {
		insist(p.names[name])
	}
	insist(input{Verb: list, Epoch: -1})
	insist(input{Verb: latest, Epoch: -1})
	for _, id := range p.known {
		for _, v := range []verb{get, shared, restore} {
			insist(input{Verb: v, ID: id, Epoch: -1})
		}
	}
}
