package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

// numbers are 0 to n-1.
func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestItem15_TheFenceIsFreeWhileAStreamWaits(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	fetch := func(yield func(int) bool) {
		for i := range 3 {
			trigger(t, c) // would wait for ever if fetching held the fence
			if !yield(i) {
				return
			}
		}
		trigger(t, c)
	}
	got, err := engine.FromSeq(c, fetch).Collect(t.Context())
	must(t, err)
	equal(t, "records", got, []int{0, 1, 2})

	must(t, c.Fence().Do(t.Context(), func(ctx context.Context) error {
		if _, err := engine.FromSeq(c, fetch).Collect(ctx); !errors.Is(err, engine.ErrInFence) {
			t.Errorf("a stream that would hold the fence while it waits: %v", err)
		}
		return nil
	}))
}

func TestItem41_ATriggerWaitsForTheRecordAndHasAllItsWrites(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	a, b := store[string, int](t, c, "a"), store[string, int](t, c, "b")
	var triggered <-chan struct{}
	stream := engine.KeyBy(engine.FromSlice(c, []int{1}), func(int) string { return "k" })
	must(t, stream.Each(t.Context(), func(ctx context.Context, n int) error {
		must(t, a.Set(ctx, n))
		triggered = begin(t, func(ctx context.Context) error { _, err := c.Trigger(ctx); return err })
		waits(t, "the trigger", triggered)
		return b.Set(ctx, n)
	}))
	happens(t, "the trigger", triggered)
	for _, name := range []string{"a", "b"} {
		equal(t, name, read[map[string]int](t, c.Latest(), name), map[string]int{"k": 1})
	}
}

func TestItem42_TwoStatesOfARecordAreEqualInEveryCheckpoint(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	a, b := store[int, int](t, c, "a"), store[int, int](t, c, "b")
	stream := engine.KeyBy(engine.FromSlice(c, numbers(20*rounds())), func(n int) int { return n % 7 })
	add := func(n int) int { return n + 1 }
	consumed := begin(t, func(ctx context.Context) error {
		return stream.Each(ctx, func(ctx context.Context, _ int) error {
			must(t, a.Update(ctx, add))
			return b.Update(ctx, add)
		})
	})
	for range rounds() {
		cp := trigger(t, c)
		equal(t, "b", read[map[int]int](t, cp, "b"), read[map[int]int](t, cp, "a"))
	}
	happens(t, "the end", consumed)
	equal(t, "b at the end", contents(t, b), contents(t, a))
}

func TestItem43_ATriggerInsideARecordHasWhatItHasWritten(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	a, b := store[string, int](t, c, "a"), store[string, int](t, c, "b")
	stream := engine.KeyBy(engine.FromSlice(c, []int{1}), func(int) string { return "k" })
	must(t, stream.Each(t.Context(), func(ctx context.Context, n int) error {
		must(t, a.Set(ctx, n))
		if _, err := c.Trigger(ctx); err != nil {
			return err
		}
		return b.Set(ctx, n)
	}))
	equal(t, "a", read[map[string]int](t, c.Latest(), "a"), map[string]int{"k": 1})
	equal(t, "b", read[map[string]int](t, c.Latest(), "b"), map[string]int{})
}

func TestItem44_ARestoreInsideARecordIsWhatItReadsNext(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	sum := store[string, int](t, c, "sum")
	var log []any
	stream := engine.KeyBy(engine.FromSlice(c, []int{1, 2, 3}), func(int) string { return "k" })
	must(t, stream.Each(t.Context(), func(ctx context.Context, n int) error {
		if n == 2 {
			must(t, sum.Set(ctx, 999))
			must(t, c.Restore(ctx, 1))
			value, err := sum.Value(ctx)
			must(t, err)
			log = append(log, "restored", value)
		}
		must(t, sum.Update(ctx, func(s int) int { return s + n }))
		value, err := sum.Value(ctx)
		must(t, err)
		log = append(log, "sum", value)
		if n == 1 {
			_, err = c.Trigger(ctx)
		}
		return err
	}))
	equal(t, "outputs", log, []any{"sum", 1, "restored", 1, "sum", 3, "sum", 6})
}

func TestRecordsAreMappedFilteredAndFlattened(t *testing.T) {
	t.Parallel()
	s := engine.FromSlice(nil, numbers(5))
	s = engine.Filter(s, func(n int) bool { return n%2 == 0 })
	s = engine.Map(s, func(_ context.Context, n int) (int, error) { return 10 * n, nil })
	s = engine.FlatMap(s, func(_ context.Context, n int, emit func(int) error) error {
		return errors.Join(emit(n), emit(n+1))
	})
	for range 2 { // a stream is a description: it can be consumed again
		got, err := s.Collect(t.Context())
		must(t, err)
		equal(t, "records", got, []int{0, 1, 20, 21, 40, 41})
	}
}

