package torture

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
	"github.com/checkpointd/checkpointd/internal/store/filestore"
)

// rehearsal plays histories on a store in this process, where nothing fails.
type rehearsal struct {
	store         coordinator.Store
	seed          uint64
	histories     int
	untilViolated bool
	// timeless says that the store's clock is set meanwhile.
	timeless bool
	// faults tells in the end what went wrong, and how often; nil is nothing.
	faults func() (string, int)
	tally  *tally
}

// play plays and judges; what is not legal is kept, unless it is looked for.
func (r *rehearsal) play(t *testing.T) {
	t.Helper()
	settings := coordinator.DefaultSettings()
	settings.MaxConcurrent, settings.Retention.Keep = 1000, 0
	c := coordinator.New(r.store, coordinator.Options{Settings: settings})
	server := httptest.NewServer(handlers.New(c, handlers.Options{Budget: time.Minute}))
	defer server.Close()
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	r.tally = newTally()
	began := time.Now()
	for i := range r.histories {
		if r.untilViolated && r.tally.judged(illegal) > 0 {
			t.Logf("caught in history %d after %s", i-1, time.Since(began).Round(time.Millisecond))
			return
		}
		caller := newCaller(client, []*door{{url: server.URL}}, fmt.Sprintf("history-%d", i))
		h := perform(t.Context(), caller, scene{clients: 4, calls: 20, keep: 2 * (i % 2), lags: true, pause: 2 * time.Millisecond}, r.seed+uint64(i), r.tally)
		h.Timeless = r.timeless
		h.conclude(t, r.tally, judgedSoon, !r.untilViolated)
	}
	if r.faults != nil {
		r.tally.fault(r.faults())
	}
	r.tally.log(t)
}

func openStore(t *testing.T) coordinator.Store {
	t.Helper()
	store, err := filestore.Open(t.TempDir(), filestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestTheEmbeddedStoreIsLinearizable(t *testing.T) {
	t.Parallel()
	(&rehearsal{store: openStore(t), seed: seed(t), histories: 12}).play(t)
}

// restless is a clock that somebody keeps setting, by up to two seconds forth and back.
type restless struct {
	mu     sync.Mutex
	random *rand.Rand
	offset int64
	steps  int
}

func (c *restless) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.random.IntN(8) == 0 {
		c.offset += c.random.Int64N(4000) - 2000
		c.steps++
	}
	return time.Now().UnixMilli() + c.offset
}

func TestTheEmbeddedStoreIsLinearizableWhileItsClockIsSet(t *testing.T) {
	t.Parallel()
	s := seed(t)
	clock := &restless{random: rand.New(rand.NewPCG(s, 1))}
	store, err := filestore.Open(t.TempDir(), filestore.Options{Clock: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	(&rehearsal{store: store, seed: s, histories: 8, timeless: true, faults: func() (string, int) { return "clock set", clock.steps }}).play(t)
}
