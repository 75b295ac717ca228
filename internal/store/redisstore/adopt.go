package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/redisson"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

var (
	adoptScript    = newScript("adopt", endPreludes)
	takeOverScript = newScript("take_over", endPreludes)
)

// AdoptCall adopts the checkpoints of the seed library, redis-streaming, that lie under the key
// prefix, into the default job.
type AdoptCall struct {
	// TimeoutMs is how long after its trigger an incomplete one may still complete; ≤ 0 is for ever.
	TimeoutMs int64
	// TakeOver puts each adopted record in the place of the library's own.
	TakeOver bool
	// Report is told of each key that may be a checkpoint, highest id first.
	Report func(Adoption)
}

// Outcome is what became of a key.
type Outcome string

// The outcomes.
const (
	// Adopted is a checkpoint that is there from now on.
	Adopted Outcome = "adopted"
	// AdoptedBefore was there already.
	AdoptedBefore Outcome = "adopted_before"
	// LeftPending is incomplete and may still complete: adopt once more when it has.
	LeftPending Outcome = "left_pending"
	// NotAdopted cannot be read, or not any more; the code says why.
	NotAdopted Outcome = "not_adopted"
)

// Codes of [Adoption] beside those of package redisson.
const (
	// CodeChanged is a record that is not the one any more that was read.
	CodeChanged = "changed"
	// CodeIDTooHigh is an id so high that too few would be left above it.
	CodeIDTooHigh = "id_too_high"
	// CodeOccupied is a record under the id of a checkpoint that this server had made.
	CodeOccupied = "occupied"
)

// Adoption is what adoption did about one key.
type Adoption struct {
	ID      int64
	Outcome Outcome
	// Code and Detail say why something was not adopted.
	Code, Detail string
	// Status, Version, Entries and Bytes are those of one that was just adopted.
	Status         coordinator.Status
	Version        int
	Entries, Bytes int64
	// TakenOver tells that the library's own record is gone.
	TakenOver bool
}

// adoptedText is the description of what is adopted, which tells where a pinned checkpoint comes from.
const adoptedText = "Adopted from redis-streaming."

// adoptStep is how many keys are looked at in one round trip.
const adoptStep = 500

// Adopt looks once through all keys, and makes checkpoints of those that the seed library wrote as
// JSON: pinned ones, of which the shared state is the library's state. What the library wrote stays
// as it is unless the call takes over. New ids lie above everything that the library gave.
//
// The highest id comes first, so that no id is given below and the latest is the right one from the
// first step on. Each is one atomic step, and adopting again finds nothing to do, so an error in
// between costs nothing but the rest.
func (s *Store) Adopt(ctx context.Context, call AdoptCall) error {
	if s.client.cluster != nil {
		return errAdoptOnCluster
	}
	ids, err := s.foreignIDs(ctx)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ids, adoptStep) {
		found, err := s.glanceAtForeign(ctx, some)
		if err != nil {
			return err
		}
		for _, key := range found {
			adoption, err := s.adopt(ctx, call, key)
			if err != nil {
				return fmt.Errorf("adopting checkpoint %d: %w", key.id, err)
			}
			call.Report(adoption)
		}
	}
	return nil
}

// errAdoptOnCluster is that the records of others carry no hash tag, so no script may touch them and ours together.
var errAdoptOnCluster = errors.New("on a cluster nothing can be adopted in place; adopt on one server, export there and import here")

