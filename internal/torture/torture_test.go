package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// seed is that of CHECKPOINTD_TORTURE_SEED, else of the clock. Calls and faults follow from
// it, how they meet does not.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("CHECKPOINTD_TORTURE_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHECKPOINTD_TORTURE_SEED: %v", err)
		}
	}
	t.Logf("CHECKPOINTD_TORTURE_SEED=%d", s)
	return s
}

// How many clients are at work is such that a small machine still answers most of them.
const (
	players   = 5
	besieged  = 10 * time.Second
	maxLength = 24 * time.Hour
)

// TestServersAreLinearizable is short and on the embedded store and one Redis, unless
// CHECKPOINTD_TORTURE_TARGET and CHECKPOINTD_TORTURE_DURATION say otherwise.
func TestServersAreLinearizable(t *testing.T) {
	t.Parallel()
	names := []string{"embedded", "redis"}
	if target := os.Getenv("CHECKPOINTD_TORTURE_TARGET"); target != "" {
		names = []string{target}
	}
	length := besieged
	if text := os.Getenv("CHECKPOINTD_TORTURE_DURATION"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length <= 0 || length > maxLength {
			t.Fatalf("CHECKPOINTD_TORTURE_DURATION=%q is no time up to a day: %v", text, err)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := targets[name]
			if begin == nil {
				t.Fatalf("CHECKPOINTD_TORTURE_TARGET=%q is none of embedded, redis, sentinel and cluster", name)
			}
			torture(t, begin(t), seed(t), length)
		})
	}
}

// torture plays histories on a world that is besieged for so long. The faults follow from
// the seed, and so does what each client asks for until answers make a difference.
func torture(t *testing.T, w *world, s uint64, length time.Duration) {
	t.Helper()
	within := judgedSoon
	if length > besieged {
		within = judgedWithin
	}
	n := newTally()
	siege, lift := context.WithTimeout(t.Context(), length)
	defer lift()
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	var doors []*door
	for _, server := range w.servers {
		doors = append(doors, server.door)
	}
	var all sync.WaitGroup
	for player := range players {
		all.Go(func() {
			for i := 0; siege.Err() == nil && !t.Failed(); i++ {
				h := perform(t.Context(), newCaller(client, doors, fmt.Sprintf("job-%d-%d", player, i)),
					scene{clients: 4, calls: 12, keep: 2 * (i % 2), lags: w.lags, pause: 100 * time.Millisecond}, s+uint64(player<<32+i), n)
				h.Jumps, h.TakesBack, h.Faults = w.jumps, w.takesBack, w.during(h)
				h.conclude(t, n, within, true)
			}
			if t.Failed() {
				lift()
			}
		})
	}
	all.Go(func() { w.besiege(siege, rand.New(rand.NewPCG(s, 1)), n, w.ofNetwork(t)) })
	// Here and not beside: what does not come up again ends the test.
	w.besiege(siege, rand.New(rand.NewPCG(s, 2)), n, w.ofProcesses)
	all.Wait()
	n.log(t)
	if judged, not := n.judged(legal), n.judged(unclear); judged < 2*not || judged == 0 {
		t.Errorf("only %d histories were judged, %d were not", judged, not)
	}
}

// A history that a run has kept is judged again here, where the model can be followed in a debugger.
func TestAHistoryThatWasKept(t *testing.T) {
	t.Parallel()
	path := os.Getenv("CHECKPOINTD_TORTURE_HISTORY")
	if path == "" {
		t.Skip("CHECKPOINTD_TORTURE_HISTORY names the history.json of a folder that a run has kept")
	}
	h := load(t, path)
	if verdict, info := h.judge(judgedWithin); verdict != legal {
		t.Errorf("%s: %s\n%s", path, verdict, h.explain(info))
	}
}
