package selftest

import (
	"context"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// Steps of a start: what a worker asks for before it works.
var (
	// naming says what there is to restore.
	naming = []fault.Route{fault.Checkpoint, fault.List}
	// giving has the state itself.
	giving = []fault.Route{"GET /checkpoints/{id}/{rest...}", "GET /checkpoints/latest/{rest...}"}

	steps = [][]fault.Route{{fault.Job}, {fault.Recover}, naming, giving}
)

// forWork tells whether it is the question what there is to do, which is no step of the start.
func forWork(r fault.Request) bool { return r.Is(fault.List) && r.Query.Get("status") == "pending" }

func storageDown(ctx context.Context, p *play) error {
	return p.startsUnder(ctx, outages(p.windows.outage), p.timeout+time.Duration(len(steps))*p.windows.outage)
}

// outages refuse each step of a start for a while of its own, which begins when that step is first asked
// for. One outage for all would be over before the restore of a worker that waits well for
// its epoch, and that worker may still take a 503 to its restore for a fresh start.
func outages(length time.Duration) []fault.Rule {
	var rules []fault.Rule
	for _, routes := range steps {
		var first time.Time
		away := func(r fault.Request) bool { // the front asks for one request at a time
			if forWork(r) {
				return false
			}
			if first.IsZero() {
				first = time.Now()
			}
			return time.Since(first) < length
		}
		for _, route := range routes {
			rules = append(rules, fault.On(route).Where(away).Refuse("store_unavailable").Always())
		}
	}
	return rules
}
