package processtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A fleet of workers waits for work, and all of it is told at once. At full scale:
// CHECKPOINTD_WAITERS=5000.
func TestWaitingWorkersAreCheapAndAllAreTold(t *testing.T) { //nolint:paralleltest // Memory of one server is measured.
	waiters := setting(t, "CHECKPOINTD_WAITERS", 1000)
	// 5000 may take 200 MiB, of which connections to the store and the like are a part.
	allowed := 16<<20 + int64(waiters)*(184<<20)/5000
	for store, open := range stores { //nolint:paralleltest // See above.
		t.Run(store, func(t *testing.T) {
			p := serve(t, open(t))
			p.complete(t)
			before := p.memory(t, "VmRSS")
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			crowd := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			var answered, wrong atomic.Int64
			var all sync.WaitGroup
			wait := func(task string) error {
				call, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/checkpoints?status=pending&wait=60&notAckedBy="+task, nil)
				if err != nil {
					return err
				}
				response, err := crowd.Do(call)
				if err != nil {
					return err
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if got := (answer{status: response.StatusCode, body: string(body)}).message(); len(got.Checkpoints) != 1 || got.Checkpoints[0].CheckpointID != 1 {
					return fmt.Errorf("answered %s %s (%w)", response.Status, body, err)
				}
				return nil
			}
			for n := range waiters {
				all.Go(func() {
					if err := wait(fmt.Sprintf("task-%d", n)); err != nil {
						if wrong.Add(1) < 5 {
							t.Errorf("waiter %d: %v", n, err)
						}
						return
					}
					answered.Add(1)
				})
			}
			const reads = `checkpointd_store_call_seconds_count{operation="list"}`
			looked := int64(-1)
			eventually(t, "all have looked and are waiting", func() bool {
				before := looked
				looked = p.metric(t, reads)
				return looked == before && p.metric(t, "checkpointd_http_requests_in_flight") >= int64(waiters)
			})
			grew := p.memory(t, "VmRSS") - before
			began := time.Now()
			p.trigger(t, `{"requiredTaskAcks":2}`)
			all.Wait()
			took := time.Since(began)
			calls := p.metric(t, reads) - looked
			t.Logf("%d waiters took %d KiB, %d bytes each; they looked %d times, and all were told within %s by %d reads", waiters, grew>>10, grew/int64(waiters), looked, took, calls)
			if answered.Load() != int64(waiters) {
				t.Errorf("%d of %d waiters were told", answered.Load(), waiters)
			}
			if grew > allowed {
				t.Errorf("%d waiters took %d bytes, allowed are %d", waiters, grew, allowed)
			}
			if calls > int64(waiters)/10 {
				t.Errorf("one event cost %d reads of the store for %d waiters", calls, waiters)
			}
		})
	}
}

// metric reads one whole-numbered sample, 0 for one that is not there yet.
func (p *process) metric(t *testing.T, sample string) int64 {
	t.Helper()
	text, has := p.metrics(t)[sample]
	if !has {
		return 0
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%s is %q", sample, text)
	}
	return int64(value)
}
