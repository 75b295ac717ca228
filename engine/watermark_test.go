package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

func TestItem24_AWatermarkOnlyRisesAndIdlenessIsAPart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(w *engine.WatermarkState)
		want engine.Watermark
	}{
		{"new", func(*engine.WatermarkState) {}, engine.Watermark{At: math.MinInt64}},
		{"emit", func(w *engine.WatermarkState) { w.Emit(5) }, engine.Watermark{At: 5}},
		{"emit the lowest", func(w *engine.WatermarkState) { w.Emit(math.MinInt64) }, engine.Watermark{At: math.MinInt64}},
		{"emit the highest", func(w *engine.WatermarkState) { w.Emit(math.MaxInt64); w.Emit(5) }, engine.Watermark{At: math.MaxInt64}},
		{"emit below zero", func(w *engine.WatermarkState) { w.Emit(-5) }, engine.Watermark{At: -5}},
		{"rise", func(w *engine.WatermarkState) { w.Emit(5); w.Emit(6) }, engine.Watermark{At: 6}},
		{"not fall", func(w *engine.WatermarkState) { w.Emit(6); w.Emit(5) }, engine.Watermark{At: 6}},
		{"the same", func(w *engine.WatermarkState) { w.Emit(6); w.Emit(6) }, engine.Watermark{At: 6}},
		{"idle", (*engine.WatermarkState).MarkIdle, engine.Watermark{At: math.MinInt64, Idle: true}},
		{"idle twice", func(w *engine.WatermarkState) { w.MarkIdle(); w.MarkIdle() }, engine.Watermark{At: math.MinInt64, Idle: true}},
		{"active", (*engine.WatermarkState).MarkActive, engine.Watermark{At: math.MinInt64}},
		{"idle after emit", func(w *engine.WatermarkState) { w.Emit(5); w.MarkIdle() }, engine.Watermark{At: 5, Idle: true}},
		{"emit while idle", func(w *engine.WatermarkState) { w.MarkIdle(); w.Emit(5) }, engine.Watermark{At: 5, Idle: true}},
		{"active again", func(w *engine.WatermarkState) { w.MarkIdle(); w.Emit(5); w.MarkActive() }, engine.Watermark{At: 5}},
	} {
		w := engine.NewWatermarkState()
		tc.do(w)
		equal(t, tc.name, w.Current(), tc.want)
	}
	w := engine.NewWatermarkState()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range rounds() {
				w.Emit(int64(n*8 + i))
			}
		})
	}
	all.Wait()
	equal(t, "the highest of many", w.Current().At, int64(8*rounds()-1))
}

func self(n int) int64 { return int64(n) }

// A consumption begins with a watermark of its own: one that the stream kept would make
// every record of a second consumption late. The source is therefore registered when
// consumption begins, not when the stage is put together.
func TestItem25_AWatermarkIsRegisteredForEachConsumption(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	registerValue(t, c, "watermark-2", new(0)) // names that are taken are passed over
	stream := engine.AssignTimestamps(engine.FromSlice(c, numbers(3)), self, engine.Ascending[int])
	equal(t, "sources before", c.Sources(), []string{"watermark-2"})
	for range 2 {
		_, err := stream.Collect(t.Context())
		must(t, err)
	}
	equal(t, "sources after", c.Sources(), []string{"watermark-2", "watermark-1", "watermark-3"})
}

func TestItem26_ACheckpointHasWatermarkAndIdleFlag(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	advance := func(w *engine.WatermarkState, n int, at int64) {
		w.Emit(at)
		if n == 2 {
			w.MarkIdle()
		}
	}
	var got []engine.Watermark
	must(t, engine.AssignTimestamps(engine.FromSlice(c, numbers(4)), self, advance).Each(t.Context(),
		func(ctx context.Context, n int) error {
			at, ok := engine.Timestamp(ctx)
			equal(t, "timestamp", at, int64(n))
			cp, err := c.Trigger(ctx)
			got = append(got, read[engine.Watermark](t, cp, "watermark-1"))
			if !ok {
				t.Error("there is no timestamp")
			}
			return err
		}))
	// The watermark follows the record.
	equal(t, "watermarks", got, []engine.Watermark{{At: engine.NoWatermark}, {At: 0}, {At: 1}, {At: 2, Idle: true}})
	equal(t, "entries", entries(t, c.Get(1), "watermark-1"),
		[]engine.Entry{{Value: json.RawMessage(`{"at":"-9223372036854775808","idle":false}`)}})
}

