package handlers

import (
	"context"
	"sync/atomic"
	"time"
)

// budgets gives the calls of plain acknowledgements the time that the store may take. Those
// that begin at about the same time share a context: a timer for each, which none of them
// waits for, would cost more than decoding it. It does not end with the request, since an
// acknowledgement that was sent counts whether or not its sender still listens.
type budgets struct {
	each    time.Duration
	current atomic.Pointer[budget]
}

type budget struct {
	ctx    context.Context    //nolint:containedctx // It is what the budget is.
	cancel context.CancelFunc // for nobody: it ends by its time
	until  time.Time
}

// sharedFor is how long a budget is handed out, and how much longer it is than it must be.
const sharedFor = 50 * time.Millisecond

func (b *budgets) take() context.Context {
	now := time.Now()
	if shared := b.current.Load(); shared != nil && now.Before(shared.until) {
		return shared.ctx
	}
	fresh := &budget{until: now.Add(sharedFor)}
	fresh.ctx, fresh.cancel = context.WithTimeout(context.Background(), b.each+sharedFor) //nolint:gosec // Its time ends it; those who share it are not known.
	b.current.Store(fresh)
	return fresh.ctx
}
