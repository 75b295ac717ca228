package engine

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"time"
)

// Timer is a moment at which something is to be done for a key.
type Timer[K comparable] struct {
	Key K
	// At is in milliseconds: of event time, or of Unix time.
	At int64
	// EventTime tells whether the timer waits for the watermark, or for the clock.
	EventTime bool
}

// timers are those of one stage in one consumption. They are guarded by the fence.
type timers[K comparable] struct {
	event, processing queue[K]
	registered        map[Timer[K]]struct{}
	count             int
	fire              func(ctx context.Context, t Timer[K]) error
}

func newTimers[K comparable](fire func(ctx context.Context, t Timer[K]) error) *timers[K] {
	return &timers[K]{registered: map[Timer[K]]struct{}{}, fire: fire}
}

// register adds a timer, unless the same one waits already.
func (t *timers[K]) register(timer Timer[K]) {
	if _, ok := t.registered[timer]; ok {
		return
	}
	t.registered[timer] = struct{}{}
	t.count++
	heap.Push(t.queue(timer.EventTime), queued[K]{timer, t.count})
}

func (t *timers[K]) queue(eventTime bool) *queue[K] {
	if eventTime {
		return &t.event
	}
	return &t.processing
}

// advance fires the timers of a queue up to a moment, those that are registered meanwhile
// as well.
func (t *timers[K]) advance(ctx context.Context, q *queue[K], to int64) error {
	for len(*q) > 0 && (*q)[0].timer.At <= to {
		next, _ := heap.Pop(q).(queued[K])
		timer := next.timer
		delete(t.registered, timer)
		if err := t.fire(withTimestamp(WithKey(ctx, timer.Key), timer.At), timer); err != nil {
			return fmt.Errorf("timer of %v at %d: %w", timer.Key, timer.At, err)
		}
		// Timers that register one another for ever can be stopped.
		if to == math.MaxInt64 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// drain fires all timers: those of processing time, then those of event time, until
// there are none of either.
func (t *timers[K]) drain(ctx context.Context) error {
	for len(t.processing)+len(t.event) > 0 {
		for _, q := range []*queue[K]{&t.processing, &t.event} {
			if err := t.advance(ctx, q, math.MaxInt64); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *timers[K]) due() time.Time {
	if len(t.processing) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(t.processing[0].timer.At)
}

func (t *timers[K]) tick(ctx context.Context, now time.Time) error {
	return t.advance(ctx, &t.processing, now.UnixMilli())
}

// queue is a heap of timers, by moment and then by registration.
type queue[K comparable] []queued[K]

type queued[K comparable] struct {
	timer Timer[K]
	count int
}

func (q queue[K]) Len() int { return len(q) }

func (q queue[K]) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].timer.At, q[j].timer.At), cmp.Compare(q[i].count, q[j].count)) < 0
}

func (q queue[K]) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue[K]) Push(x any) {
	timer, _ := x.(queued[K])
	*q = append(*q, timer)
}

func (q *queue[K]) Pop() any {
	last := len(*q) - 1
	timer := (*q)[last]
	(*q)[last] = queued[K]{}
	*q = (*q)[:last]
	return timer
}
