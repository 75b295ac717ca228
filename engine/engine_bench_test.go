package engine_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

// The benchmarks of this file compare what is measured side by side: in each round one way
// has its turn after the other, so that what else the machine does meets all of them. A
// round is one iteration: give -benchtime 10x for ten.
//
//	go test ./engine -run '^$' -bench Fence -benchtime 10x

// samples are those of several ways to do the same, in the order of their names.
type samples struct {
	names []string
	of    map[string][]float64
}

func (s *samples) add(name string, value float64) {
	if s.of == nil {
		s.of = map[string][]float64{}
	}
	if !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	s.of[name] = append(s.of[name], value)
}

// quantile is one of the samples: 0.5 is the median.
func (s *samples) quantile(name string, q float64) float64 {
	sorted := slices.Sorted(slices.Values(s.of[name]))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// report has a line for each way.
func (s *samples) report(b *testing.B, metrics func(b *testing.B, name string)) {
	b.Helper()
	for _, name := range s.names {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // hides it: nothing is done here
			metrics(b, name)
		})
	}
}

// keys is how many keys the records of the benchmark are about, in no order.
const keys = 100_000

func keyOf(n int) int { return n * 7919 % keys }

// slice is how long one way has its turn.
const slice = time.Second

// during calls body with 0, 1, 2, … until slice has passed, and tells how often.
func during(body func(n int) bool) int {
	for begun, n := time.Now(), 0; ; n++ {
		if n%1024 == 0 && time.Since(begun) >= slice || !body(n) {
			return n
		}
	}
}

// BenchmarkFenceRecords counts records by their keys: in a loop over a map; in one that
// holds a mutex for each record, as it must if another goroutine is to copy the map; in one
// that holds a fence; and in a stream with a keyed store, with checkpoints at different paces.
func BenchmarkFenceRecords(b *testing.B) {
	ways := []struct {
		name   string
		second func(b *testing.B) int // counts for a slice of time, and tells how many
	}{
		{"a bare loop", bareLoop()},
		{"a loop with a mutex", lockedLoop()},
		{"a loop with a fence", fencedLoop()},
		{"a stream without checkpoints", streamed(b, 0, false)},
		{"a stream with one a second", streamed(b, 1, false)},
		{"a stream with ten a second", streamed(b, 10, false)},
		{"a stream with one a second that is encoded", streamed(b, 1, true)},
	}
	var times, work samples
	for _, way := range ways {
		times.names = append(times.names, way.name)
		way.second(b) // the state has all its keys, and code and data are warm
	}
	b.Run("rounds", func(b *testing.B) {
		first := 0
		for b.Loop() {
			for i := range ways { // each round begins with another one
				way := ways[(first+i)%len(ways)]
				begun, used := time.Now(), cpuTime()
				n := float64(way.second(b))
				times.add(way.name, float64(time.Since(begun).Nanoseconds())/n)
				work.add(way.name, float64((cpuTime()-used).Nanoseconds())/n)
			}
			first++
		}
	})
	times.report(b, func(b *testing.B, name string) {
		b.Helper()
		b.ReportMetric(times.quantile(name, 0.5), "ns/record")
		b.ReportMetric(work.quantile(name, 0.5), "cpu-ns/record")
		b.ReportMetric(1e9/times.quantile(name, 0.5), "records/s")
	})
}

func bareLoop() func(*testing.B) int {
	counts := map[int]int{}
	return func(*testing.B) int {
		return during(func(n int) bool { counts[keyOf(n)]++; return true })
	}
}

func lockedLoop() func(*testing.B) int {
	counts, lock := map[int]int{}, sync.Mutex{}
	return func(*testing.B) int {
		return during(func(n int) bool {
			lock.Lock()
			counts[keyOf(n)]++
			lock.Unlock()
			return true
		})
	}
}

func fencedLoop() func(*testing.B) int {
	counts, fence := map[int]int{}, engine.NewFence()
	return func(b *testing.B) int {
		b.Helper()
		ctx := b.Context()
		return during(func(n int) bool {
			return fence.Do(ctx, func(context.Context) error { counts[keyOf(n)]++; return nil }) == nil
		})
	}
}

