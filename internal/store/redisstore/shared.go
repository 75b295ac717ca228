package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

var (
	writeSharedScript = newScript("write_shared", importPreludes)
	sharedStateScript = newScript("shared_state", findPreludes)
	sharedEntryScript = newScript("shared_entry", findPreludes)
)

// WriteShared changes the shared state of a pending checkpoint in one step. A lost reply
// is outcome_unknown: under a condition the second run would be refused by the first. An import's has none.
func (s *Store) WriteShared(ctx context.Context, call coordinator.SharedWrite) (coordinator.SharedWritten, error) {
	again := once
	if call.Import != "" {
		again = repeatable
	}
	r, err := s.run(ctx, writeSharedScript, again, call.Job, sharedArgs(call)...)
	if err != nil {
		return coordinator.SharedWritten{}, err
	}
	if r.word != wordOK {
		return coordinator.SharedWritten{}, sharedRefusal(writeSharedScript.verb, call.Job, call.ID, r)
	}
	if call.Import != "" {
		return coordinator.SharedWritten{}, nil
	}
	checkpoint, err := s.checkpoint(writeSharedScript.verb, call.Job, r)
	if err != nil {
		return coordinator.SharedWritten{}, err
	}
	body := cursor{values: r.body[1:]}
	made, tag := body.text(), body.text()
	if body.err != nil {
		return coordinator.SharedWritten{}, badReply(writeSharedScript.verb, r, body.err)
	}
	if tag == "" {
		tag = checkpoint.SharedTag()
	}
	return coordinator.SharedWritten{Checkpoint: checkpoint, Created: call.Single && made == "1", Tag: tag}, nil
}

func sharedArgs(call coordinator.SharedWrite) []any {
	op := map[coordinator.SharedOp]string{
		coordinator.SharedPut: "put", coordinator.SharedDelete: "delete", coordinator.SharedClear: "clear",
	}[call.Op]
	args := make([]any, 0, 8+len(call.If.IfMatch)+3*len(call.Entries))
	args = append(args, decimal(call.ID), op, flag(call.Single), flag(call.If.IfNoneMatch),
		coordinator.MaxSharedKeys, coordinator.MaxSharedBytes, call.Import, len(call.If.IfMatch))
	for _, tag := range call.If.IfMatch {
		args = append(args, tag)
	}
	if call.Op == coordinator.SharedClear {
		return args
	}
	for _, entry := range call.Entries {
		frame := snapshot.EntrySize(snapshot.Shared, entry.Key, nil)
		args = append(args, entry.Key, frame, entry.Value)
	}
	return args
}

// sharedRefusal reads the refusals of the scripts about shared state.
func sharedRefusal(verb, job string, id int64, r reply) error {
	body := cursor{values: r.body}
	var err error
	switch coordinator.Code(r.word) {
	case coordinator.CodeKeyNotFound:
		err = coordinator.ErrKeyNotFound(body.number(), body.text())
	case coordinator.CodeLimitExceeded:
		err = coordinator.ErrLimitExceeded("sharedKeys", coordinator.MaxSharedKeys,
			fmt.Sprintf("The shared state would have %d keys", body.number()))
	case coordinator.CodeTooLarge:
		err = coordinator.ErrTooLarge("sharedBytes", coordinator.MaxSharedBytes,
			fmt.Sprintf("The shared state would have %d restore bytes", body.number()))
	default:
		return refusal(verb, job, id, r)
	}
	if body.err != nil {
		return badReply(verb, r, body.err)
	}
	return err
}

// A shared state of up to so many keys and restore bytes is read by one script; a
// larger one is read beside it.
const (
	sharedInScriptKeys  = 1000
	sharedInScriptBytes = 1 << 20
)

// SharedState reads the whole shared state at one moment. A large one takes two steps,
// and begins anew when it was written to between them.
func (s *Store) SharedState(ctx context.Context, ref coordinator.Ref) (coordinator.SharedState, error) {
	for {
		state, whole, err := s.sharedInScript(ctx, ref)
		if err != nil {
			return coordinator.SharedState{}, err
		}
		if !whole {
			state.Entries, whole, err = s.sharedAtRevision(ctx, state.Checkpoint)
		}
		if err != nil || whole {
			sortEntries(state.Entries)
			return state, err
		}
	}
}

