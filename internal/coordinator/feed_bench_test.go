package coordinator_test

import (
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// BenchmarkFeedFanOut measures one event from its wake to the last of 5000 watchers, each
// of which asks for its rendered bytes. The store is in memory.
func BenchmarkFeedFanOut(b *testing.B) {
	const watchers = 5000
	store := newLogStore()
	c, _ := running(b, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour}})
	var arrived, all sync.WaitGroup
	for range watchers {
		watcher, err := c.Watch(b.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			defer watcher.Close()
			for range b.N {
				batch, err := watcher.Next(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				batch.Events[0].Rendered(func(e *coordinator.Event) []byte { return []byte(e.ID.String()) })
				arrived.Done()
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		arrived.Add(watchers)
		store.change(coordinator.DefaultJob, func(j *logJob) {
			if len(j.log) > 1 {
				j.trim(len(j.log) - 1) // or the search of the store would be measured
			}
			j.tell(coordinator.EventTriggered, 1)
		})
		arrived.Wait()
	}
	b.StopTimer()
	all.Wait()
}
