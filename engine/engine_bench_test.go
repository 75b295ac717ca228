package engine_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

// What a record costs, that counts one of a thousand keys: in a bare loop over a map, and
// in a stream with no checkpoints, with one a second and with ten a second.
func BenchmarkRecord(b *testing.B) {
	key := func(n int) int { return n % 1000 }
	b.Run("bare loop", func(b *testing.B) {
		counts := map[int]int{}
		for n := range b.N {
			counts[key(n)]++
		}
	})
	for name, every := range map[string]time.Duration{
		"never": 0, "every second": time.Second, "ten a second": time.Second / 10,
	} {
		b.Run(name, func(b *testing.B) {
			c := engine.NewCoordinator(nil)
			counts, err := engine.NewKeyedStore[int, int](b.Context(), c, "counts", nil)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			if every > 0 {
				go func() {
					for tick := time.Tick(every); ctx.Err() == nil; <-tick {
						_, _ = c.Trigger(ctx)
					}
				}()
			}
			records := func(yield func(int) bool) {
				for n := range b.N {
					if !yield(n) {
						return
					}
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			err = engine.KeyBy(engine.FromSeq(c, records), key).Each(ctx, func(ctx context.Context, _ int) error {
				return counts.Update(ctx, func(n int) int { return n + 1 })
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// How long records wait for a checkpoint of a million keys, and for the copy of a map that
// it replaces. Between two cuts a thousand keys are written.
func BenchmarkPause(b *testing.B) {
	const keys = 1_000_000
	quantiles := func(b *testing.B, pauses []time.Duration) {
		b.Helper()
		slices.Sort(pauses)
		b.ReportMetric(float64(pauses[len(pauses)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(pauses[len(pauses)*99/100].Microseconds()), "p99-µs")
	}
	b.Run("checkpoint", func(b *testing.B) {
		c := engine.NewCoordinator(nil)
		s, err := engine.NewKeyedStore[int, int](b.Context(), c, "s", nil)
		if err != nil {
			b.Fatal(err)
		}
		write := func(from, n int) {
			for i := range n {
				if err := s.Set(engine.WithKey(b.Context(), (from+i*7919)%keys), i); err != nil {
					b.Fatal(err)
				}
			}
		}
		write(0, keys)
		var pauses []time.Duration
		for n := 0; b.Loop(); n++ {
			write(n, 1000)
			begun := time.Now()
			if _, err := c.Trigger(b.Context()); err != nil {
				b.Fatal(err)
			}
			pauses = append(pauses, time.Since(begun))
		}
		quantiles(b, pauses)
	})
	b.Run("copy of a map", func(b *testing.B) {
		m := map[int]int{}
		for i := range keys {
			m[i] = i
		}
		var pauses []time.Duration
		for n := 0; b.Loop(); n++ {
			for i := range 1000 {
				m[(n+i*7919)%keys] = i
			}
			begun := time.Now()
			if cp := maps.Clone(m); len(cp) != keys {
				b.Fatal("a copy that is none")
			}
			pauses = append(pauses, time.Since(begun))
		}
		quantiles(b, pauses)
	})
}
