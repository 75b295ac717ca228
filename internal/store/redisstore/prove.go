package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var proveScript = newScript("prove", nil)

// proven sends a pipeline whose first command asks whether the server takes changes, and fails unless it does. What the others find missing is
// missing then: a replica may just not have it yet, and "none" is an answer that only a server gives which would also be told of
// the first. It gives the server's run_id, "" where INFO is forbidden. key is one of the server's, ask adds the commands.
func proven(ctx context.Context, node *redis.Client, key string, ask func(redis.Pipeliner)) (run string, err error) {
	for _, again := range []bool{true, false} {
		pipe := node.Pipeline()
		proof := pipe.EvalSha(ctx, proveScript.text.Hash(), []string{key}, "")
		if ask != nil {
			ask(pipe)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		if err = proof.Err(); again && redis.HasErrorPrefix(err, "NOSCRIPT") {
			// With its text, so that nobody has to be allowed to load scripts.
			if err = proveScript.text.Eval(ctx, node, []string{key}, "").Err(); err == nil {
				continue
			}
		}
		if err != nil {
			return "", err
		}
		r, err := parseReply(proveScript.verb, "", proof.Val())
		if err != nil {
			return "", err
		}
		body := cursor{values: r.body}
		run = body.text()
		return run, body.err
	}
	return "", err
}

// sure holds what a restore found missing against the server that it was missing at: all that was read since the era began was read from the one
// that takes changes, or it could not be looked at. era is that of the links before the first read.
func (s *Store) sure(ctx context.Context, job string, era int64, missing error) error {
	switch coordinator.CodeOf(missing) {
	case coordinator.CodeSnapshotDamaged, coordinator.CodeTaskNotInCheckpoint, coordinator.CodeCheckpointNotFound, coordinator.CodeCheckpointDeleted:
	default:
		return missing
	}
	key := s.keys(job).job()
	var run string
	err := s.fetchFrom(ctx, "prove damage", key, func(ctx context.Context, node *redis.Client) (err error) {
		run, err = proven(ctx, node, key, nil)
		return err
	})
	if err != nil {
		return err
	}
	if s.client.links != nil && !s.client.links.leadsTo(era, run) {
		return coordinator.ErrStoreUnavailable(&coordinator.Cause{
			Says: "The address of Redis leads to another server than a moment ago", Err: fmt.Errorf("not taken for missing: %v", missing), //nolint:errorlint // It is none.
		})
	}
	return missing
}

// era is that of the links now; see [Store.sure].
func (s *Store) era() int64 { return replies{s.client.links}.now() }
