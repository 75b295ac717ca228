package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff gives pauses that double up to a maximum, each shortened by up to a half at
// random: a fleet must not come back at one moment.
type backoff struct{ min, max, last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.min), b.max)
	return b.last/2 + rand.N(b.last/2+1) //nolint:gosec // Not a secret.
}

func (b *backoff) reset() { b.last = 0 }

// pause waits; it gives the cause when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
