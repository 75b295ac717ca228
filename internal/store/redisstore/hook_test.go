package redisstore

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// tap counts the commands of a store by name, those in pipelines one by one, and can have
// something happen right before one of them, once.
type tap struct {
	mu     sync.Mutex
	sent   map[string]int
	before map[string]func()
	after  map[string]func()
}

// newTap puts a tap on a store.
func newTap(t testing.TB, s *Store) *tap {
	t.Helper()
	tp := &tap{sent: map[string]int{}, before: map[string]func(){}, after: map[string]func(){}}
	s.client.AddHook(tp)
	return tp
}

// reset begins to count anew.
func (tp *tap) reset() {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	clear(tp.sent)
}

// counted gives what was sent since the last reset, by name; scripts are "evalsha" in sum, but for "prove".
func (tp *tap) counted() map[string]int {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	counted := maps.Clone(tp.sent)
	if n := counted["eval"]; n > 0 {
		counted["evalsha"] += n
		delete(counted, "eval")
	}
	return counted
}

// take removes what is to happen at a command.
func (tp *tap) take(from map[string]func(), name string) func() {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	f := from[name]
	delete(from, name)
	if f == nil {
		return func() {}
	}
	return f
}

// DialHook leaves dialing alone.
func (*tap) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (tp *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		tp.take(tp.before, cmd.Name())()
		tp.note(cmd)
		err := next(ctx, cmd)
		tp.take(tp.after, cmd.Name())()
		return err
	}
}

// ProcessPipelineHook counts the commands of a pipeline.
func (tp *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			tp.take(tp.before, cmd.Name())()
		}
		tp.note(cmds...)
		return next(ctx, cmds)
	}
}

func (tp *tap) note(cmds ...redis.Cmder) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	if cmds[0].Name() == "info" {
		return // it greets a new connection; how many of them there are is the pool's business
	}
	for _, cmd := range cmds {
		name := cmd.Name()
		if verb := verbOf(cmd); verb == proveScript.verb {
			name = verb
		}
		tp.sent[name]++
	}
}