// streamed counts in a stream, with so many checkpoints in each slice.
func streamed(b *testing.B, checkpoints int, encode bool) func(*testing.B) int {
	b.Helper()
	c := engine.NewCoordinator(nil)
	counts, err := engine.NewKeyedStore[int, int](b.Context(), c, "counts", nil)
	if err != nil {
		b.Fatal(err)
	}
	return func(b *testing.B) (n int) {
		b.Helper()
		over := make(chan struct{})
		var triggering sync.WaitGroup
		triggering.Go(func() {
			wait := slice / time.Duration(checkpoints*2+1)
			for range checkpoints {
				select {
				case <-time.After(wait):
				case <-over:
					return
				}
				wait = slice / time.Duration(checkpoints)
				cut(b, c, encode)
			}
		})
		records := func(yield func(int) bool) { n = during(yield) }
		err := engine.KeyBy(engine.FromSeq(c, records), keyOf).Each(b.Context(), func(ctx context.Context, _ int) error {
			return counts.Update(ctx, func(n int) int { return n + 1 })
		})
		if err != nil {
			b.Fatal(err)
		}
		close(over)
		triggering.Wait()
		return n
	}
}

func cut(b *testing.B, c *engine.Coordinator, encode bool) {
	b.Helper()
	cp, err := c.Trigger(b.Context())
	if err != nil {
		b.Error(err)
		return
	}
	if !encode {
		return
	}
	for _, err := range cp.Entries("counts") {
		if err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkFencePause is how long records have to wait for a cut of a million keys: of a
// keyed store, and of a map that is copied, which is the limit to compare it to. A thousand
// keys are written between two cuts. The cut is what the fence, or the mutex, is held for;
// the wait is the longest that a record took which came meanwhile, with whatever else the
// machine did.
func BenchmarkFencePause(b *testing.B) {
	const many = 1_000_000
	key := func(n int) int { return n * 7919 % many }
	c := engine.NewCoordinator(nil)
	s, err := engine.NewKeyedStore[int, int](b.Context(), c, "s", nil)
	if err != nil {
		b.Fatal(err)
	}
	set := func(n int) {
		if err := s.Set(engine.WithKey(b.Context(), key(n)), n); err != nil {
			b.Fatal(err)
		}
	}
	m, lock := map[int]int{}, sync.Mutex{}
	put := func(n int) {
		lock.Lock()
		m[key(n)] = n
		lock.Unlock()
	}
	for n := range many {
		set(n)
		put(n)
	}
	var kept map[int]int // as long as a checkpoint would be
	ways := []struct {
		name  string
		write func(n int)
		cut   func()
	}{
		{"a keyed store", set, func() { cut(b, c, false) }},
		{"a map that is copied", put, func() {
			lock.Lock()
			kept = maps.Clone(m)
			lock.Unlock()
		}},
	}
	var times samples
	b.Run("rounds", func(b *testing.B) {
		at := 0
		for b.Loop() {
			for range 20 {
				for _, way := range ways {
					for range 1000 {
						at++
						way.write(at)
					}
					begun := time.Now()
					way.cut()
					times.add(way.name+", the cut", float64(time.Since(begun).Nanoseconds())/1000)
					times.add(way.name+", the wait", float64(longest(&at, way.write, way.cut).Nanoseconds())/1000)
				}
			}
		}
		if len(kept) != many {
			b.Fatal("a copy that is none")
		}
	})
	times.report(b, func(b *testing.B, name string) {
		b.Helper()
		b.ReportMetric(times.quantile(name, 0.5), "p50-µs")
		b.ReportMetric(times.quantile(name, 0.99), "p99-µs")
	})
}

// longest writes while another goroutine takes a cut, and for a thousand records after it.
func longest(at *int, write func(n int), cut func()) (most time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		cut()
	}()
	for after := 0; after < 1000; {
		*at++
		begun := time.Now()
		write(*at)
		most = max(most, time.Since(begun))
		select {
		case <-done:
			after++
		default:
		}
	}
	return most
}
