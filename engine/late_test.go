package engine_test

import (
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
