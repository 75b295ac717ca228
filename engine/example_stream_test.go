package engine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

// A source of its own goroutine is at most 256 records ahead, and may block.
func ExampleFromSource() {
	countdown := engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[int]) error {
		for n := range 3 {
			if err := out.Emit(ctx, 3-n); err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Println(countdown.Collect(context.Background()))
	// Output: [3 2 1] <nil>
}

// The records of a batch stay together, whoever else emits.
func ExampleEmitter_Lock() {
	pairs := engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[string]) error {
		return out.Lock().Do(ctx, func(ctx context.Context) error {
			if err := out.Emit(ctx, "debit"); err != nil {
				return err
			}
			return out.Emit(ctx, "credit")
		})
	})
	fmt.Println(pairs.Collect(context.Background()))
	// Output: [debit credit] <nil>
}

type reading struct {
	sensor string
	at     int64 // in milliseconds
	value  int
}

var readings = []reading{
	{"a", 1_000, 3}, {"b", 2_000, 8}, {"a", 9_000, 5}, {"a", 11_000, 1}, {"b", 25_000, 2},
}

// Windows close as event time goes on.
func ExampleWindowBy() {
	stream := engine.AssignTimestamps(engine.FromSlice(nil, readings),
		func(r reading) int64 { return r.at }, engine.Ascending[reading])
	bySensor := engine.KeyBy(stream, func(r reading) string { return r.sensor })
	sums := engine.Sum(engine.WindowBy(bySensor, engine.Tumbling(10*time.Second)),
		func(r reading) int { return r.value })
	err := sums.Each(context.Background(), func(_ context.Context, r engine.WindowResult[string, int]) error {
		fmt.Println(r.Window, r.Key, r.Value)
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// {0 10000} a 8
	// {0 10000} b 8
	// {10000 20000} a 1
	// {20000 30000} b 2
}

// Sessions last as long as records of a key follow each other.
func ExampleSession() {
	stream := engine.AssignTimestamps(engine.FromSlice(nil, readings),
		func(r reading) int64 { return r.at }, engine.BoundedLateness[reading](time.Second))
	bySensor := engine.KeyBy(stream, func(r reading) string { return r.sensor })
	counts := engine.Count(engine.WindowBy(bySensor, engine.Session(5*time.Second)))
	err := counts.Each(context.Background(), func(_ context.Context, r engine.WindowResult[string, int]) error {
		fmt.Println(r.Window, r.Key, r.Value)
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// {1000 6000} a 1
	// {2000 7000} b 1
	// {9000 16000} a 2
	// {25000 30000} b 1
}

// A timer tells of sensors that have been silent for ten seconds.
func ExampleProcess() {
	ctx := context.Background()
	c := engine.NewCoordinator(nil)
	heard, err := engine.NewKeyedStore[string, int64](ctx, c, "heard", nil)
	if err != nil {
		panic(err)
	}
	stream := engine.AssignTimestamps(engine.FromSlice(c, readings),
		func(r reading) int64 { return r.at }, engine.Ascending[reading])
	bySensor := engine.KeyBy(stream, func(r reading) string { return r.sensor })
	silences := engine.Process(bySensor,
		func(ctx context.Context, r reading, out *engine.Output[string, string]) error {
			if err := heard.Set(ctx, r.at); err != nil {
				return err
			}
			return out.AtEventTime(ctx, r.at+10_000)
		},
		func(ctx context.Context, t engine.Timer[string], out *engine.Output[string, string]) error {
			last, err := heard.Value(ctx)
			if err != nil || out.Draining() || last+10_000 > t.At {
				return err
			}
			return out.Emit(ctx, fmt.Sprintf("%s is silent since %d", t.Key, last))
		})
	err = silences.Each(ctx, func(_ context.Context, warning string) error {
		fmt.Println(warning)
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output: a is silent since 11000
}
