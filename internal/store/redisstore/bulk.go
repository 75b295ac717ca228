package redisstore

import (
	"context"
	"fmt"
)

// bulkCalls is how many calls that carry a chunk, or as much, are on their way to Redis at a
// time: one that it works on and one that waits. Whatever else comes waits behind them, some
// milliseconds for each; more of them make nothing faster, since Redis does one at a time.
const bulkCalls = 2

// bulk waits for one of those calls, and gives it back with done. The time of the call begins
// afterwards.
func (s *Store) bulk(ctx context.Context) (done func(), err error) {
	select {
	case s.bulks <- struct{}{}:
		return func() { <-s.bulks }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other chunks: %w", context.Cause(ctx))
	}
}