// sharedInScript reads the checkpoint and, unless it is large, its shared state.
func (s *Store) sharedInScript(ctx context.Context, ref coordinator.Ref) (state coordinator.SharedState, whole bool, err error) {
	r, err := s.run(ctx, sharedStateScript, reads, ref.Job, refText(ref), sharedInScriptKeys, sharedInScriptBytes)
	if err != nil {
		return state, false, err
	}
	if r.word != wordOK {
		return state, false, sharedRefusal(sharedStateScript.verb, ref.Job, ref.ID, r)
	}
	if state.Checkpoint, err = s.checkpoint(sharedStateScript.verb, ref.Job, r); err != nil {
		return state, false, err
	}
	body := cursor{values: r.body[1:]}
	whole = body.text() == "1"
	rows := cursor{values: body.list(), err: body.err}
	state.Entries = make([]coordinator.SharedEntry, 0, len(rows.values)/2)
	for rows.more() {
		state.Entries = append(state.Entries, coordinator.SharedEntry{Key: rows.text(), Value: []byte(rows.text())})
	}
	if rows.err != nil {
		return state, false, badReply(sharedStateScript.verb, r, rows.err)
	}
	return state, whole, nil
}

// sharedAtRevision reads the shared state without a script, and tells whether it is
// still the one that the checkpoint was read with: the transaction shows revision and
// status of the same moment.
func (s *Store) sharedAtRevision(ctx context.Context, checkpoint coordinator.Checkpoint) (entries []coordinator.SharedEntry, same bool, err error) {
	keys := s.keys(checkpoint.Job)
	var record, adopted *redis.SliceCmd
	var stored *redis.MapStringStringCmd
	err = s.fetchFrom(ctx, "read the shared state", keys.job(), func(ctx context.Context, node *redis.Client) error {
		_, err := node.TxPipelined(ctx, func(p redis.Pipeliner) error {
			record = p.HMGet(ctx, keys.record(checkpoint.ID), "srev", "status")
			adopted = p.HMGet(ctx, keys.adopted(checkpoint.ID), "srev", "status")
			stored = p.HGetAll(ctx, keys.state(checkpoint.ID))
			return nil
		})
		if redis.HasErrorPrefix(record.Err(), "WRONGTYPE") { // the name belongs to another program
			return cmp.Or(adopted.Err(), stored.Err())
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	about := adopted.Val()
	if about[1] == nil { // not adopted
		about = record.Val()
	}
	if len(about) == 0 {
		return nil, false, nil
	}
	revision, status := about[0], about[1]
	if revision != decimal(checkpoint.SharedRevision) ||
		status == string(coordinator.StatusExpired) || status == string(coordinator.StatusAborted) {
		return nil, false, nil
	}
	entries = make([]coordinator.SharedEntry, 0, len(stored.Val()))
	for key, value := range stored.Val() {
		entries = append(entries, coordinator.SharedEntry{Key: key, Value: []byte(value)})
	}
	return entries, true, nil
}

// sortEntries puts entries into the order of a restore: by the bytes of their keys.
func sortEntries(entries []coordinator.SharedEntry) {
	slices.SortFunc(entries, func(a, b coordinator.SharedEntry) int { return cmp.Compare(a.Key, b.Key) })
}

// SharedEntry reads one entry of the shared state.
func (s *Store) SharedEntry(ctx context.Context, ref coordinator.Ref, key string) (coordinator.SharedValue, error) {
	r, err := s.run(ctx, sharedEntryScript, reads, ref.Job, refText(ref), key)
	if err != nil {
		return coordinator.SharedValue{}, err
	}
	if r.word != wordOK {
		return coordinator.SharedValue{}, sharedRefusal(sharedEntryScript.verb, ref.Job, ref.ID, r)
	}
	checkpoint, err := s.checkpoint(sharedEntryScript.verb, ref.Job, r)
	if err != nil {
		return coordinator.SharedValue{}, err
	}
	body := cursor{values: r.body[1:]}
	value := coordinator.SharedValue{Checkpoint: checkpoint, Value: []byte(body.text()), Tag: body.text()}
	if body.err != nil {
		return coordinator.SharedValue{}, badReply(sharedEntryScript.verb, r, body.err)
	}
	return value, nil
}
