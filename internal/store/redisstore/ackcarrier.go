package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// How much goes together. A script blocks Redis for about two microseconds an item, and so long
// also those who do not acknowledge.
const (
	scriptItems = coordinator.MaxBulkAcks
	scriptBytes = 256 << 10
	tripScripts = 64
)

// leastTrip is what those are left with who have waited long for others to give up: so they too
// are answered within two seconds.
const leastTrip = 500 * time.Millisecond

// carryQueue carries trip after trip until the queue is empty.
func (s *Store) carryQueue() {
	t := &s.acks.trip
	for {
		// Those who were answered last come back now, and then those whom they have woken: this
		// doubles what goes together, and nobody waits for a clock.
		runtime.Gosched()
		runtime.Gosched()
		if !s.acks.hand(t) {
			return
		}
		t.load()
		if len(t.groups) > 0 {
			s.carry(t)
		}
		t.unload()
	}
}

// hand moves the queue to the trip. When there is nothing to carry, nobody is on the way any more.
func (c *coalescer) hand(t *ackTrip) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.waiting = append(t.waiting, c.queue...)
	clear(c.queue)
	c.queue = c.queue[:0]
	c.busy = len(t.waiting) > 0
	return c.busy
}

// ackTrip is what goes to Redis together, in buffers that the next trip uses again.
type ackTrip struct {
	// waiting have left the queue, and may go with a later trip.
	waiting []*queuedAck
	groups  []*ackGroup
	spare   []*ackGroup
	// parcels are the script calls of the trip, and some more for those to come.
	parcels []ackParcel
}

// ackGroup are the calls for one checkpoint, as one call of acknowledge.lua.
type ackGroup struct {
	job       string
	id        int64
	retention coordinator.Retention
	calls     []*queuedAck
	items     int
	bytes     int
	ackArgs
}

// load takes from those who wait, in their order, as many as fit.
func (t *ackTrip) load() {
	n := 0
	for n < len(t.waiting) {
		q := t.waiting[n]
		g := t.groupOf(q)
		if g == nil {
			break
		}
		n++
		if q.place.CompareAndSwap(isQueued, isTaken) {
			g.calls = append(g.calls, q)
			g.items += len(q.call.Items)
			g.bytes += q.bytes
		}
	}
	// A group whose only caller has given up is empty.
	t.groups = slices.DeleteFunc(t.groups, func(g *ackGroup) bool {
		empty := len(g.calls) == 0
		if empty {
			t.spare = append(t.spare, g)
		}
		return empty
	})
	t.waiting = slices.Delete(t.waiting, 0, n)
}

// groupOf gives the group that a call belongs to, or nil if it has to wait for a later trip.
func (t *ackTrip) groupOf(q *queuedAck) *ackGroup {
	for _, g := range slices.Backward(t.groups) {
		if g.id != q.call.ID || g.job != q.call.Job || g.retention != q.call.Retention {
			continue
		}
		if g.items+len(q.call.Items) > scriptItems || g.bytes+q.bytes > scriptBytes {
			return nil
		}
		return g
	}
	if len(t.groups) == tripScripts {
		return nil
	}
	g := new(ackGroup)
	if last := len(t.spare) - 1; last >= 0 {
		g, t.spare = t.spare[last], t.spare[:last]
	}
	g.job, g.id, g.retention = q.call.Job, q.call.ID, q.call.Retention
	t.groups = append(t.groups, g)
	return g
}

// unload forgets the calls, which are answered.
func (t *ackTrip) unload() {
	for _, g := range t.groups {
		clear(g.calls)
		g.calls, g.items, g.bytes = g.calls[:0], 0, 0
		g.forget()
	}
	t.spare = append(t.spare, t.groups...)
	t.groups = t.groups[:0]
	for i := range t.parcels {
		t.parcels[i].forget()
	}
}

// carry makes the trip, and answers every caller.
func (s *Store) carry(t *ackTrip) {
	// No caller's context: others would go down with it.
	ctx := context.Background()
	if waited := time.Since(t.groups[0].calls[0].since); waited > callBudget-leastTrip {
		within, cancel := context.WithTimeout(ctx, leastTrip)
		defer cancel()
		ctx = within
	}
	for _, g := range t.groups {
		g.pack(s)
	}
	if len(t.groups) == 1 {
		s.carryAlone(ctx, t.groups[0], false)
		return
	}
	s.carryTogether(ctx, t.wrap())
}

// joinedToken is how long the token of a group is: 80 bits, as Redis keeps it with every
// acknowledgement.
const joinedToken = 16

