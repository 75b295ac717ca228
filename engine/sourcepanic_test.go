package engine_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/checkpointd/checkpointd/engine"
)

// panics runs do and returns what it panicked with.
func panics(do func()) (with any) {
	defer func() { with = recover() }()
	do()
	return nil
}

func TestAPanicOfASourceIsOneOfItsConsumer(t *testing.T) {
	t.Parallel()
	c := engine.NewCoordinator(nil)
	bug := errors.New("a bug")
	var got []counted
	stream := engine.FromSource(c, func(ctx context.Context, out *engine.Emitter[int]) error {
		return out.Lock().Do(ctx, func(ctx context.Context) error {
			for n := range 3 {
				must(t, out.Emit(ctx, n))
			}
			panic(bug)
		})
	})
	stream = engine.AssignTimestamps(stream, self, engine.Ascending[int])
	counts := engine.Count(engine.WindowBy(engine.KeyBy(stream, modulo(1)), engine.Tumbling(ms(2))))
	with := panics(func() {
		_ = counts.Each(t.Context(), func(_ context.Context, r counted) error {
			got = append(got, r)
			return nil
		})
	})
	if with != any(bug) {
		t.Errorf("it panicked with %v", with)
	}
	equal(t, "results, without those of an end of the input", got, []counted{{"0", window{End: 2}, 2}})
	trigger(t, c)
}

func TestAPanicOfASourceIsNotHiddenByAnError(t *testing.T) {
	t.Parallel()
	with := panics(func() {
		_ = engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[int]) error {
			must(t, out.Emit(ctx, 1))
			<-ctx.Done()
			panic("a bug")
		}).Each(t.Context(), fails(errors.New("no")))
	})
	if with != "a bug" {
		t.Errorf("it panicked with %v", with)
	}
}

func TestASourceThatExitsItsGoroutineHasNotEndedTheInput(t *testing.T) {
	t.Parallel()
	got, err := engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[int]) error {
		must(t, out.Emit(ctx, 1))
		runtime.Goexit()
		return nil
	}).Collect(t.Context())
	if _, ok := errors.AsType[*engine.SourceError](err); !ok {
		t.Errorf("got %v", err)
	}
	equal(t, "records", got, []int{1})
}

func TestAnErrorOfTheConsumerComesBeforeOneOfItsSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := errors.New("no")
		err := engine.FromSource(nil, func(ctx context.Context, out *engine.Emitter[int]) error {
			must(t, out.Emit(ctx, 1))
			return errors.New("disk on fire")
		}).Each(t.Context(), func(context.Context, int) error {
			synctest.Wait() // until the source has failed
			return own
		})
		if err != own { //nolint:errorlint // as it is
			t.Errorf("got %v", err)
		}
	})
}
