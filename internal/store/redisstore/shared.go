package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

var (
	writeSharedScript = newScript("write_shared", endPreludes)
	sharedStateScript = newScript("shared_state", findPreludes)
	sharedEntryScript = newScript("shared_entry", findPreludes)
)

// WriteShared changes the shared state of a pending checkpoint in one step. A lost reply
// is outcome_unknown: under a condition the second run would be refused by the first.
func (s *Store) WriteShared(ctx context.Context, call coordinator.SharedWrite) (coordinator.SharedWritten, error) {
	r, err := s.run(ctx, writeSharedScript, once, call.Job, sharedArgs(call)...)
	if err != nil {
		return coordinator.SharedWritten{}, err
	}
	if r.word != wordOK {
		return coordinator.SharedWritten{}, sharedRefusal(writeSharedScript.verb, call.Job, call.ID, r)
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
	args := make([]any, 0, 7+len(call.If.IfMatch)+3*len(call.Entries))
	args = append(args, decimal(call.ID), op, flag(call.Single), flag(call.If.IfNoneMatch),
		coordinator.MaxSharedKeys, coordinator.MaxSharedBytes, len(call.If.IfMatch))
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

// SharedState reads the whole shared state.
func (s *Store) SharedState(ctx context.Context, ref coordinator.Ref) (coordinator.SharedState, error) {
	r, err := s.run(ctx, sharedStateScript, reads, ref.Job, refText(ref))
	if err != nil {
		return coordinator.SharedState{}, err
	}
	if r.word != wordOK {
		return coordinator.SharedState{}, sharedRefusal(sharedStateScript.verb, ref.Job, ref.ID, r)
	}
	checkpoint, err := s.checkpoint(sharedStateScript.verb, ref.Job, r)
	if err != nil {
		return coordinator.SharedState{}, err
	}
	body := cursor{values: r.body[1:]}
	rows := cursor{values: body.list(), err: body.err}
	entries := make([]coordinator.SharedEntry, 0, len(rows.values)/2)
	for rows.more() {
		entries = append(entries, coordinator.SharedEntry{Key: rows.text(), Value: []byte(rows.text())})
	}
	if rows.err != nil {
		return coordinator.SharedState{}, badReply(sharedStateScript.verb, r, rows.err)
	}
	sortEntries(entries)
	return coordinator.SharedState{Checkpoint: checkpoint, Entries: entries}, nil
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
