package engine

import "context"

// then makes a stream of one stage more. The stage sees records; watermarks and the end
// pass it by.
func then[T, R any](s *Stream[T], stage func(ctx context.Context, record T, emit func(ctx context.Context, record R) error) error) *Stream[R] {
	return &Stream[R]{coordinator: s.coordinator, attach: func(ctx context.Context, r *run, down operator[R]) error {
		return s.attach(ctx, r, operator[T]{
			record:    func(ctx context.Context, record T) error { return stage(ctx, record, down.record) },
			watermark: down.watermark,
			end:       down.end,
		})
	}}
}

// Map turns each record into another.
func Map[T, R any](s *Stream[T], f func(ctx context.Context, record T) (R, error)) *Stream[R] {
	return then(s, func(ctx context.Context, record T, emit func(context.Context, R) error) error {
		mapped, err := f(ctx, record)
		if err != nil {
			return err
		}
		return emit(ctx, mapped)
	})
}

// FlatMap turns each record into any number of others: those that f emits before it
// returns.
func FlatMap[T, R any](s *Stream[T], f func(ctx context.Context, record T, emit func(R) error) error) *Stream[R] {
	return then(s, func(ctx context.Context, record T, emit func(context.Context, R) error) error {
		return f(ctx, record, func(flat R) error { return emit(ctx, flat) })
	})
}

// Filter keeps the records for which keep is true.
func Filter[T any](s *Stream[T], keep func(record T) bool) *Stream[T] {
	return then(s, func(ctx context.Context, record T, emit func(context.Context, T) error) error {
		if !keep(record) {
			return nil
		}
		return emit(ctx, record)
	})
}

// KeyedStream is a stream whose records have a key, which is the current key of the
// context they are worked on with.
type KeyedStream[K comparable, T any] struct{ *Stream[T] }

// KeyBy gives each record its key.
func KeyBy[K comparable, T any](s *Stream[T], key func(record T) K) *KeyedStream[K, T] {
	return &KeyedStream[K, T]{then(s, func(ctx context.Context, record T, emit func(context.Context, T) error) error {
		return emit(WithKey(ctx, key(record)), record)
	})}
}
