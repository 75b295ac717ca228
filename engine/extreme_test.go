package engine_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

const first, last = math.MinInt64, math.MaxInt64

// moments are records whose event time they are themselves, all of one key.
func moments(advance func(w *engine.WatermarkState, record, at int64), at ...int64) *engine.KeyedStream[string, int64] {
	stream := engine.AssignTimestamps(engine.FromSlice(nil, at), func(at int64) int64 { return at }, advance)
	return engine.KeyBy(stream, func(int64) string { return "k" })
}

func TestWindowsAreCutOffWhereTimeEnds(t *testing.T) {
	t.Parallel()
	long := time.Duration(math.MaxInt64)
	for name, of := range map[string]struct {
		assigner engine.Assigner
		want     []counted
	}{
		// -(1<<63) is 2 beyond a multiple of 10, and 1<<63-1 is 7.
		"tumbling": {engine.Tumbling(ms(10)), []counted{
			{"k", window{first, first + 8}, 2},
			{"k", window{last - 17, last - 7}, 1},
			{"k", window{last - 7, last}, 3},
		}},
		"tumbling by one, which the last moment would begin": {engine.Tumbling(ms(1)), []counted{
			{"k", window{first, first + 1}, 1},
			{"k", window{first + 1, first + 2}, 1},
			{"k", window{last - 8, last - 7}, 1},
			{"k", window{last - 2, last - 1}, 1},
			{"k", window{last - 1, last}, 2},
		}},
		"sliding": {engine.Sliding(ms(20), ms(10)), []counted{
			{"k", window{first, first + 8}, 2},
			{"k", window{first, first + 18}, 2},
			{"k", window{last - 27, last - 7}, 1},
			{"k", window{last - 17, last}, 4},
			{"k", window{last - 7, last}, 3},
		}},
		"sessions": {engine.Session(ms(5)), []counted{
			{"k", window{first, first + 6}, 2},
			{"k", window{last - 8, last - 3}, 1},
			{"k", window{last - 2, last}, 3},
		}},
		"the longest": {engine.Session(long), []counted{
			{"k", window{first, first + 1 + long.Milliseconds()}, 2},
			{"k", window{last - 8, last}, 4},
		}},
	} {
		for order, at := range map[string][]int64{
			"ascending":  {first, first + 1, last - 8, last - 2, last - 1, last},
			"descending": {last, last - 1, last - 2, last - 8, first + 1, first},
		} {
			got, err := engine.Count(engine.WindowBy(moments(nil, at...), of.assigner)).Collect(t.Context())
			must(t, err)
			equal(t, fmt.Sprintf("%s, %s", name, order), got, of.want)
		}
	}
}

func TestTheLastWindowClosesWithTheLastWatermark(t *testing.T) {
	t.Parallel()
	var results []string
	err := engine.Count(engine.WindowBy(moments(engine.Ascending[int64], first, last-1, last, last), engine.Tumbling(ms(10)))).
		Each(t.Context(), func(ctx context.Context, r counted) error {
			at, _ := engine.Timestamp(ctx)
			results = append(results, fmt.Sprint(at-r.Window.End, r.Value))
			return nil
		})
	must(t, err)
	equal(t, "results", results, []string{"-1 1", "-1 2", "-1 1"})
}

func TestALatenessDoesNotWrapAWatermark(t *testing.T) {
	t.Parallel()
	for late, want := range map[time.Duration]int64{
		time.Second:  first,
		-time.Second: first + 1000,
	} {
		w := engine.NewWatermarkState()
		engine.BoundedLateness[int](late)(w, 0, first)
		equal(t, fmt.Sprint("the watermark after the first moment, ", late), w.Current().At, want)
	}
	w := engine.NewWatermarkState()
	engine.BoundedLateness[int](-time.Second)(w, 0, last)
	equal(t, "the watermark after the last moment", w.Current().At, last)
}