// foreignIDs scans for keys whose names are those of checkpoints, and gives their ids, highest first.
func (s *Store) foreignIDs(ctx context.Context) ([]int64, error) {
	base := s.keys(coordinator.DefaultJob).base
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(base) + "[0-9]*"
	var ids []int64
	for cursor := uint64(0); ; {
		var names []string
		err := s.fetchFrom(ctx, "scan for checkpoints of others", base, func(ctx context.Context, node *redis.Client) error {
			var err error
			names, cursor, err = node.Scan(ctx, cursor, pattern, 1000).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			digits := strings.TrimPrefix(name, base)
			// What is written in another way, such as 007, is not the name of a checkpoint.
			if id, err := strconv.ParseInt(digits, 10, 64); err == nil && decimal(id) == digits {
				ids = append(ids, id)
			}
		}
		if cursor == 0 {
			break
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	slices.Reverse(ids)
	return ids, nil
}

// foreignKey is a string under the name of a checkpoint.
type foreignKey struct {
	id, length int64
	// source is the length of what was adopted before, "" if nothing was.
	source string
}

// glanceAtForeign leaves out what is no string: our own records above all.
func (s *Store) glanceAtForeign(ctx context.Context, ids []int64) ([]foreignKey, error) {
	keys := s.keys(coordinator.DefaultJob)
	var found []foreignKey
	err := s.fetchFrom(ctx, "look at checkpoints of others", keys.job(), func(ctx context.Context, node *redis.Client) error {
		lengths, sources := make([]*redis.IntCmd, len(ids)), make([]*redis.StringCmd, len(ids))
		_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, id := range ids {
				lengths[i], sources[i] = pipe.StrLen(ctx, keys.record(id)), pipe.HGet(ctx, keys.adopted(id), "source")
			}
			return nil
		})
		if concernsAll(err) {
			return err
		}
		found = found[:0]
		for i, id := range ids {
			if err := lengths[i].Err(); concernsAll(err) {
				return err
			} else if err == nil && lengths[i].Val() > 0 {
				found = append(found, foreignKey{id: id, length: lengths[i].Val(), source: sources[i].Val()})
			}
		}
		return nil
	})
	return found, err
}

// adopt does what there is to do about one key.
func (s *Store) adopt(ctx context.Context, call AdoptCall, key foreignKey) (Adoption, error) {
	adoption, err := Adoption{ID: key.id, Outcome: AdoptedBefore}, error(nil)
	if key.id >= coordinator.MaxTakenCounter {
		adoption.notAdopted(CodeIDTooHigh, fmt.Sprintf("ids go on above the adopted ones, so those from %d on are not taken", coordinator.MaxTakenCounter))
		return adoption, nil
	}
	switch key.source {
	case decimal(key.length):
	case "":
		adoption, err = s.adoptNew(ctx, call, key)
	default:
		adoption.notAdopted(CodeChanged, "the library has written it again since it was adopted; what was adopted stays")
	}
	if err == nil && call.TakeOver && (adoption.Outcome == Adopted || adoption.Outcome == AdoptedBefore) {
		var r reply
		r, err = s.run(ctx, takeOverScript, repeatable, coordinator.DefaultJob, decimal(key.id))
		adoption.TakenOver = r.word == wordOK
	}
	return adoption, err
}

func (a *Adoption) notAdopted(code, detail string) {
	a.Outcome, a.Code, a.Detail = NotAdopted, code, detail
}

// adoptNew reads a value and makes a checkpoint of it. An id that the library has given is passed
// over in any case.
func (s *Store) adoptNew(ctx context.Context, call AdoptCall, key foreignKey) (Adoption, error) {
	adoption := Adoption{ID: key.id}
	record, err := s.readForeign(ctx, key.id)
	if unreadable, is := errors.AsType[*redisson.UnreadableError](err); is {
		adoption.notAdopted(string(unreadable.Code), unreadable.Detail)
		if !unreadable.Checkpoint {
			return adoption, nil
		}
		_, err = s.runAdopt(ctx, key, "", record, 0, nil)
		return adoption, err
	}
	if err != nil {
		return adoption, err
	}
	if !record.Completed {
		record.State = nil // as of any other that has expired
	}
	var entries []any
	for _, entry := range record.State {
		adoption.Entries++
		adoption.Bytes += int64(snapshot.EntrySize(snapshot.Shared, entry.Key, entry.Value))
		entries = append(entries, entry.Key, entry.Value)
	}
	r, err := s.runAdopt(ctx, key, flag(record.Completed), record, max(0, call.TimeoutMs), append([]any{adoption.Bytes, adoptedText}, entries...))
	if err != nil {
		return adoption, err
	}
	switch r.word {
	case wordOK:
		adoption.Outcome, adoption.Version, adoption.Status = Adopted, record.Version, coordinator.StatusExpired
		if record.Completed {
			adoption.Status = coordinator.StatusCompleted
		}
	case wordAlready: // by another server, since the glance
		adoption = Adoption{ID: key.id, Outcome: AdoptedBefore}
	case wordPending:
		adoption.Outcome = LeftPending
	case wordChanged:
		adoption.notAdopted(CodeChanged, "the library has written it while it was read; adopt again when nothing writes any more")
	case wordOccupied:
		adoption.notAdopted(CodeOccupied, "the library has written it over a checkpoint of this server, parts of which are still there")
	default:
		err = badReply(adoptScript.verb, r, errWord)
	}
	return adoption, err
}

// Words of adopt.lua.
const (
	wordAlready  = "already"
	wordPending  = "pending"
	wordChanged  = "changed"
	wordOccupied = "occupied"
)

// adoptTries is how often a step is sent whose reply does not come: nobody waits for it, and it
// knows what it has done.
const adoptTries = 10

func (s *Store) runAdopt(ctx context.Context, key foreignKey, completed string, record redisson.Record, timeoutMs int64, rest []any) (reply, error) {
	args := append([]any{decimal(key.id), key.length, completed, record.Version, decimal(record.Timestamp), timeoutMs}, rest...)
	r, err := s.run(ctx, adoptScript, repeatable, coordinator.DefaultJob, args...)
	for tries := 1; tries < adoptTries && coordinator.CodeOf(err) == coordinator.CodeOutcomeUnknown; tries++ {
		if r, err = s.run(ctx, adoptScript, repeatable, coordinator.DefaultJob, args...); r.word == wordAlready {
			r.word = wordOK // it was this very call
		}
	}
	return r, err
}

// readForeign gets and reads a value. One that has just gone reads as no checkpoint.
func (s *Store) readForeign(ctx context.Context, id int64) (redisson.Record, error) {
	var raw []byte
	key := s.keys(coordinator.DefaultJob).record(id)
	err := s.fetchFrom(ctx, "read a checkpoint of others", key, func(ctx context.Context, node *redis.Client) error {
		var err error
		raw, err = node.GetRange(ctx, key, 0, redisson.MaxBytes).Bytes()
		return err
	})
	if err != nil {
		return redisson.Record{}, err
	}
	return redisson.Parse(id, raw)
}
