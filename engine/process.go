package engine

import (
	"context"
	"time"
)

// Process hands each record of a keyed stream to a function that may emit any number of
// others and register timers for the current key; the second function is called when a
// timer is due, with its key and its moment as the current ones. Both run inside the
// fence. A nil timer function lets timers pass.
//
// Timers of event time are due when the watermark reaches them, those of processing time
// when the clock does. When the input ends all of them are fired, in one hold of the
// fence: first those of processing time, then those of event time, each in the order of
// their moments and then of their registration, until none is left. Timers are no part of
// checkpoints: records that are read again register them again.
func Process[K comparable, T, R any](
	s *KeyedStream[K, T],
	record func(ctx context.Context, record T, out *Output[K, R]) error,
	timer func(ctx context.Context, t Timer[K], out *Output[K, R]) error,
) *Stream[R] {
	return &Stream[R]{coordinator: s.coordinator, attach: func(ctx context.Context, r *run, down operator[R]) error {
		out := &Output[K, R]{fence: r.fence, emit: down.record}
		out.timers = newTimers(func(ctx context.Context, t Timer[K]) error {
			if timer == nil {
				return nil
			}
			return timer(ctx, t, out)
		})
		r.clocks = append(r.clocks, out.timers)
		return s.attach(ctx, r, operator[T]{
			record: func(ctx context.Context, rec T) error { return record(ctx, rec, out) },
			watermark: func(ctx context.Context, at int64) error {
				if err := out.timers.advance(ctx, &out.timers.event, at); err != nil {
					return err
				}
				return down.watermark(ctx, at)
			},
			end: func(ctx context.Context) error {
				out.draining = true
				if err := out.timers.drain(ctx); err != nil {
					return err
				}
				return down.end(ctx)
			},
		})
	}}
}

// Output is what the functions of [Process] have besides their record. It is valid while
// they run.
type Output[K comparable, R any] struct {
	fence    *Fence
	emit     func(ctx context.Context, record R) error
	timers   *timers[K]
	draining bool
}

// Emit hands a record on. What is done with it is done when Emit returns.
func (o *Output[K, R]) Emit(ctx context.Context, record R) error { return o.emit(ctx, record) }

// AtEventTime registers a timer of the current key for when the watermark reaches a
// moment, in milliseconds; one that it has passed already is due at its next step. The
// same timer is registered once.
func (o *Output[K, R]) AtEventTime(ctx context.Context, at int64) error {
	return o.register(ctx, at, true)
}

// AtProcessingTime registers a timer of the current key for when the clock reaches a
// moment, in whole milliseconds. The same timer is registered once.
func (o *Output[K, R]) AtProcessingTime(ctx context.Context, at time.Time) error {
	return o.register(ctx, at.UnixMilli(), false)
}

// Draining tells whether the input has ended: timers fire whatever their moment, and one
// that always registers another goes on until the context is done.
func (o *Output[K, R]) Draining() bool { return o.draining }

func (o *Output[K, R]) register(ctx context.Context, at int64, eventTime bool) error {
	key, err := CurrentKey[K](ctx)
	if err != nil {
		return err
	}
	h, err := o.fence.enter(ctx)
	if err != nil {
		return err
	}
	defer h.leave()
	o.timers.register(Timer[K]{Key: key, At: at, EventTime: eventTime})
	return nil
}
