package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

func TestItem35_RecordsAndTheFlushAreInsideTheFenceAndFetchingIsNot(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	var triggered <-chan struct{}
	fetch := func(yield func(int) bool) {
		for n := range 20 {
			trigger(t, c)
			if !yield(n) {
				return
			}
		}
	}
	flushed := store[string, int](t, c, "flushed")
	counts := engine.Count(engine.WindowBy(engine.KeyBy(
		engine.AssignTimestamps(engine.FromSeq(c, fetch), self, nil), modulo(1)), engine.Tumbling(ms(5))))
	must(t, counts.Each(t.Context(), func(ctx context.Context, r counted) error {
		if !c.Fence().Held(ctx) {
			t.Error("a result came outside of the fence")
		}
		if triggered == nil {
			triggered = begin(t, func(ctx context.Context) error { _, err := c.Trigger(ctx); return err })
		}
		waits(t, "the trigger", triggered)
		return flushed.Update(ctx, func(n int) int { return n + r.Value })
	}))
	happens(t, "the trigger", triggered)
	equal(t, "what it has", read[map[string]int](t, c.Latest(), "flushed"), map[string]int{"0": 20})
}

func TestItem36_ATriggerDoesNotWaitForAWindowWhoseSourceIsBlocked(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	blocked, release := make(chan struct{}), make(chan struct{})
	source := engine.FromSource(c, func(ctx context.Context, out *engine.Emitter[int]) error {
		for range 5 {
			if err := out.Emit(ctx, 1); err != nil {
				return err
			}
		}
		close(blocked)
		<-release
		return nil
	})
	counts := engine.Count(engine.WindowBy(engine.KeyBy(engine.AssignTimestamps(source, self, nil), modulo(1)), engine.Tumbling(ms(10))))
	consumed := begin(t, func(ctx context.Context) error { _, err := counts.Collect(ctx); return err })
	happens(t, "the block", blocked)
	for deadline := time.Now().Add(patience); ; {
		buckets := read[[]engine.Bucket](t, trigger(t, c), "window-1")
		if len(buckets) == 1 && buckets[0].Contents == 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the buckets are %v", buckets)
		}
	}
	close(release)
	happens(t, "the end", consumed)
}

func TestItem37_WindowsCloseWhenTheWatermarkReachesTheirEnd(t *testing.T) {
	t.Parallel()
	fires := func(trigger func() engine.Trigger, advance func(*engine.WatermarkState, int, int64)) (when []int, got []counted) {
		events := 0
		stream := engine.AssignTimestamps(engine.FromSlice(nil, numbers(100)), self, advance)
		stream = engine.Filter(stream, func(int) bool { events++; return true })
		counts := engine.Count(engine.WindowBy(engine.KeyBy(stream, modulo(1)), engine.Tumbling(ms(10))).TriggeredBy(trigger))
		must(t, counts.Each(t.Context(), func(ctx context.Context, r counted) error {
			at, _ := engine.Timestamp(ctx)
			equal(t, "timestamp of a result", at, r.Window.End-1)
			when, got = append(when, events), append(got, r)
			return nil
		}))
		return when, got
	}
	var windows []counted
	for end := int64(10); end <= 100; end += 10 {
		windows = append(windows, counted{"0", window{end - 10, end}, 10})
	}

	when, got := fires(engine.OnceClosed, engine.Ascending[int])
	equal(t, "fire and purge", got, windows)
	equal(t, "after how many events", when, []int{11, 21, 31, 41, 51, 61, 71, 81, 91, 100})

	when, got = fires(func() engine.Trigger { return keeping{} }, engine.Ascending[int])
	equal(t, "fire", got, slices.Concat(windows[:9], windows)) // the last closes at the end only
	equal(t, "after how many events", when[:10], []int{11, 21, 31, 41, 51, 61, 71, 81, 91, 100})

	when, got = fires(engine.OnceClosed, nil)
	equal(t, "without a watermark", got, windows)
	equal(t, "after how many events", when, slices.Repeat([]int{100}, 10))
}

