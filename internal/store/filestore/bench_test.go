package filestore

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// BenchmarkAcknowledge has many tasks acknowledge one checkpoint at the same time, each
// durable before it is answered.
func BenchmarkAcknowledge(b *testing.B) {
	small := []byte(`{"taskId":"task","key":"offset","value":1}` + "\n")
	for _, callers := range []int{1, 64, 256} {
		for what, part := range map[string][]byte{"without state": nil, "with state": small} {
			b.Run(fmt.Sprintf("%d callers %s", callers, what), func(b *testing.B) {
				s := open(b, Options{})
				id := trigger(b, s, coordinator.MaxRequiredTaskAcks)
				var task atomic.Int64
				b.SetParallelism(callers)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						acknowledge(b, s, id, fmt.Sprintf("task-%d", task.Add(1)%coordinator.MaxRequiredTaskAcks), part)
					}
				})
			})
		}
	}
}

// BenchmarkTrigger makes checkpoints that complete at once, so that retention is at work.
func BenchmarkTrigger(b *testing.B) {
	s := open(b, Options{})
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := trigger(b, s, 1)
			_, err := s.Complete(b.Context(), coordinator.CompleteCall{Job: coordinator.DefaultJob, ID: id, Force: true, Retention: coordinator.Retention{Keep: 5}})
			if err != nil {
				b.Errorf("complete: %v", err)
			}
		}
	})
}

// BenchmarkGet reads beside a committer at work.
func BenchmarkGet(b *testing.B) {
	s := open(b, Options{})
	id := trigger(b, s, 1)
	acknowledge(b, s, id, "task-1", nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Get(b.Context(), ref(coordinator.Latest)); err != nil {
				b.Errorf("get: %v", err)
			}
		}
	})
}
