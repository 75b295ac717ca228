package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

type (
	counted = engine.WindowResult[string, int]
	window  = engine.Window
)

func modulo(n int) func(int) string {
	return func(record int) string { return fmt.Sprint(record % n) }
}

// timed are the records 0 to n-1, keyed, each at the millisecond of its number.
func timed(c *engine.Coordinator, n, keys int, advance func(*engine.WatermarkState, int, int64)) *engine.KeyedStream[string, int] {
	return engine.KeyBy(engine.AssignTimestamps(engine.FromSlice(c, numbers(n)), self, advance), modulo(keys))
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func TestItem29_AWindowThatIsNotConsumedIsNotRegistered(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	engine.Count(engine.WindowBy(timed(c, 10, 1, nil), engine.Tumbling(ms(10))))
	equal(t, "sources", c.Sources(), []string{})
}

func TestItem30_EachConsumptionHasAWindowStateOfItsOwn(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	registerValue(t, c, "window-2", new(0))
	keyed := engine.KeyBy(engine.FromSlice(c, numbers(3)), modulo(1))
	counts := engine.Count(engine.WindowBy(keyed, engine.Tumbling(time.Hour*1e5)))
	for range 2 {
		got, err := counts.Collect(t.Context())
		must(t, err)
		equal(t, "results", []int{len(got), got[0].Value}, []int{1, 3})
	}
	equal(t, "sources", c.Sources(), []string{"window-2", "window-1", "window-3"})
	equal(t, "buckets after the end", read[[]engine.Bucket](t, trigger(t, c), "window-1"), []engine.Bucket{})
}

func TestItem31_ACheckpointListsTheBuckets(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	var raw [][]int
	// A trigger from inside the last record, whose stage comes before the windows'.
	last := func(n int) *engine.KeyedStream[string, int] {
		stream := engine.AssignTimestamps(engine.FromSlice(c, numbers(n+1)), self, engine.Ascending[int])
		return engine.KeyBy(engine.Map(stream, func(ctx context.Context, record int) (int, error) {
			if record < n {
				return record, nil
			}
			_, err := c.Trigger(ctx)
			return record, err
		}), modulo(2))
	}
	_, err := engine.Sum(engine.WindowBy(last(16), engine.Tumbling(ms(10))), func(n int) int { return n }).Collect(t.Context())
	must(t, err)
	equal(t, "incremental", read[[]engine.Bucket](t, c.Latest(), "window-1"), []engine.Bucket{
		{Key: "0", Window: window{Start: 10, End: 20}, LastTimestamp: 14, Contents: 10 + 12 + 14},
		{Key: "1", Window: window{Start: 10, End: 20}, LastTimestamp: 15, Contents: 11 + 13 + 15},
	})
	equal(t, "as JSON", string(entries(t, c.Latest(), "window-1")[0].Value),
		`[{"key":"0","start":10,"end":20,"lastTimestamp":14,"contents":36},{"key":"1","start":10,"end":20,"lastTimestamp":15,"contents":39}]`)

	_, err = engine.Apply(engine.WindowBy(last(4), engine.Tumbling(ms(10))),
		func(_ context.Context, _ string, _ engine.Window, records []int) (int, error) {
			raw = append(raw, records)
			return len(records), nil
		}).Collect(t.Context())
	must(t, err)
	want := []engine.Bucket{
		{Key: "0", Window: window{End: 10}, LastTimestamp: 2, Contents: []int{0, 2}},
		{Key: "1", Window: window{End: 10}, LastTimestamp: 3, Contents: []int{1, 3}},
	}
	equal(t, "raw", read[[]engine.Bucket](t, c.Latest(), "window-2"), want)
	equal(t, "records of the windows", raw, [][]int{{0, 2, 4}, {1, 3}})
	for _, records := range raw {
		clear(records)
	}
	equal(t, "raw, after a window changed its records", read[[]engine.Bucket](t, c.Latest(), "window-2"), want)
}

// countdown is a trigger with state of its own.
type countdown struct{ Left int }

func (c *countdown) OnRecord(int64, engine.Window) engine.Decision {
	if c.Left--; c.Left == 0 {
		return engine.Fire
	}
	return engine.Continue
}
func (*countdown) OnClose(engine.Window) engine.Decision { return engine.Continue }

func TestItem32_TriggersAreNotInACheckpoint(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	counts := engine.Count(engine.WindowBy(timed(c, 5, 1, nil), engine.Tumbling(ms(10))).
		TriggeredBy(func() engine.Trigger { return &countdown{Left: 3} }))
	var values []int
	must(t, counts.Each(t.Context(), func(ctx context.Context, r counted) error {
		values = append(values, r.Value)
		_, err := c.Trigger(ctx)
		return err
	}))
	equal(t, "results", values, []int{3, 5})
	for name, want := range map[string]string{
		"window-1":    `[{"key":"0","start":0,"end":10,"lastTimestamp":2,"contents":3}]`,
		"watermark-1": `{"at":"-9223372036854775808","idle":false}`,
	} {
		equal(t, name, string(entries(t, c.Get(1), name)[0].Value), want)
	}
}

func TestItem33_ARestoreLeavesBucketsAloneAndIsSeenInTheMirror(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	stream := engine.AssignTimestamps(engine.FromSlice(c, numbers(8)), self, engine.Ascending[int])
	stream = engine.Map(stream, func(ctx context.Context, n int) (int, error) {
		var err error
		switch n {
		case 3:
			_, err = c.Trigger(ctx)
		case 6:
			err = c.Restore(ctx, 1)
			equal(t, "the mirror", read[[]engine.Bucket](t, c.Restored(), "window-1"),
				[]engine.Bucket{{Key: "0", Window: window{End: 10}, LastTimestamp: 2, Contents: 3}})
			live, _ := c.Trigger(ctx)
			equal(t, "the buckets", read[[]engine.Bucket](t, live, "window-1"),
				[]engine.Bucket{{Key: "0", Window: window{End: 10}, LastTimestamp: 5, Contents: 6}})
		}
		return n, err
	})
	got, err := engine.Count(engine.WindowBy(engine.KeyBy(stream, modulo(1)), engine.Tumbling(ms(10)))).Collect(t.Context())
	must(t, err)
	equal(t, "results", got, []counted{{"0", window{End: 10}, 8}})
}

func TestItem34_AReplayAfterARestoreCountsNothingTwice(t *testing.T) {
	t.Parallel()
	run := func(c *engine.Coordinator, at int) []counted {
		stream := engine.AssignTimestamps(engine.FromSlice(c, numbers(100)), self, engine.Ascending[int])
		stream = engine.Map(stream, func(ctx context.Context, n int) (int, error) {
			var err error
			if n == at {
				_, err = c.Trigger(ctx)
			}
			return n, err
		})
		got, err := engine.Count(engine.WindowBy(engine.KeyBy(stream, modulo(3)), engine.Sliding(ms(10), ms(5)))).Collect(t.Context())
		must(t, err)
		return got
	}
	want := run(nil, -1)
	for _, at := range []int{0, 5, 57, 99} {
		c := engine.NewCoordinator(nil)
		equal(t, "results with a checkpoint", run(c, at), want)
		cp := c.Latest()
		must(t, c.Restore(t.Context(), cp.ID()))
		equal(t, "a replay in this process", run(c, -1), want)
		c = engine.NewCoordinator(nil)
		must(t, c.Adopt(t.Context(), cp))
		equal(t, "a replay in another process, whose watermark is replayed", run(c, -1), want)
	}
}
