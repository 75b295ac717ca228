package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/checkpointd/checkpointd/engine"
)

func TestARecordThatIsLateOpensItsWindowAnew(t *testing.T) {
	t.Parallel()
	records := []int{1, 2, 10, 3, 4, 11, 20}
	stream := engine.AssignTimestamps(engine.FromSlice(nil, records), self, engine.Ascending[int])
	got, err := engine.Count(engine.WindowBy(engine.KeyBy(stream, func(int) string { return "k" }), engine.Tumbling(ms(10)))).Collect(t.Context())
	must(t, err)
	equal(t, "results", got, []counted{
		{"k", window{0, 10}, 2}, // with 10
		{"k", window{0, 10}, 2}, // with 11, which is when the watermark rises next
		{"k", window{10, 20}, 2}, {"k", window{20, 30}, 1},
	})
}

func TestARecordThatIsLateClosesAWindowThatWasKeptOnceMore(t *testing.T) {
	t.Parallel()
	stream := engine.AssignTimestamps(engine.FromSlice(nil, []int{1, 2, 10, 3, 11, 20}), self, engine.Ascending[int])
	keyed := engine.KeyBy(stream, func(int) string { return "k" })
	got, err := engine.Count(engine.WindowBy(keyed, engine.Tumbling(ms(10))).
		TriggeredBy(func() engine.Trigger { return keeping{} })).Collect(t.Context())
	must(t, err)
	first, second, third := window{0, 10}, window{10, 20}, window{20, 30}
	equal(t, "results", got, []counted{
		{"k", first, 2},
		{"k", first, 3},
		{"k", second, 2},
		{"k", first, 3},
		{"k", second, 2},
		{"k", third, 1}, // at the end
	})
}

func TestALateRecordDoesNotHideTheWindowsThatCloseAfterIt(t *testing.T) {
	t.Parallel()
	stream := engine.AssignTimestamps(engine.FromSlice(nil, []int{25, 1, 26, 31, 29}), self, engine.Ascending[int])
	keyed := engine.KeyBy(stream, func(int) string { return "k" })
	got, err := engine.Count(engine.WindowBy(keyed, engine.Tumbling(ms(10)))).Collect(t.Context())
	must(t, err)
	equal(t, "results", got, []counted{
		{"k", window{0, 10}, 1},  // with 26
		{"k", window{20, 30}, 2}, // with 31, and so without 29
		{"k", window{20, 30}, 1}, {"k", window{30, 40}, 1},
	})
}

func TestItem31_TheLastTimestampIsTheLatestAndNotThatOfTheNewestRecord(t *testing.T) {
	t.Parallel()
	type want struct {
		window engine.Window
		last   int64
	}
	for name, of := range map[string]struct {
		records  []int
		assigner engine.Assigner
		fires    int // with the last record
		want     want
	}{
		"a window":                      {[]int{12, 15, 11}, engine.Tumbling(ms(10)), 3, want{window{10, 20}, 15}},
		"sessions, the later one first": {[]int{30, 5, 18}, engine.Session(ms(15)), 2, want{window{5, 45}, 30}},
		"sessions, the later one last":  {[]int{5, 30, 18}, engine.Session(ms(15)), 2, want{window{5, 45}, 30}},
	} {
		c := engine.NewCoordinator(nil)
		keyed := engine.KeyBy(engine.AssignTimestamps(engine.FromSlice(c, of.records), self, nil), func(int) string { return "k" })
		windows := engine.WindowBy(keyed, of.assigner).TriggeredBy(func() engine.Trigger { return engine.EveryCount(of.fires) })
		must(t, engine.Count(windows).Each(t.Context(), func(ctx context.Context, _ counted) error {
			_, err := c.Trigger(ctx)
			return err
		}))
		var got []want
		for _, b := range read[[]engine.Bucket](t, c.Get(1), "window-1") { // not that of the end
			got = append(got, want{b.Window, b.LastTimestamp})
		}
		if !slices.Equal(got, []want{of.want}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