func TestAnErrorEndsAStreamAndKeepsWhatCameBefore(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	until := func(n int) error {
		if n == 3 {
			return failure
		}
		return nil
	}
	source := func(ctx context.Context, out *engine.Emitter[int]) error {
		for _, n := range numbers(10_000) {
			if err := out.Emit(ctx, n); err != nil {
				return err
			}
		}
		return nil
	}
	for name, s := range map[string]*engine.Stream[int]{
		"slice":  engine.FromSlice(nil, numbers(10)),
		"source": engine.FromSource(nil, source),
	} {
		got, err := engine.Map(s, func(_ context.Context, n int) (int, error) { return n, until(n) }).Collect(t.Context())
		if !errors.Is(err, failure) {
			t.Errorf("%s: a failing map: %v", name, err)
		}
		equal(t, name+" up to the failure", got, []int{0, 1, 2})
		got = nil
		err = s.Each(t.Context(), func(_ context.Context, n int) error { got = append(got, n); return until(n) })
		if !errors.Is(err, failure) {
			t.Errorf("%s: a failing body: %v", name, err)
		}
		equal(t, name+" up to the failure", got, []int{0, 1, 2, 3})
	}
}

func TestACancelledStreamEndsBetweenTwoRecords(t *testing.T) {
	t.Parallel()
	reason := errors.New("enough")
	endless := func(ctx context.Context, out *engine.Emitter[int]) error {
		for {
			if err := out.Emit(ctx, 1); err != nil {
				return err
			}
		}
	}
	c := engine.NewCoordinator(nil)
	windows := engine.Map(engine.Count(engine.WindowBy(timed(c, 9, 1, nil), engine.Tumbling(ms(1)))),
		func(_ context.Context, r counted) (int, error) { return r.Value, nil })
	for name, s := range map[string]*engine.Stream[int]{
		"slice":   engine.FromSlice(nil, numbers(10)),
		"source":  engine.FromSource(nil, endless),
		"silence": engine.FromSource(nil, func(ctx context.Context, _ *engine.Emitter[int]) error { <-ctx.Done(); return ctx.Err() }),
		"windows": windows,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		records := 0
		if name == "silence" || name == "windows" {
			cancel(reason)
		}
		err := s.Each(ctx, func(context.Context, int) error {
			records++
			if records == 3 {
				cancel(reason)
			}
			return nil
		})
		if err != reason { //nolint:errorlint // as it is
			t.Errorf("%s: %v", name, err)
		}
		want := 3
		if name == "silence" || name == "windows" {
			want = 0
		}
		equal(t, name+": records", records, want)
		cancel(nil)
	}
}

func TestACancelledRecordStillWritesAll(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	a, b := store[string, int](t, c, "a"), store[string, int](t, c, "b")
	ctx, cancel := context.WithCancel(t.Context())
	err := engine.KeyBy(engine.FromSlice(c, numbers(9)), func(int) string { return "k" }).Each(ctx,
		func(ctx context.Context, n int) error {
			must(t, a.Set(ctx, n))
			if n == 4 {
				cancel()
			}
			return b.Set(ctx, n)
		})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	equal(t, "a", contents(t, a), map[string]int{"k": 4})
	equal(t, "b", contents(t, b), map[string]int{"k": 4})
}

func TestItem56_AStreamWithoutACoordinatorIsAPlainOne(t *testing.T) {
	t.Parallel()
	got, err := engine.FromSlice[int](nil, numbers(3)).Collect(t.Context())
	must(t, err)
	if !slices.Equal(got, numbers(3)) {
		t.Errorf("records: %v", got)
	}
}

func TestAConsumptionThatCannotBeginRegistersNothing(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	must(t, c.Adopt(t.Context(), engine.NewCheckpoint(1, time.Now(), map[string][]engine.Entry{
		"watermark-1": {{Value: json.RawMessage(`"no watermark"`)}},
	})))
	_, err := engine.Count(engine.WindowBy(timed(c, 3, 1, nil), engine.Tumbling(ms(10)))).Collect(t.Context())
	if err == nil {
		t.Error("a watermark began with what is none")
	}
	equal(t, "sources", c.Sources(), []string{})
}
