package engine

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Fence is a lock that its holder can enter again: holding it travels in the context.
//
// Go's mutexes know no owner, so a function that holds one cannot call another that takes
// it. [Fence.Do] therefore hands its body a context that carries the hold; whatever is
// called with that context, however deep, enters at once. Three rules follow:
//
//   - Inside a body use the context that the body got, never one from outside it. The
//     outer one does not carry the hold, and would wait for its own caller.
//   - A hold ends when Do returns. A context that outlives its body is like any other:
//     whoever uses it waits for the fence.
//   - Goroutines started by a body may share its context. They take turns, and Do waits
//     for the one whose turn it is.
//
// Those who wait are served in the order in which they came, so that a checkpoint is not
// starved by a busy stream.
type Fence struct{ root hold }

// hold is a stay inside a fence, and the context that carries it: there is one for each
// record, so it is made of one piece. The root stands for being outside of the fence.
type hold struct {
	context.Context //nolint:containedctx // it is a context

	fence *Fence
	turn  turn
	outer *hold
	// over is set when the body has returned, by the one whose turn it is.
	over atomic.Bool
}

// NewFence returns a fence that nobody holds.
func NewFence() *Fence { return new(Fence) }

// Do runs body inside the fence and returns what it returns. It waits for the fence
// unless ctx carries it already, and gives up with the cause of ctx when that is done
// first; body has not run then. Inside the fence a done context no longer matters, or a
// cancelled record could write its first store and not its second.
func (f *Fence) Do(ctx context.Context, body func(ctx context.Context) error) error {
	outer, err := f.enter(ctx)
	if err != nil {
		return err
	}
	return f.within(ctx, outer, body)
}

// within runs body in a hold of its own, and leaves the one that was entered for it.
func (f *Fence) within(ctx context.Context, outer *hold, body func(ctx context.Context) error) error {
	inner := &hold{Context: ctx, fence: f, outer: outer}
	defer func() {
		// A goroutine of the body may be inside still; nobody comes in after it.
		_ = inner.turn.take(context.Background()) // which is never done
		inner.over.Store(true)
		inner.leave()
		outer.leave()
	}()
	return body(inner)
}

// Value finds the hold of a fence by the fence itself.
func (h *hold) Value(key any) any {
	if f, ok := key.(*Fence); ok && f == h.fence {
		return h
	}
	return h.Context.Value(key)
}

// Held tells whether ctx carries this fence, still held.
func (f *Fence) Held(ctx context.Context) bool {
	for h := f.carried(ctx); h.outer != nil; h = h.outer {
		if !h.over.Load() {
			return true
		}
	}
	return false
}

// carried is the innermost hold that ctx knows of, over or not.
func (f *Fence) carried(ctx context.Context) *hold {
	if h, ok := ctx.Value(f).(*hold); ok {
		return h
	}
	return &f.root
}

// enter waits for a turn in the innermost hold that is not over yet. What is done before
// leave must not enter again: it has no context of its own.
func (f *Fence) enter(ctx context.Context) (*hold, error) {
	for h := f.carried(ctx); ; h = h.outer {
		if h.outer == nil && ctx.Err() != nil {
			return nil, fmt.Errorf("wait for the fence: %w", context.Cause(ctx))
		}
		if err := h.turn.take(ctx); err != nil {
			return nil, fmt.Errorf("wait for the fence: %w", err)
		}
		if !h.over.Load() {
			return h, nil
		}
		h.leave()
	}
}

// leave gives the turn to the next one.
func (h *hold) leave() { h.turn.leave() }