// keeping fires when its window closes, and keeps it.
type keeping struct{}

func (keeping) OnRecord(int64, engine.Window) engine.Decision { return engine.Continue }
func (keeping) OnClose(engine.Window) engine.Decision         { return engine.Fire }

func TestItem38_ResultsAreTheSameWithAndWithoutWatermarks(t *testing.T) {
	t.Parallel()
	mean := engine.Aggregator[int, [2]int, int]{
		New:    func() [2]int { return [2]int{} },
		Add:    func(acc [2]int, n int) [2]int { return [2]int{acc[0] + n, acc[1] + 1} },
		Result: func(acc [2]int) int { return acc[0] / acc[1] },
	}
	for name, windows := range map[string]engine.Assigner{
		"tumbling": engine.Tumbling(ms(7)), "sliding": engine.Sliding(ms(10), ms(3)), "gaps": engine.Sliding(ms(2), ms(5)), "sessions": engine.Session(ms(3)),
	} {
		for op, results := range map[string]func(*engine.WindowedStream[string, int]) *engine.Stream[counted]{
			"count": engine.Count[string, int],
			"sum": func(s *engine.WindowedStream[string, int]) *engine.Stream[counted] {
				return engine.Sum(s, func(n int) int { return n })
			},
			"reduce": func(s *engine.WindowedStream[string, int]) *engine.Stream[counted] {
				return engine.Reduce(s, func(a, b int) int { return a - b })
			},
			"aggregate": func(s *engine.WindowedStream[string, int]) *engine.Stream[counted] { return engine.Aggregate(s, mean) },
			"apply": func(s *engine.WindowedStream[string, int]) *engine.Stream[counted] {
				return engine.Apply(s, func(_ context.Context, _ string, _ engine.Window, all []int) (int, error) { return len(all), nil })
			},
		} {
			run := func(advance func(*engine.WatermarkState, int, int64)) []counted {
				got, err := results(engine.WindowBy(timed(nil, 100, 4, advance), windows)).Collect(t.Context())
				must(t, err)
				slices.SortFunc(got, func(a, b counted) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				return got
			}
			want := run(nil)
			if len(want) < 10 {
				t.Fatalf("%s of %s: only %d results", op, name, len(want))
			}
			equal(t, op+" of "+name, run(engine.Ascending[int]), want)
		}
	}
}

func TestItem39_ApplyAndSessionsKeepRecordsAndOthersDoNot(t *testing.T) {
	t.Parallel()
	apply := func(s *engine.WindowedStream[string, int]) *engine.Stream[counted] {
		return engine.Apply(s, func(context.Context, string, engine.Window, []int) (int, error) { return 0, nil })
	}
	for name, tc := range map[string]struct {
		windows engine.Assigner
		results func(*engine.WindowedStream[string, int]) *engine.Stream[counted]
		want    any
	}{
		"tumbling count": {engine.Tumbling(ms(10)), engine.Count[string, int], 3},
		"sliding count":  {engine.Sliding(ms(10), ms(10)), engine.Count[string, int], 3},
		"session count":  {engine.Session(ms(10)), engine.Count[string, int], []int{0, 1, 2}},
		"tumbling apply": {engine.Tumbling(ms(10)), apply, []int{0, 1, 2}},
	} {
		c := engine.NewCoordinator(nil)
		stream := engine.Map(engine.AssignTimestamps(engine.FromSlice(c, numbers(4)), self, nil), func(ctx context.Context, n int) (int, error) {
			if n < 3 {
				return n, nil
			}
			_, err := c.Trigger(ctx)
			return n, err
		})
		_, err := tc.results(engine.WindowBy(engine.KeyBy(stream, modulo(1)), tc.windows)).Collect(t.Context())
		must(t, err)
		equal(t, name, read[[]engine.Bucket](t, c.Latest(), "window-1")[0].Contents, tc.want)
	}
}

// A bucket that was purged is gone, with its trigger: the end has nothing of it to fire,
// which the seed gets wrong.
func TestItem40_TheEndClosesAndFiresEveryBucketThatIsLeft(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		trigger func() engine.Trigger
		want    []int
	}{
		"never fires":         {func() engine.Trigger { return &countdown{} }, []int{4}},
		"fires at the end":    {func() engine.Trigger { return keeping{} }, []int{4}},
		"every third":         {func() engine.Trigger { return engine.EveryCount(3) }, []int{3, 4}},
		"every third, purged": {func() engine.Trigger { return engine.Purging(engine.EveryCount(3)) }, []int{3, 1}},
		"every one, purged":   {func() engine.Trigger { return engine.Purging(engine.EveryCount(1)) }, []int{1, 1, 1, 1}},
		"kept, but purged":    {func() engine.Trigger { return engine.Purging(keeping{}) }, []int{4}},
	} {
		closed := 0
		trigger := func() engine.Trigger { return &watched{tc.trigger(), &closed} }
		var got []int
		must(t, engine.Count(engine.WindowBy(timed(nil, 4, 1, nil), engine.Tumbling(ms(10))).TriggeredBy(trigger)).Each(t.Context(),
			func(_ context.Context, r counted) error {
				got = append(got, r.Value)
				return nil
			}))
		equal(t, name, got, tc.want)
		if want := 1; name != "every one, purged" && closed != want {
			t.Errorf("%s: closed %d times", name, closed)
		}
	}
}

