package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

type (
	out   = engine.Output[string, string]
	timer = engine.Timer[string]
)

// process runs a processor over one record, of key "k".
func process(
	t *testing.T, c *engine.Coordinator,
	record func(ctx context.Context, o *out) error,
	fired func(ctx context.Context, tm timer, o *out) error,
) ([]string, error) {
	t.Helper()
	keyed := engine.KeyBy(engine.FromSlice(c, []string{"r"}), func(string) string { return "k" })
	return engine.Process(keyed,
		func(ctx context.Context, _ string, o *out) error { return record(ctx, o) }, fired).Collect(t.Context())
}

func TestItem45_TimersAreDrainedInsideOneHoldOfTheFence(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	a, b := store[string, int](t, c, "a"), store[string, int](t, c, "b")
	var triggered <-chan struct{}
	_, err := process(t, c,
		func(ctx context.Context, o *out) error {
			return errors.Join(o.AtEventTime(ctx, 1), o.AtEventTime(ctx, 2))
		},
		func(ctx context.Context, tm timer, _ *out) error {
			if !c.Fence().Held(ctx) {
				t.Error("a timer fired outside of the fence")
			}
			if tm.At == 2 {
				return b.Set(ctx, 1)
			}
			triggered = begin(t, func(ctx context.Context) error { _, err := c.Trigger(ctx); return err })
			waits(t, "the trigger", triggered)
			return a.Set(ctx, 1)
		})
	must(t, err)
	happens(t, "the trigger", triggered)
	for _, name := range []string{"a", "b"} {
		equal(t, name, read[map[string]int](t, c.Latest(), name), map[string]int{"k": 1})
	}
}

func TestItem46_AllTimersFireInOrderAtTheEnd(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	name := func(tm timer) string {
		if tm.EventTime {
			return fmt.Sprintf("%s@%d", tm.Key, tm.At)
		}
		return fmt.Sprintf("%s+%d", tm.Key, tm.At-later.UnixMilli())
	}
	got, err := process(t, nil,
		func(ctx context.Context, o *out) error {
			b := engine.WithKey(ctx, "b")
			if o.Draining() {
				t.Error("draining before the end")
			}
			return errors.Join(
				o.AtEventTime(ctx, 30), o.AtEventTime(b, 10), o.AtEventTime(ctx, 10), o.AtEventTime(b, 10),
				o.AtProcessingTime(ctx, later.Add(time.Second)), o.AtProcessingTime(b, later), o.AtProcessingTime(b, later))
		},
		func(ctx context.Context, tm timer, o *out) error {
			if !o.Draining() {
				t.Error("not draining at the end")
			}
			var err error
			switch name(tm) {
			case "k@30": // one that is earlier, one that is later, and one of the other kind
				err = errors.Join(o.AtEventTime(ctx, 5), o.AtEventTime(ctx, 40), o.AtProcessingTime(ctx, later))
			case "k+0":
				err = o.AtEventTime(ctx, 10) // has fired, and so can be registered anew
			}
			return errors.Join(err, o.Emit(ctx, name(tm)))
		})
	must(t, err)
	equal(t, "timers", got, []string{
		"b+0", "k+1000", // those of processing time, by moment
		"b@10", "k@10", "k@30", "k@5", "k@40", // then those of event time, each once
		"k+0", "k@10",
	})
}

func TestItem47_AFailingTimerSurfacesAndEndsTheStream(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	got, err := process(t, nil,
		func(ctx context.Context, o *out) error {
			return errors.Join(o.AtEventTime(ctx, 1), o.AtEventTime(ctx, 2), o.AtEventTime(ctx, 3))
		},
		func(ctx context.Context, tm timer, o *out) error {
			if tm.At == 2 {
				return failure
			}
			return o.Emit(ctx, fmt.Sprint(tm.At))
		})
	if !errors.Is(err, failure) {
		t.Fatal(err)
	}
	equal(t, "error", err.Error(), "timer of k at 2: no")
	equal(t, "records", got, []string{"1"})
}

// The current key and timestamp are in the context of the callback: there is nothing to
// put back after it.
func TestItem48_ATimersKeyAndTimestampAreTheCurrentOnes(t *testing.T) {
	t.Parallel()
	counts := store[string, int](t, nil, "counts")
	got, err := process(t, nil,
		func(ctx context.Context, o *out) error {
			if _, ok := engine.Timestamp(ctx); ok {
				t.Error("a record without event time has one")
			}
			return errors.Join(o.AtEventTime(engine.WithKey(ctx, "a"), 7), o.AtProcessingTime(ctx, time.UnixMilli(9)))
		},
		func(ctx context.Context, tm timer, o *out) error {
			key, err := engine.CurrentKey[string](ctx)
			must(t, err)
			at, ok := engine.Timestamp(ctx)
			if key != tm.Key || at != tm.At || !ok {
				t.Errorf("timer %v has key %q and timestamp %d, %v", tm, key, at, ok)
			}
			return errors.Join(counts.Set(ctx, int(at)), o.Emit(ctx, key))
		})
	must(t, err)
	equal(t, "keys", got, []string{"k", "a"})
	equal(t, "counts", contents(t, counts), map[string]int{"k": 9, "a": 7})
}

func TestTimersOfProcessingTimeFireWhileTheSourceIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var fired []time.Duration
		source := func(ctx context.Context, out *engine.Emitter[string]) error {
			if err := out.Emit(ctx, "r"); err != nil {
				return err
			}
			time.Sleep(time.Hour) //nolint:forbidigo // the bubble's clock: it jumps
			return nil
		}
		keyed := engine.KeyBy(engine.FromSource(nil, source), func(string) string { return "k" })
		_, err := engine.Process(keyed,
			func(ctx context.Context, _ string, o *out) error {
				return errors.Join(
					o.AtProcessingTime(ctx, begun.Add(2*time.Minute)), o.AtProcessingTime(ctx, begun.Add(time.Minute)),
					o.AtProcessingTime(ctx, begun.Add(3*time.Hour)))
			},
			func(ctx context.Context, _ timer, o *out) error {
				fired = append(fired, time.Since(begun))
				if len(fired) == 1 {
					return o.AtProcessingTime(ctx, begun.Add(90*time.Second))
				}
				return nil
			}).Collect(t.Context())
		must(t, err)
		equal(t, "fired after", fired, []time.Duration{time.Minute, 90 * time.Second, 2 * time.Minute, time.Hour})
	})
}

func TestTimersThatRegisterOneAnotherForEverCanBeStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	fired := 0
	keyed := engine.KeyBy(engine.FromSlice(nil, []string{"r"}), func(string) string { return "k" })
	_, err := engine.Process(keyed,
		func(ctx context.Context, _ string, o *out) error { return o.AtEventTime(ctx, 0) },
		func(ctx context.Context, tm timer, o *out) error {
			if fired++; fired == 100 {
				cancel()
			}
			return o.AtEventTime(ctx, tm.At+1)
		}).Collect(ctx)
	if err != context.Canceled || fired != 100 { //nolint:errorlint // as it is
		t.Errorf("%v after %d timers", err, fired)
	}
}

func TestTimersNobodyWaitsForPass(t *testing.T) {
	t.Parallel()
	got, err := process(t, nil, func(ctx context.Context, o *out) error {
		return errors.Join(o.AtEventTime(ctx, 1), o.Emit(ctx, "r"))
	}, nil)
	must(t, err)
	equal(t, "records", got, []string{"r"})
}
