package engine

import (
	"context"
	"slices"
	"sync"
)

// turn is a lock whose waiting can be given up. It is handed from one to the next in the
// order in which they came, and costs nothing to make: there is one for each record.
type turn struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{}
}

// take waits for the turn. It gives up with the cause of ctx; only who has to wait looks at it.
func (t *turn) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, mine); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // it came at the same time
		t.pass()
	}
	return context.Cause(ctx)
}

// leave gives the turn to the next one.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

func (t *turn) pass() {
	if len(t.waiting) == 0 {
		t.taken = false
		return
	}
	close(t.waiting[0])
	t.waiting = slices.Delete(t.waiting, 0, 1)
}