// watched counts the closings of a trigger.
type watched struct {
	engine.Trigger
	closed *int
}

func (w *watched) OnClose(win engine.Window) engine.Decision {
	*w.closed++
	return w.Trigger.OnClose(win)
}

func TestSessionsThatARecordJoinsBecomeOne(t *testing.T) {
	t.Parallel()
	run := func(records ...int) (got []string) {
		stream := engine.AssignTimestamps(engine.FromSlice(nil, records), self, nil)
		must(t, engine.Apply(engine.WindowBy(engine.KeyBy(stream, func(int) string { return "k" }), engine.Session(ms(10))),
			func(_ context.Context, _ string, w engine.Window, all []int) (string, error) {
				return fmt.Sprint(w, all), nil
			}).
			Each(t.Context(), func(_ context.Context, r engine.WindowResult[string, string]) error {
				got = append(got, r.Value)
				return nil
			}))
		return got
	}
	equal(t, "in a row", run(0, 5, 14, 24), []string{"{0 24} [0 5 14]", "{24 34} [24]"})
	equal(t, "joined by the last", run(0, 18, 9), []string{"{0 28} [0 18 9]"})
	equal(t, "joined, the later one first", run(18, 0, 100, 9), []string{"{0 28} [18 0 9]", "{100 110} [100]"})
	equal(t, "in a row, the later one first", run(10, 0), []string{"{0 10} [0]", "{10 20} [10]"})
	equal(t, "the same moment twice", run(3, 3), []string{"{3 13} [3 3]"})
}

func TestWindowsReachBackBefore1970(t *testing.T) {
	t.Parallel()
	stream := engine.AssignTimestamps(engine.FromSlice(nil, []int{-11, -10, -1, 0}), self, nil)
	got, err := engine.Count(engine.WindowBy(engine.KeyBy(stream, func(int) string { return "k" }), engine.Tumbling(ms(10)))).Collect(t.Context())
	must(t, err)
	equal(t, "results", got, []counted{{"k", window{-20, -10}, 1}, {"k", window{-10, 0}, 2}, {"k", window{0, 10}, 1}})
}

func TestAFailingWindowEndsTheStream(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	_, err := engine.Apply(engine.WindowBy(timed(nil, 30, 1, engine.Ascending[int]), engine.Tumbling(ms(10))),
		func(context.Context, string, engine.Window, []int) (int, error) { return 0, failure }).Collect(t.Context())
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

func TestAWindowIsAtLeastAMillisecondLong(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(){
		"tumbling": func() { engine.Tumbling(0) },
		"sliding":  func() { engine.Sliding(time.Second, time.Microsecond) },
		"session":  func() { engine.Session(-time.Second) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", name)
				}
			}()
			do()
		}()
	}
}
