package torture

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// world is what is besieged: servers, their store, and the network.
type world struct {
	network *network
	servers []*server
	faults  []fault // of processes; those of the network are drawn by wire
	// lags is that of [history].
	lags bool
	// jumps and takesBack are those of [history].
	jumps, takesBack bool

	mu      sync.Mutex
	strikes []blow
}

// fault is something that can go wrong with a process, for up to longest.
type fault struct {
	name    string
	longest time.Duration
	// strike begins it and gives what ends it.
	strike func(r *rand.Rand) (heal func())
}

// blow is a fault that happened.
type blow struct {
	what       string
	begin, end time.Time
}

// targets are the worlds that there are.
var targets = map[string]func(t *testing.T) *world{
	"embedded": embedded,
	"redis":    onRedis,
	"sentinel": onSentinel,
	"cluster":  onCluster,
}

func embedded(t *testing.T) *world {
	t.Helper()
	w := &world{network: newNetwork(), lags: true}
	w.serve(t, "--data", t.TempDir())
	return w
}

// serve adds a server.
func (w *world) serve(t *testing.T, flags ...string) {
	t.Helper()
	s := newServer(t, w.network, flags...)
	w.servers = append(w.servers, s)
	w.faults = append(w.faults,
		fault{"server killed", 300 * time.Millisecond, func(*rand.Rand) func() {
			s.kill()
			return func() { s.start(t) }
		}},
		fault{"server stopped", 3 * time.Second, func(*rand.Rand) func() {
			s.signal(t, syscall.SIGSTOP)
			return func() { s.signal(t, syscall.SIGCONT) }
		}},
	)
}

// durable has Redis write what it was told before it answers.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// onRedis is three servers, each with a wire of its own to one Redis.
func onRedis(t *testing.T) *world {
	t.Helper()
	w := &world{network: newNetwork(), jumps: true}
	redis := redistest.Start(t, redistest.Options{Config: durable})
	for range 3 {
		way := w.network.wire(t, "server–Redis", redis.Addr)
		w.serve(t, "--redis", "redis://"+way.proxy.Listen, "--key-prefix", redis.Prefix)
	}
	// As often as all servers together.
	for range 3 {
		w.endanger(t, redis, 300*time.Millisecond, func() {})
	}
	return w
}

// endanger has a node of the store killed and stopped.
func (w *world) endanger(t *testing.T, redis *redistest.Server, longest time.Duration, whole func()) {
	t.Helper()
	w.faults = append(w.faults,
		fault{"Redis killed", longest, func(*rand.Rand) func() {
			redis.Kill(t)
			return func() { redis.Start(t); whole() }
		}},
		fault{"Redis stopped", 3 * time.Second, func(*rand.Rand) func() {
			redis.Pause(t)
			return func() { redis.Resume(t); whole() }
		}},
	)
}

// onSentinel is three servers that find the master by sentinels; a node may be away for
// long enough that another becomes the master. It has one replica, as a shard of the cluster has:
// a master that stands still and comes to while another replica is being promoted still confirms
// changes with the one that is not, and these are lost. See docs/durability.md.
func onSentinel(t *testing.T) *world {
	t.Helper()
	s := redistest.StartSentinel(t, redistest.SentinelOptions{Replicas: 1, Config: durable})
	return behind(t, s.URL(), s.Prefix, s.Nodes, func() {
		s.AwaitQuorum(t)
		s.AwaitInSync(t)
	})
}

func onCluster(t *testing.T) *world {
	t.Helper()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Config: durable})
	return behind(t, c.URL(), c.Prefix, c.Nodes, func() {
		c.AwaitOK(t)
		c.AwaitInSync(t)
	})
}

// behind is three servers before nodes of which one at a time fails. The next does so when the
// replicas are whole again: with one replica to confirm each change, a second loss before that may
// take with it what only the first had.
func behind(t *testing.T, url, prefix string, nodes []*redistest.Server, whole func()) *world {
	t.Helper()
	w := &world{network: newNetwork(), jumps: true, takesBack: true}
	for range 3 {
		w.serve(t, "--redis", url, "--key-prefix", prefix, "--redis-min-replicas", "1")
	}
	for _, node := range nodes {
		w.endanger(t, node, 6*time.Second, whole)
	}
	return w
}

// besiege lets one fault after the other happen until ctx ends, and then heals.
func (w *world) besiege(ctx context.Context, r *rand.Rand, n *tally, draw func(*rand.Rand) fault) {
	for {
		// Everything is drawn in the same order, whatever happens.
		quiet, f := time.Duration(200+r.Int64N(1200))*time.Millisecond, draw(r)
		lasts := time.Duration(r.Int64N(int64(f.longest)))
		rest(ctx, quiet)
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		heal := f.strike(r)
		rest(ctx, lasts)
		heal()
		n.fault(f.name, 1)
		w.mu.Lock()
		w.strikes = append(w.strikes, blow{f.name, began, time.Now()})
		w.mu.Unlock()
	}
}

// ofProcesses draws a fault of a process.
func (w *world) ofProcesses(r *rand.Rand) fault { return w.faults[r.IntN(len(w.faults))] }

// ofNetwork draws a fault of a link.
func (w *world) ofNetwork(t *testing.T) func(r *rand.Rand) fault {
	t.Helper()
	return func(r *rand.Rand) fault {
		way, a, bytes := w.network.wires[r.IntN(len(w.network.wires))], ailments[r.IntN(len(ailments))], 1+r.IntN(60)
		return fault{way.name + ": " + a.name, 2 * time.Second, func(*rand.Rand) func() { return way.suffer(t, a, bytes) }}
	}
}

// during are the faults while a history was played.
func (w *world) during(h *history) []strike {
	w.mu.Lock()
	defer w.mu.Unlock()
	var during []strike
	for _, b := range w.strikes {
		if b.end.After(h.began) {
			during = append(during, strike{b.what, max(0, b.begin.Sub(h.began).Nanoseconds()), b.end.Sub(h.began).Nanoseconds()})
		}
	}
	return during
}
