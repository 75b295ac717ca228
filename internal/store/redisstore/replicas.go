package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Where replicas have to have a change before it is answered, its script is followed by WAIT in the
// same pipeline, so on the same connection to the server that ran it. WAIT is about what
// that connection wrote; since Redis 7.2 a script that finds its work done, as a repeat does, leaves it
// nothing to wait for. So there is a write between the two: what comes before it in the log of the
// server, whoever wrote it, is with the replicas when it is.

// pulse is that write. It begins with UNLINK, which lets it through at maxmemory.
const pulse = "redis.call('UNLINK', KEYS[1]) redis.call('SET', KEYS[2], '') return 1"

// unconfirmed is that a command ran and too few replicas have it, as far as is known.
type unconfirmed struct {
	got, want int64
	cause     error // why nobody knows, nil when the server said so
}

// Error says how many replicas there are.
func (e unconfirmed) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("the change was made, and whether %d replicas have it was not answered: %v", e.want, e.cause)
	}
	return fmt.Sprintf("the change was made, and %d replicas have it in place of %d", e.got, e.want)
}

// deliver sends the script of a job, and where replicas have to have what it did waits for them in the same round trip.
func (s *Store) deliver(ctx context.Context, node *redis.Client, cmd *redis.Cmd, job string, confirm bool) error {
	if !confirm || s.minReplicas == 0 {
		return node.Process(ctx, cmd)
	}
	pipe := node.Pipeline()
	_ = pipe.Process(ctx, cmd) // it fails when it is sent, if at all
	confirmed := s.await(ctx, pipe, job)
	_, _ = pipe.Exec(ctx) // each command has its own error
	return earlier(cmd.Err(), confirmed())
}

// await adds the wait to a pipeline of scripts, of which job is the hash of one. What it gives tells, once the pipeline was sent, whether
// enough replicas have what they did.
func (s *Store) await(ctx context.Context, pipe redis.Pipeliner, job string) (confirmed func() error) {
	base := keyspace{base: strings.TrimSuffix(job, keyspace{}.job())}
	patience := callBudget / 2
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	beat := pipe.Eval(ctx, pulse, []string{base.void(), base.pulse()})
	// It gives up long before its caller, who wants to have its answer. 0 would wait for ever.
	wait := pipe.Do(ctx, "wait", s.minReplicas, max(1, (patience/2).Milliseconds()))
	return func() error {
		got, err := wait.Int64()
		if err = earlier(beat.Err(), err); err != nil || got < int64(s.minReplicas) {
			return unconfirmed{got: got, want: int64(s.minReplicas), cause: err}
		}
		return nil
	}
}

// earlier is the first of two errors that there is.
func earlier(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// isUnconfirmed tells of a command that ran and that too few replicas have.
func isUnconfirmed(err error) bool {
	_, is := errors.AsType[unconfirmed](err)
	return is
}
