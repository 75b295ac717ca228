package engine

import (
	"cmp"
	"context"
)

// WindowedStream is a keyed stream whose records are gathered by windows. Records without
// an event time have the time at which they come.
type WindowedStream[K comparable, T any] struct {
	keyed    *KeyedStream[K, T]
	assigner Assigner
	trigger  func() Trigger
}

// WindowBy gathers the records of each key by windows. They close, and give their results,
// when the watermark rises to their end, the earliest first; those that are left do so in
// one hold of the fence when the input ends. A record that comes too late opens its window
// anew, which closes when the watermark rises next.
//
// While it is consumed, a window operator is part of the checkpoints under the first free
// one of the names window-1, window-2, …, as a []Bucket. A restore leaves its windows as
// they are: a source in memory is read again from its beginning, and records would be
// counted twice. What was restored can be looked at, with [Coordinator.Restored] and
// [Read]. After the end of the input the name stays registered, without buckets.
func WindowBy[K comparable, T any](s *KeyedStream[K, T], windows Assigner) *WindowedStream[K, T] {
	return &WindowedStream[K, T]{keyed: s, assigner: windows, trigger: OnceClosed}
}

// TriggeredBy returns the stream with another trigger, of which each window gets its own.
func (s *WindowedStream[K, T]) TriggeredBy(trigger func() Trigger) *WindowedStream[K, T] {
	return &WindowedStream[K, T]{keyed: s.keyed, assigner: s.assigner, trigger: trigger}
}

// WindowResult is what a window of a key has come to. Its event time is the last
// millisecond of the window, its key the current one.
type WindowResult[K comparable, R any] struct {
	Key    K
	Window Window
	Value  R
}

// Bucket is what a checkpoint has of a window of a key. Contents is the result that it
// would give now, or its records ([]T) where they are kept: by [Apply], and
// by windows that merge.
type Bucket struct {
	Key any `json:"key"`
	Window
	LastTimestamp int64 `json:"lastTimestamp"`
	Contents      any   `json:"contents"`
}

// Apply gives the results of a function of all records of a window. The function gets a
// slice of its own.
func Apply[K comparable, T, R any](
	s *WindowedStream[K, T], f func(ctx context.Context, key K, w Window, records []T) (R, error),
) *Stream[WindowResult[K, R]] {
	return results(s, func() contents[K, T, R] { return &collected[K, T, R]{apply: f} })
}

// Aggregate gives what an aggregator makes of each window. Windows that merge keep their
// records and aggregate them for each result; others keep an accumulator only.
func Aggregate[K comparable, T, A, R any](s *WindowedStream[K, T], by Aggregator[T, A, R]) *Stream[WindowResult[K, R]] {
	if s.assigner.merging {
		return Apply(s, func(_ context.Context, _ K, _ Window, records []T) (R, error) {
			acc := by.New()
			for _, record := range records {
				acc = by.Add(acc, record)
			}
			return by.Result(acc), nil
		})
	}
	return results(s, func() contents[K, T, R] { return &accumulated[K, T, A, R]{by: by, acc: by.New()} })
}

// Reduce gives what is left of each window when two records are made one again and again,
// in the order in which they came. Where sessions merge, the records of the older one come
// first.
func Reduce[K comparable, T any](s *WindowedStream[K, T], f func(a, b T) T) *Stream[WindowResult[K, T]] {
	type reduced struct {
		value T
		some  bool
	}
	return Aggregate(s, Aggregator[T, reduced, T]{
		New: func() reduced { return reduced{} },
		Add: func(acc reduced, record T) reduced {
			if acc.some {
				record = f(acc.value, record)
			}
			return reduced{record, true}
		},
		Result: func(acc reduced) T { return acc.value },
	})
}

// Count gives the number of records of each window.
func Count[K comparable, T any](s *WindowedStream[K, T]) *Stream[WindowResult[K, int]] {
	return Sum(s, func(T) int { return 1 })
}

// Sum adds up a number of each record of a window; of strings, it is their concatenation.
func Sum[K comparable, T any, N cmp.Ordered](s *WindowedStream[K, T], number func(record T) N) *Stream[WindowResult[K, N]] {
	return Aggregate(s, Aggregator[T, N, N]{
		New:    func() (zero N) { return zero },
		Add:    func(acc N, record T) N { return acc + number(record) },
		Result: func(acc N) N { return acc },
	})
}

func results[K comparable, T, R any](s *WindowedStream[K, T], empty func() contents[K, T, R]) *Stream[WindowResult[K, R]] {
	return &Stream[WindowResult[K, R]]{coordinator: s.keyed.coordinator, attach: func(ctx context.Context, r *run, down operator[WindowResult[K, R]]) error {
		b := newBuckets(s, empty, down)
		if err := r.register(ctx, "window", b.source()); err != nil {
			return err
		}
		return s.keyed.attach(ctx, r, operator[T]{record: b.record, watermark: b.watermark, end: b.end})
	}}
}
