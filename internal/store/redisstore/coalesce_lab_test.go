package redisstore

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// crowd is a lab whose acknowledgements go to Redis when the test says so.
type crowd struct {
	*lossyLab
	gate *gate
}

func newCrowd(t testing.TB, server *redistest.Server) *crowd {
	t.Helper()
	l := newLossyLab(t, server)
	// Redis forgets no script while the gate counts.
	l.ok(acknowledgeScript.text.Load(t.Context(), l.redis).Err())
	l.ok(severalScript.text.Load(t.Context(), l.redis).Err())
	c := &crowd{lossyLab: l, gate: newGate()}
	l.store.client.AddHook(c.gate)
	return c
}

// gate is a hook of the client that sees the trips of acknowledgements and can hold one.
type gate struct {
	mu    sync.Mutex
	trips []ackTripSeen
	verbs []string // of the last trip
	held  map[int]chan struct{}
}

func newGate() *gate { return &gate{held: map[int]chan struct{}{}} }

// ackTripSeen is how many items each call of a trip has, by checkpoint.
type ackTripSeen map[int64]int

// add notes the arguments of a call.
func (s ackTripSeen) add(args []any) {
	id, _ := args[0].(int64)
	s[id], _ = args[3].(int)
}

// DialHook leaves dialing alone.
func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook looks at one command.
func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		g.pass(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook looks at a pipeline.
func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		g.pass(cmds...)
		return next(ctx, cmds)
	}
}

func (g *gate) pass(cmds ...redis.Cmder) {
	seen, verbs := ackTripSeen{}, []string(nil)
	for _, cmd := range cmds {
		verbs = append(verbs, verbOf(cmd))
		switch verbs[len(verbs)-1] {
		case acknowledgeScript.verb:
			seen.add(cmd.Args()[clockAt+1:])
		case severalScript.verb:
			for args := cmd.Args()[clockAt+1:]; len(args) > 0; {
				n, _ := args[0].(int)
				seen.add(args[1 : 1+n])
				args = args[1+n:]
			}
		default:
			return
		}
	}
	g.mu.Lock()
	opens := g.held[len(g.trips)]
	g.trips, g.verbs = append(g.trips, seen), verbs
	g.mu.Unlock()
	if opens != nil {
		<-opens
	}
}

// hold stops the trip of that number, counted from now, until the function it gives is called.
func (g *gate) hold(number int) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	opens := make(chan struct{})
	g.held[len(g.trips)+number] = opens
	return sync.OnceFunc(func() { close(opens) })
}

func (g *gate) seen() []ackTripSeen {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.trips)
}

// scripts are those of the last trip.
func (g *gate) scripts() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.verbs
}

// awaited is a call that runs.
type awaited struct {
	call   coordinator.AckCall
	cancel context.CancelCauseFunc
	done   chan struct{}
	result coordinator.AckResult
	err    error
}

// start makes a call, and returns before it is over.
func (c *crowd) start(ctx context.Context, id int64, items ...coordinator.AckItem) *awaited {
	c.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	c.Cleanup(func() { cancel(nil) })
	a := &awaited{cancel: cancel, done: make(chan struct{}), call: coordinator.AckCall{Job: c.job, ID: id, Items: items, Token: c.token()}}
	go func() {
		defer close(a.done)
		a.result, a.err = c.store.Acknowledge(ctx, a.call)
	}()
	return a
}

// first starts a call that is held on its way, and gives what lets it go on.
func (c *crowd) first(id int64, task string) (*awaited, func()) {
	c.Helper()
	release := c.gate.hold(0)
	c.Cleanup(release)
	before := len(c.gate.seen())
	a := c.start(c.Context(), id, coordinator.AckItem{TaskID: task})
	c.trip(before)
	return a, release
}

// trip waits until the trip of that number is at the gate.
func (c *crowd) trip(number int) {
	c.Helper()
	c.until("a trip", func() bool { return len(c.gate.seen()) > number })
}

// until waits for what other goroutines do.
func (c *crowd) until(what string, is func() bool) {
	c.Helper()
	for begun := time.Now(); !is(); runtime.Gosched() {
		if time.Since(begun) > time.Minute {
			c.Fatalf("no %s in a minute", what)
		}
	}
}

// queue starts calls, one a checkpoint and task, and returns when they wait, in this order.
func (c *crowd) queue(id int64, items ...coordinator.AckItem) []*awaited {
	c.Helper()
	var calls []*awaited
	for _, item := range items {
		calls = append(calls, c.queueOne(c.Context(), id, item))
	}
	return calls
}

func (c *crowd) queueOne(ctx context.Context, id int64, items ...coordinator.AckItem) *awaited {
	c.Helper()
	before := c.queued()
	a := c.start(ctx, id, items...)
	c.until("call in the queue", func() bool { return c.queued() > before })
	return a
}

func (c *crowd) queued() int {
	c.store.acks.mu.Lock()
	defer c.store.acks.mu.Unlock()
	return len(c.store.acks.queue)
}

func (c *crowd) await(what string, done <-chan struct{}) {
	c.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		c.Fatalf("no %s in a minute", what)
	}
}

// word waits for a call of one item, and gives its outcome in words.
func (c *crowd) outcome(a *awaited) string {
	c.Helper()
	c.await("answer", a.done)
	if a.err != nil {
		return string(coordinator.CodeOf(a.err))
	}
	o := a.result.Outcomes[0]
	if diff := cmp.Diff([]any{o.Status, o.AcknowledgedTasks, o.RequiredTaskAcks},
		[]any{a.result.Status, a.result.AcknowledgedTasks, a.result.RequiredTaskAcks}); diff != "" {
		c.Errorf("the result is not as of the item's place (-outcome +result):\n%s", diff)
	}
	if o.TaskID != a.call.Items[0].TaskID {
		c.Errorf("task %q was told of %q", a.call.Items[0].TaskID, o.TaskID)
	}
	text := string(o.Outcome) + " " + strconv.Itoa(o.AcknowledgedTasks) + " " + string(o.Status)
	if o.Refusal != nil {
		text += " " + string(o.Refusal.Code)
	}
	return text
}

func (c *crowd) outcomes(calls []*awaited) []string {
	c.Helper()
	var all []string
	for _, a := range calls {
		all = append(all, c.outcome(a))
	}
	return all
}

// acknowledged are the tasks that have, in order.
func (c *crowd) acknowledged(id int64) []string {
	c.Helper()
	return slices.Sorted(slices.Values(c.redis.HKeys(c.Context(), c.keys.acks(id)).Val()))
}

func items(tasks ...string) []coordinator.AckItem {
	all := make([]coordinator.AckItem, len(tasks))
	for i, task := range tasks {
		all[i].TaskID = task
	}
	return all
}

// tasks are as many names, with a prefix.
func tasks(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = prefix + strconv.Itoa(i)
	}
	return all
}
