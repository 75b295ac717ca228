package engine

import (
	"context"
	"errors"
	"time"
)

// Stream is a description of records and of what becomes of them. Nothing happens before
// it is consumed, by [Stream.Each] or [Stream.Collect]; each consumption begins anew.
//
// The stores that it uses must be those of its own coordinator: of two fences that are
// taken in two orders, each would wait for the other.
//
// A record is worked on inside the fence of the stream's coordinator, from its source to
// the end of the stream, so that a checkpoint never splits it. Fetching the next record
// happens outside: a source that blocks holds up no checkpoint.
type Stream[T any] struct {
	coordinator *Coordinator
	// attach puts the stages of one consumption in front of the operator that is given.
	attach func(ctx context.Context, r *run, down operator[T]) error
}

// operator is what a stage offers to the one before it. All of it is called inside the
// fence, by one goroutine.
type operator[T any] struct {
	record    func(ctx context.Context, record T) error
	watermark func(ctx context.Context, at int64) error
	end       func(ctx context.Context) error
}

// run is one consumption of a stream.
type run struct {
	coordinator *Coordinator
	fence       *Fence
	drive       func(ctx context.Context) error
	// sources are the names that this consumption has registered.
	sources []string
	clocks  []clock
	// next is when the earliest of the clocks is due; the zero time is never.
	next time.Time
}

// clock is a stage that has something to do when time passes.
type clock interface {
	due() time.Time
	tick(ctx context.Context, now time.Time) error
}

// Each consumes the stream: body is called for each record, inside the fence. Each ends
// when the input does, or with the first error: that of the source as a [SourceError],
// any other as it is. It does not return before its source has. A panic passes through,
// that of a source too.
//
// When ctx is done, Each ends with the cause, between two records. It refuses with
// [ErrInFence] to begin inside the fence, which its source must not hold.
func (s *Stream[T]) Each(ctx context.Context, body func(ctx context.Context, record T) error) error {
	r := &run{coordinator: s.coordinator, fence: fenceOf(s.coordinator)}
	if r.fence.Held(ctx) {
		return ErrInFence
	}
	err := s.attach(ctx, r, operator[T]{
		record:    body,
		watermark: func(context.Context, int64) error { return nil },
		end:       func(context.Context) error { return nil },
	})
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(err, cause) {
			err = cause
		}
		if left := r.unregister(context.WithoutCancel(ctx)); left != nil {
			return errors.Join(err, left)
		}
		return err
	}
	return r.drive(ctx)
}

// Collect consumes the stream and returns its records, those before an error as well.
func (s *Stream[T]) Collect(ctx context.Context) ([]T, error) {
	var records []T
	err := s.Each(ctx, func(_ context.Context, record T) error {
		records = append(records, record)
		return nil
	})
	return records, err
}

// register adds the state of a stage to the checkpoints, under the first free one of the
// names prefix-1, prefix-2, ….
func (r *run) register(ctx context.Context, prefix string, s *source) error {
	if r.coordinator == nil {
		return nil
	}
	if err := r.coordinator.registerNumbered(ctx, prefix, s); err != nil {
		return err
	}
	r.sources = append(r.sources, s.name)
	return nil
}

// unregister takes back what a consumption registered that does not come about.
func (r *run) unregister(ctx context.Context) error {
	errs := make([]error, len(r.sources))
	for i, name := range r.sources {
		errs[i] = r.coordinator.Unregister(ctx, name)
	}
	return errors.Join(errs...)
}

// step does something inside the fence, after what is due by the clock. It fails with the
// cause of ctx as it is, since Each does.
func (r *run) step(ctx context.Context, do func(ctx context.Context) error) error {
	outer, err := r.fence.enter(ctx)
	if err != nil {
		return context.Cause(ctx)
	}
	return r.fence.within(ctx, outer, func(ctx context.Context) error {
		if err := r.tick(ctx); err != nil {
			return err
		}
		if err := do(ctx); err != nil {
			return err
		}
		r.next = time.Time{}
		for _, c := range r.clocks {
			if due := c.due(); !due.IsZero() && (r.next.IsZero() || due.Before(r.next)) {
				r.next = due
			}
		}
		return nil
	})
}

func (r *run) tick(ctx context.Context) error {
	if r.next.IsZero() {
		return nil
	}
	now := time.Now()
	if now.Before(r.next) {
		return nil
	}
	for _, c := range r.clocks {
		if err := c.tick(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

// alarm rings when the earliest clock is due; nil is never.
func (r *run) alarm() <-chan time.Time {
	if r.next.IsZero() {
		return nil
	}
	return time.After(time.Until(r.next))
}