// pack makes the arguments of a group. A call that goes by itself keeps its token. Others share a new
// one: that of one of them would name parts of two groups alike, if it came a second time.
func (g *ackGroup) pack(s *Store) {
	token := g.calls[0].call.Token
	if len(g.calls) > 1 {
		token = rand.Text()[:joinedToken]
	}
	g.begin(s, g.calls[0].call, token, g.items)
	for _, q := range g.calls {
		for i := range q.call.Items {
			g.add(&q.call.Items[i])
		}
	}
	g.end()
}

// carryAlone sends the script for a group, with all the care of send.
func (s *Store) carryAlone(ctx context.Context, g *ackGroup, again bool) {
	value, again, err := s.send(ctx, acknowledgeScript, repeatable, g.args, again)
	s.answer(g, value, again, err)
}

// carryTogether sends several script calls in one round trip, or in one to each server of a cluster. A group that
// this leaves without an answer is sent again, in the time that is left.
func (s *Store) carryTogether(ctx context.Context, parcels []ackParcel) {
	ctx, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	within, done := context.WithTimeout(ctx, callBudget/2)
	defer done()
	keys := make([]string, len(parcels))
	for i := range parcels {
		keys[i] = parcels[i].job()
	}
	err := s.client.spread(within, keys, func(within context.Context, node *redis.Client, at []int) error {
		s.carryTo(ctx, within, node, parcels, at)
		return nil
	})
	if err == nil {
		return
	}
	// Nobody knows where to, and nothing was sent.
	var left sync.WaitGroup
	for i := range parcels {
		for _, g := range parcels[i].groups {
			left.Go(func() { s.carryAlone(ctx, g, false) })
		}
	}
	left.Wait()
}

// carryTo sends the parcels at those places to one server, while within lasts.
func (s *Store) carryTo(ctx, within context.Context, node *redis.Client, parcels []ackParcel, at []int) {
	pipe := node.Pipeline()
	cmds, clocks := make([]*redis.Cmd, len(at)), make([]sentMark, len(at))
	for i, place := range at {
		args := parcels[place].call(s)
		clocks[i].text = s.now()
		args[clockAt] = &clocks[i]
		cmds[i] = redis.NewCmd(within, args...)
		_ = pipe.Process(within, cmds[i]) // it fails when it is sent, if at all
	}
	confirmed := func() error { return nil }
	if s.minReplicas > 0 {
		confirmed = s.await(within, pipe, parcels[at[0]].job())
	}
	_, _ = pipe.Exec(within) // each command has its own error
	behind := confirmed()
	var left sync.WaitGroup
	var apart []ackParcel
	for i, place := range at {
		p, value, err := &parcels[place], cmds[i].Val(), cmp.Or(cmds[i].Err(), behind)
		if err == nil && len(p.groups) > 1 {
			apart = s.unwrap(apart, p, value)
			continue
		}
		what, refusal := decided, error(nil)
		if err != nil {
			what, refusal = judge(err, clocks[i].written)
			s.client.suspect(ctx)
		}
		if len(p.groups) > 1 && redis.HasErrorPrefix(err, "NOSCRIPT") {
			_ = s.form(severalScript).text.Load(ctx, node).Err() // for the next trip: this one does without
		}
		for _, g := range p.groups {
			switch {
			case what == decided:
				s.answer(g, value, false, refusal)
			case len(p.groups) > 1 && what == notRun:
				apart = append(apart, ackParcel{groups: []*ackGroup{g}})
			default:
				left.Go(func() { s.carryAlone(ctx, g, what != notRun) })
			}
		}
	}
	if len(apart) > 0 {
		s.carryTogether(ctx, apart)
	}
	left.Wait()
}

// answer gives each call of a group its part of the reply.
func (s *Store) answer(g *ackGroup, value any, again bool, err error) {
	var r reply
	var acks ackReply
	if err == nil || value != nil {
		var bad error
		r, acks, bad = s.receiveAcks(g.job, g.id, g.items, value, again)
		err = cmp.Or(err, bad)
	}
	outcomes := make([]coordinator.AckOutcome, 0, g.items)
	for _, q := range g.calls {
		switch {
		case err != nil:
			q.err = err
		case r.word != wordOK:
			q.err = refusal(acknowledgeScript.verb, g.job, g.id, r)
		default:
			n := len(outcomes) + len(q.call.Items)
			q.result, q.err = acks.result(q.call.Items, outcomes[len(outcomes):len(outcomes):n])
			outcomes = outcomes[:n]
			if q.err != nil {
				q.err = badReply(acknowledgeScript.verb, r, q.err)
			}
		}
		q.done <- struct{}{}
	}
}
