package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// fetchPatience is how long one attempt of a plain read may take. It is longer than a
// script's: a reply of some megabytes from a distant Redis needs its time.
const fetchPatience = 5 * time.Second

// errNotAsRecorded is what a fetch answers when a value is missing, or is not what the
// record says. Asking again would not help.
var errNotAsRecorded = errors.New("a value is missing or not as recorded")

// fetch runs plain read commands, on values that no longer change, and again when the
// reply was lost. An error of read that is errNotAsRecorded, or wraps it, comes back as it
// is, and so does one that is judged already; redis.Nil becomes it; any other is judged as that of a script.
func (s *Store) fetch(ctx context.Context, what string, read func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		attempt, done := context.WithTimeout(within, fetchPatience/2)
		err := read(attempt)
		done()
		switch {
		case err == nil, errors.Is(err, errNotAsRecorded):
			return err
		case errors.Is(err, redis.Nil):
			return errNotAsRecorded
		}
		if judged, is := errors.AsType[*coordinator.Error](err); is {
			return judged
		}
		if fate, refusal := judge(err, true); fate == decided {
			return refusal
		}
		s.client.suspect(ctx)
		if sleep(within, pause) {
			continue
		}
		s.health.stale.Store(true)
		if errors.Is(ctx.Err(), context.Canceled) {
			return fmt.Errorf("redis %s: %w", what, ctx.Err())
		}
		return unavailable(what, err)
	}
}

// fetchFrom is fetch from the server that has a key.
func (s *Store) fetchFrom(ctx context.Context, what, key string, read func(ctx context.Context, node *redis.Client) error) error {
	return s.fetch(ctx, what, func(ctx context.Context) error {
		node, err := s.client.node(ctx, key)
		if err != nil {
			return err
		}
		return read(ctx, node)
	})
}

// fetchChunk reads a whole chunk of exactly len(p) bytes straight into p, and the end of the
// reply behind it where there is capacity: without, that costs a system call more.
func (s *Store) fetchChunk(ctx context.Context, key string, p []byte) error {
	done, err := s.bulk(ctx)
	if err != nil {
		return err
	}
	defer done()
	room := p[:min(cap(p), len(p)+coordinator.ReadSlack)]
	return s.fetchFrom(ctx, "read a chunk", key, func(ctx context.Context, node *redis.Client) error {
		n, err := node.GetToBuffer(ctx, key, room).Result()
		if err != nil {
			// go-redis has no error value for it.
			if strings.Contains(err.Error(), "buffer too small") {
				return fmt.Errorf("%w: %w", errNotAsRecorded, err)
			}
			return err
		}
		return wholly(n, len(p))
	})
}

// fetchRange reads len(p) bytes of a chunk from start.
func (s *Store) fetchRange(ctx context.Context, key string, p []byte, start int64) error {
	done, err := s.bulk(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.fetchFrom(ctx, "read a chunk", key, func(ctx context.Context, node *redis.Client) error {
		text, err := node.GetRange(ctx, key, start, start+int64(len(p))-1).Result()
		if err != nil {
			return err
		}
		return wholly(copy(p, text), len(p))
	})
}

func wholly(got, want int) error {
	if got != want {
		return fmt.Errorf("%w: %d bytes of a chunk instead of %d", errNotAsRecorded, got, want)
	}
	return nil
}
