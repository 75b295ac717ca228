package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var importScript = newScript("import", append(slices.Clip(importPreludes), "prelude_repeat"))

// Words of import.lua.
const (
	wordNotEmpty  = "not_empty"
	wordImporting = "importing"
	wordLeftovers = "leftovers"
)

// Import does one step of an import.
func (s *Store) Import(ctx context.Context, call coordinator.ImportCall) error {
	id := call.Checkpoint.ID
	registered := false
	for {
		r, err := s.run(ctx, importScript, repeatable, call.Job, append([]any{string(call.Step)}, importArgs(call, registered)...)...)
		if err != nil {
			return err
		}
		switch r.word {
		case wordOK:
			if registered {
				s.registerMade(ctx, call.Job)
			}
			return nil
		case wordRegister:
			if registered {
				return badReply(importScript.verb, r, errWord)
			}
			if err := s.register(ctx, call.Job); err != nil {
				return err
			}
			registered = true
		case wordLeftovers:
			if err := s.drain(ctx, call.Job); err != nil {
				return err
			}
		case wordNotEmpty:
			return coordinator.ErrJobNotEmpty(call.Job)
		case wordImporting:
			return coordinator.ErrJobImporting(call.Job)
		case wordDamaged:
			return coordinator.ErrSnapshotDamaged(id, "what was imported", errNotAsRecorded)
		default:
			return refusal(importScript.verb, call.Job, id, r)
		}
	}
}

func importArgs(call coordinator.ImportCall, registered bool) []any {
	cp := &call.Checkpoint
	switch call.Step {
	case coordinator.ImportOpen:
		return []any{decimal(call.NextID), decimal(call.Epoch), flag(registered)}
	case coordinator.ImportBegin, coordinator.ImportRenew:
		return []any{decimal(cp.ID), call.Token, decimal(call.LeaseMs)}
	case coordinator.ImportDrop:
		return []any{decimal(cp.ID), call.Token}
	case coordinator.ImportTasks:
		args := []any{decimal(cp.ID), call.Token, importNames(cp)}
		for _, task := range call.Tasks {
			text := ""
			if task.Ack != nil {
				text = importedAck(task.Ack)
			}
			args = append(args, task.TaskID, text)
		}
		return args
	case coordinator.ImportFinish:
	}
	failure := cp.Failure
	if failure == nil {
		failure = new(coordinator.Failure)
	}
	return []any{
		decimal(cp.ID), call.Token, cp.AcknowledgedTasks, call.Parts, decimal(cp.SharedEntries), decimal(cp.SharedBytes), decimal(cp.Entries), decimal(cp.Bytes),
		decimal(cp.Start), decimal(cp.EndedAt), decimal(cp.Timestamp),
		"status", string(cp.Status), "pinned", flag(cp.Pinned), "aside", flag(cp.SetAside), "rev", decimal(cp.Revision), "timeout", decimal(cp.TimeoutMs),
		"required", cp.RequiredTaskAcks, "epoch", decimal(cp.Epoch), "version", cp.SnapshotVersion, "labels", encodeLabels(cp.Labels),
		"desc", cp.Description, "reason", string(failure.Reason), "ftask", failure.TaskID, "fmsg", failure.Message,
		"srev", decimal(cp.SharedRevision), "digest", cp.Digest,
	}
}

// importNames is the token of a checkpoint's lists of names: it is unlike any that a call makes.
func importNames(cp *coordinator.Checkpoint) string {
	if !cp.NamedTasks {
		return ""
	}
	return "import-" + decimal(cp.ID)
}

// importedAck is an acknowledgement as …:acks has it. Its place, and the token of its call, were for
// repeats of that call.
func importedAck(ack *coordinator.Ack) string {
	digest := ack.Part.Digest
	if digest == coordinator.EmptyDigest {
		digest = ""
	}
	return strings.Join([]string{
		decimal(ack.Attempt), decimal(ack.AcknowledgedAt), strconv.Itoa(0), decimal(ack.Part.Entries), decimal(ack.Part.Bytes), digest, "import",
	}, "|")
}

// drain does once what the sweep does with garbage, for one who has to wait for it.
func (s *Store) drain(ctx context.Context, job string) error {
	r, err := s.run(ctx, drainScript, reads, job, drainStep)
	if err == nil && r.word != wordOK {
		err = badReply(drainScript.verb, r, errWord)
	}
	return err
}
