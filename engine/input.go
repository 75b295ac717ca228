package engine

import (
	"context"
	"iter"
	"slices"
)

// HandOff is how many records a source may be ahead of the one that its consumer has in
// hand. That one may wait for the fence still: [Emitter.Emit] can have returned HandOff + 1
// times before anything is done with the first record.
const HandOff = 256

// FromSlice is a stream of the elements of a slice. Here as elsewhere a nil coordinator
// means that there are no checkpoints.
func FromSlice[T any](c *Coordinator, records []T) *Stream[T] {
	return FromSeq(c, slices.Values(records))
}

// FromSeq is a stream of what a sequence yields. The sequence runs in the consumer's
// goroutine, outside of the fence: while it blocks, checkpoints go on, but neither a
// cancelled context nor a timer is noticed. What may block is better read by
// [FromSource].
func FromSeq[T any](c *Coordinator, records iter.Seq[T]) *Stream[T] {
	return &Stream[T]{coordinator: c, attach: func(_ context.Context, r *run, down operator[T]) error {
		r.drive = func(ctx context.Context) error {
			for record := range records {
				err := r.step(ctx, func(ctx context.Context) error { return down.record(ctx, record) })
				if err != nil {
					return err
				}
			}
			return r.step(ctx, down.end)
		}
		return nil
	}}
}

// FromSource is a stream of what a function emits, which runs in a goroutine of its own,
// at most [HandOff] records ahead of the consumer. The input ends when the function
// returns nil. Its context is cancelled when the consumer ends before it does; it must
// return then. When it panics, the consumer does, with the same value: as with an error,
// after what was emitted before. The stack that is printed then is the consumer's.
func FromSource[T any](c *Coordinator, source func(ctx context.Context, out *Emitter[T]) error) *Stream[T] {
	return &Stream[T]{coordinator: c, attach: func(_ context.Context, r *run, down operator[T]) error {
		r.drive = func(ctx context.Context) error {
			outer := ctx
			ctx, cancel := context.WithCancel(ctx)
			out := &Emitter[T]{lock: NewFence(), records: make(chan T, HandOff), stop: ctx.Done()}
			failure := errExited
			var panicked any
			go func() {
				defer out.end()
				defer func() { panicked = recover() }()
				failure = source(ctx, out)
			}()
			defer func() {
				cancel()
				for range out.records { // until the source has returned
				}
				if panicked != nil {
					panic(panicked)
				}
			}()
			if err := consume(outer, r, out.records, down); err != nil {
				return err
			}
			if outer.Err() != nil { // which is then why the source ended
				return context.Cause(outer)
			}
			if failure != nil {
				return &SourceError{Err: failure}
			}
			return r.step(outer, down.end)
		}
		return nil
	}}
}

// consume hands records on until there are no more.
func consume[T any](ctx context.Context, r *run, records <-chan T, down operator[T]) error {
	for {
		var err error
		select {
		case record, more := <-records:
			if !more {
				return nil
			}
			err = r.step(ctx, func(ctx context.Context) error { return down.record(ctx, record) })
		case <-r.alarm():
			err = r.step(ctx, func(context.Context) error { return nil })
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}
