package engine

import (
	"context"
	"slices"
)

// contents is what a window keeps of its records.
type contents[K comparable, T, R any] interface {
	add(record T)
	result(ctx context.Context, key K, w Window) (R, error)
	// payload is what a checkpoint gets; it does not change afterwards.
	payload() any
	// merge takes the records of another window, which is forgotten.
	merge(other contents[K, T, R])
}

// Aggregator folds the records of a window into one value.
type Aggregator[T, A, R any] struct {
	// New returns the accumulator of a window without records.
	New func() A
	// Add returns an accumulator with a record more; it may change the one it gets.
	Add func(acc A, record T) A
	// Result returns the result so far. It is called for checkpoints too, inside the fence,
	// and must share nothing with the accumulator that Add changes.
	Result func(acc A) R
}

// accumulated keeps an accumulator only.
type accumulated[K comparable, T, A, R any] struct {
	by  Aggregator[T, A, R]
	acc A
}

func (c *accumulated[K, T, A, R]) add(record T) { c.acc = c.by.Add(c.acc, record) }

func (c *accumulated[K, T, A, R]) result(context.Context, K, Window) (R, error) {
	return c.by.Result(c.acc), nil
}

func (c *accumulated[K, T, A, R]) payload() any { return c.by.Result(c.acc) }

// merge is never called: windows that merge keep their records.
func (c *accumulated[K, T, A, R]) merge(contents[K, T, R]) {}

// collected keeps the records.
type collected[K comparable, T, R any] struct {
	apply   func(ctx context.Context, key K, w Window, records []T) (R, error)
	records []T
}

func (c *collected[K, T, R]) add(record T) { c.records = append(c.records, record) }

func (c *collected[K, T, R]) result(ctx context.Context, key K, w Window) (R, error) {
	return c.apply(ctx, key, w, slices.Clone(c.records))
}

// payload shares the records with the window, which only appends to them: a checkpoint does
// not wait for a copy.
func (c *collected[K, T, R]) payload() any { return slices.Clip(c.records) }

func (c *collected[K, T, R]) merge(other contents[K, T, R]) {
	if o, ok := other.(*collected[K, T, R]); ok {
		c.records = append(c.records, o.records...)
	}
}