func TestItem27_ARestoreReplaysWatermarkAndIdleFlagAndMayLowerIt(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	var state *engine.WatermarkState
	advance := func(w *engine.WatermarkState, _ int, at int64) {
		state = w
		w.Emit(at)
	}
	must(t, engine.AssignTimestamps(engine.FromSlice(c, numbers(10)), self, advance).Each(t.Context(),
		func(ctx context.Context, n int) error {
			switch n {
			case 4:
				state.MarkIdle()
				_, err := c.Trigger(ctx)
				state.MarkActive()
				return err
			case 9:
				equal(t, "before", state.Current(), engine.Watermark{At: 8})
				must(t, c.Restore(ctx, 1))
				equal(t, "after", state.Current(), engine.Watermark{At: 3, Idle: true})
			}
			return nil
		}))

	again := engine.NewCoordinator(nil)
	must(t, again.Adopt(t.Context(), engine.NewCheckpoint(1, time.Now(), map[string][]engine.Entry{
		"watermark-1": entries(t, c.Get(1), "watermark-1"),
	})))
	must(t, engine.AssignTimestamps(engine.FromSlice(again, []int{1}), self, advance).Each(t.Context(),
		func(context.Context, int) error { return nil }))
	equal(t, "in another process, after a late record", state.Current(), engine.Watermark{At: 3, Idle: true})
}

func TestItem28_WithoutACoordinatorNoWatermarkIsRegistered(t *testing.T) {
	t.Parallel()
	got, err := engine.AssignTimestamps(engine.FromSlice(nil, numbers(3)), self, engine.Ascending[int]).Collect(t.Context())
	must(t, err)
	equal(t, "records", got, numbers(3))
}

func TestTimersOfEventTimeFireWhenTheWatermarkReachesThem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		advance func(*engine.WatermarkState, int, int64)
		want    []int
	}{
		"ascending": {engine.Ascending[int], []int{0, 1, 2, -2, 3, 4, -4, 5, 6, -6, 7, 8, -8, 9, -10}},
		"bounded":   {engine.BoundedLateness[int](2 * time.Millisecond), []int{0, 1, 2, 3, 4, -2, 5, 6, -4, 7, 8, -6, 9, -8, -10}},
		"never":     {nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -2, -4, -6, -8, -10}},
	} {
		keyed := engine.KeyBy(engine.AssignTimestamps(engine.FromSlice(nil, numbers(10)), self, tc.advance), func(int) int { return 0 })
		got, err := engine.Process(keyed,
			func(ctx context.Context, n int, o *engine.Output[int, int]) error {
				if n%2 == 1 { // one that is due with the record after it
					return errors.Join(o.AtEventTime(ctx, int64(n+1)), o.Emit(ctx, n))
				}
				return o.Emit(ctx, n)
			},
			func(ctx context.Context, tm engine.Timer[int], o *engine.Output[int, int]) error {
				return o.Emit(ctx, -int(tm.At))
			}).Collect(t.Context())
		must(t, err)
		equal(t, name, got, tc.want)
	}
}

// A ticker may raise the watermark of a source that is silent, between two records.
func TestAWatermarkThatRisesBetweenTwoRecordsClosesWindows(t *testing.T) {
	t.Parallel()
	var state *engine.WatermarkState
	fetch := func(yield func(int) bool) {
		for n := range 3 {
			if n > 0 {
				state.Emit(int64(10 * n))
			}
			if !yield(n) {
				return
			}
		}
	}
	stream := engine.AssignTimestamps(engine.FromSeq(nil, fetch), self,
		func(w *engine.WatermarkState, _ int, _ int64) { state = w })
	var log []string
	must(t, engine.Process(engine.KeyBy(stream, modulo(1)),
		func(ctx context.Context, n int, out *engine.Output[string, int]) error {
			log = append(log, fmt.Sprint("record ", n))
			return out.AtEventTime(ctx, int64(10*n+10))
		},
		func(_ context.Context, timer engine.Timer[string], _ *engine.Output[string, int]) error {
			log = append(log, fmt.Sprint("timer ", timer.At))
			return nil
		}).Each(t.Context(), ignore))
	equal(t, "what happened", log, []string{"record 0", "record 1", "timer 10", "record 2", "timer 20", "timer 30"})
}
