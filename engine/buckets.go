package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// buckets are the windows of one window operator in one consumption. They are guarded by
// the fence.
type buckets[K comparable, T, R any] struct {
	assigner Assigner
	trigger  func() Trigger
	empty    func() contents[K, T, R]
	down     operator[WindowResult[K, R]]

	byKey map[K][]*bucket[K, T, R]
	count int
	// firstEnd is not after the end of any bucket that is open.
	firstEnd int64
}

// bucket is a window of a key.
type bucket[K comparable, T, R any] struct {
	key      K
	window   Window
	number   int // in the order of creation
	last     int64
	contents contents[K, T, R]
	trigger  Trigger
	// closed is true from its OnClose until its next record.
	closed bool
}

func newBuckets[K comparable, T, R any](
	s *WindowedStream[K, T], empty func() contents[K, T, R], down operator[WindowResult[K, R]],
) *buckets[K, T, R] {
	return &buckets[K, T, R]{
		assigner: s.assigner, trigger: s.trigger, empty: empty, down: down,
		byKey: map[K][]*bucket[K, T, R]{}, firstEnd: math.MaxInt64,
	}
}

// source ignores what is restored: the records come again.
func (b *buckets[K, T, R]) source() *source {
	return newSource("", valueCodec[[]Bucket]{},
		func(context.Context) ([]Bucket, error) { return b.snapshot(), nil },
		func(context.Context, []Bucket) error { return nil })
}

func (b *buckets[K, T, R]) snapshot() []Bucket {
	all := b.sorted(func(*bucket[K, T, R]) bool { return true })
	list := make([]Bucket, len(all))
	for i, one := range all {
		list[i] = Bucket{Key: one.key, Window: one.window, LastTimestamp: one.last, Contents: one.contents.payload()}
	}
	return list
}

// sorted are those that are wanted, the ones that end first before the others.
func (b *buckets[K, T, R]) sorted(wanted func(one *bucket[K, T, R]) bool) []*bucket[K, T, R] {
	var all []*bucket[K, T, R]
	for _, ofKey := range b.byKey {
		for _, one := range ofKey {
			if wanted(one) {
				all = append(all, one)
			}
		}
	}
	slices.SortFunc(all, func(x, y *bucket[K, T, R]) int {
		return cmp.Or(cmp.Compare(x.window.End, y.window.End), cmp.Compare(x.window.Start, y.window.Start), x.number-y.number)
	})
	return all
}

func (b *buckets[K, T, R]) record(ctx context.Context, record T) error {
	key, err := CurrentKey[K](ctx)
	if err != nil {
		return err
	}
	at, ok := Timestamp(ctx)
	if !ok {
		at = time.Now().UnixMilli()
	}
	for _, w := range b.assigner.assign(at) {
		one := b.open(key, w)
		one.contents.add(record)
		one.last, one.closed = max(one.last, at), false
		b.firstEnd = min(b.firstEnd, one.window.End)
		if err := b.act(ctx, one, one.trigger.OnRecord(at, one.window)); err != nil {
			return err
		}
	}
	return nil
}

// open finds the bucket of a window, or makes one. Where windows merge, the oldest of
// those that overlap takes in the others, and goes on with its trigger. The windows of a
// key do not overlap each other, so only the new one can bring them together.
func (b *buckets[K, T, R]) open(key K, w Window) *bucket[K, T, R] {
	var found *bucket[K, T, R]
	rest := b.byKey[key][:0]
	for _, one := range b.byKey[key] {
		same := one.window == w
		if b.assigner.merging {
			same = one.window.overlaps(w)
		}
		switch {
		case !same:
			rest = append(rest, one)
		case found == nil:
			found = one
			rest = append(rest, one)
			if b.assigner.merging {
				found.window = found.window.cover(w)
			}
		default:
			found.contents.merge(one.contents)
			found.window, found.last = found.window.cover(one.window), max(found.last, one.last)
		}
	}
	clear(b.byKey[key][len(rest):])
	if found == nil {
		b.count++
		found = &bucket[K, T, R]{
			key: key, window: w, number: b.count, last: math.MinInt64, contents: b.empty(), trigger: b.trigger(),
		}
		rest = append(rest, found)
	}
	b.byKey[key] = rest
	return found
}

// act does what a trigger decided. A bucket is purged after its result has been taken.
func (b *buckets[K, T, R]) act(ctx context.Context, one *bucket[K, T, R], decision Decision) error {
	if decision == Continue {
		return nil
	}
	ctx = withTimestamp(WithKey(ctx, one.key), one.window.End-1)
	value, err := one.contents.result(ctx, one.key, one.window)
	if err != nil {
		return err
	}
	if err := b.down.record(ctx, WindowResult[K, R]{Key: one.key, Window: one.window, Value: value}); err != nil {
		return err
	}
	if decision == FireAndPurge {
		b.purge(one)
	}
	return nil
}

func (b *buckets[K, T, R]) purge(one *bucket[K, T, R]) {
	ofKey := slices.DeleteFunc(b.byKey[one.key], func(other *bucket[K, T, R]) bool { return other == one })
	if len(ofKey) == 0 {
		delete(b.byKey, one.key)
	} else {
		b.byKey[one.key] = ofKey
	}
}

// watermark closes what ends up to a moment.
func (b *buckets[K, T, R]) watermark(ctx context.Context, at int64) error {
	if at >= b.firstEnd {
		b.firstEnd = math.MaxInt64
		due := b.sorted(func(one *bucket[K, T, R]) bool {
			if !one.closed && one.window.End > at {
				b.firstEnd = min(b.firstEnd, one.window.End)
			}
			return !one.closed && one.window.End <= at
		})
		for _, one := range due {
			one.closed = true
			if err := b.act(ctx, one, one.trigger.OnClose(one.window)); err != nil {
				return err
			}
		}
	}
	return b.down.watermark(ctx, at)
}

// end closes every bucket. All are fired: none is empty, as the purged ones are gone.
func (b *buckets[K, T, R]) end(ctx context.Context) error {
	for _, one := range b.sorted(func(*bucket[K, T, R]) bool { return true }) {
		one.trigger.OnClose(one.window)
		if err := b.act(ctx, one, FireAndPurge); err != nil {
			return err
		}
	}
	return b.down.end(ctx)
}
