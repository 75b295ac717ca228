package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// The functions of this file render answers, so that two stores can be compared and a
// difference can be read. Times are counted from the start of the game. What is a
// store's own affair (ids, tags, revisions, tokens) is left out.

func since(at int64) int64 {
	if at == 0 {
		return -1
	}
	return at - startOfTime
}

// refusal renders an error with what it tells its caller beyond the code.
func (p *player) refusal(err error) string {
	e, ok := errors.AsType[*coordinator.Error](err)
	if !ok {
		return fmt.Sprintf("an error that is no refusal: %v", err)
	}
	if e.Code == coordinator.CodeInternal || e.Code == coordinator.CodeStoreUnavailable {
		p.violations = append(p.violations, err.Error())
	}
	text := "refused: " + string(e.Code)
	if e.CheckpointID != nil {
		text += " of " + p.number(*e.CheckpointID)
	}
	if e.Code == coordinator.CodeAcksMissing {
		text += fmt.Sprintf(" missing %d %q", e.Missing, e.MissingTasks)
	}
	return text
}

// late renders the refusal of a task's message, which names the way on.
func (p *player) late(err error) string {
	text := p.refusal(err)
	if e, ok := errors.AsType[*coordinator.Error](err); ok {
		switch e.Code {
		case coordinator.CodeCheckpointExpired, coordinator.CodeCheckpointAborted, coordinator.CodeCheckpointCompleted, coordinator.CodeCheckpointDeleted:
			text += " current " + p.optional(e.Current) + " latest " + p.optional(e.Latest)
		default:
		}
	}
	return text
}

func (p *player) optional(id *int64) string {
	if id == nil {
		return "none"
	}
	return p.number(*id)
}

// checkpoint renders a checkpoint.
func (p *player) checkpoint(c *coordinator.Checkpoint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s epoch %d shown %d timeout %d acked %d/%d named %v missing %q ended %d pinned %v aside %v labels %v %q",
		p.number(c.ID), c.Status, c.Epoch, since(c.Timestamp), c.TimeoutMs, c.AcknowledgedTasks, c.RequiredTaskAcks,
		c.NamedTasks, c.MissingTasks, since(c.EndedAt), c.Pinned, c.SetAside, labels(c.Labels), c.Description)
	if c.Failure != nil {
		fmt.Fprintf(&b, " failure %+v", *c.Failure)
	}
	if c.Completed() {
		fmt.Fprintf(&b, " snapshot version %d %d entries %d bytes", c.SnapshotVersion, c.Entries, c.Bytes)
	}
	p.watch(c, b.String())
	fmt.Fprintf(&b, " start %d digest %q", since(c.Start), c.Digest)
	if c.Status == coordinator.StatusPending || c.Completed() {
		fmt.Fprintf(&b, " shared %d entries %d bytes", c.SharedEntries, c.SharedBytes)
	}
	return b.String()
}

func labels(l map[string]string) string {
	if len(l) == 0 {
		return "none"
	}
	return fmt.Sprint(l)
}

// answer renders the answer of a call that gives a checkpoint.
func (p *player) answer(c coordinator.Checkpoint, err error) string {
	if err != nil {
		return p.refusal(err)
	}
	return p.checkpoint(&c)
}

func (p *player) outcome(o coordinator.AckOutcome) string {
	if o.Refusal != nil {
		return fmt.Sprintf("%s %s", o.TaskID, p.late(o.Refusal))
	}
	return fmt.Sprintf("%s %s, %s %d/%d, latency %d", o.TaskID, o.Outcome, o.Status, o.AcknowledgedTasks, o.RequiredTaskAcks, o.LatencyMs)
}

func (p *player) ackAnswer(result coordinator.AckResult, err error) string {
	if err != nil {
		return p.late(err)
	}
	lines := []string{fmt.Sprintf("%s %d/%d", result.Status, result.AcknowledgedTasks, result.RequiredTaskAcks)}
	for _, o := range result.Outcomes {
		lines = append(lines, p.outcome(o))
	}
	return strings.Join(lines, "\n")
}

func (p *player) task(state coordinator.TaskState) string {
	text := state.TaskID + " " + string(state.Status)
	if state.Ack != nil {
		text += " " + p.ack(*state.Ack)
	}
	if state.Uploaded != nil {
		text += fmt.Sprintf(" uploaded %+v", *state.Uploaded)
	}
	return text
}

func (p *player) ack(a coordinator.Ack) string {
	return fmt.Sprintf("%s attempt %d at %d latency %d %+v", a.TaskID, a.Attempt, since(a.AcknowledgedAt), a.LatencyMs, a.Part)
}

// list reads a list page by page.
func (p *player) list(call coordinator.ListCall) string {
	call.Job = p.rig.job
	var lines []string
	for {
		page, err := p.rig.store.List(p.rig.t.Context(), call)
		if err != nil {
			return p.refusal(err)
		}
		for _, c := range page.Checkpoints {
			lines = append(lines, p.checkpoint(&c))
		}
		if page.Next < 0 {
			return strings.Join(lines, "\n")
		}
		call.Before = page.Next
	}
}

// snapshot reads a restore to its end.
func (p *player) snapshot(source coordinator.RestoreSource) string {
	c := source.Checkpoint()
	lines := []string{p.checkpoint(&c)}
	for i, part := range source.Parts() {
		content, err := p.rig.read(source, i, 0, part.Bytes)
		if err != nil {
			// A deleted checkpoint breaks a restore off, sooner or later: a store may have
			// the bytes at hand still. See the rules about that in testRestoreLease.
			return "broken off"
		}
		if digestOf(content) != part.Digest {
			p.violations = append(p.violations, fmt.Sprintf("the part of %q does not have its digest", part.TaskID))
		}
		lines = append(lines, fmt.Sprintf("%+v %.200q", part, content))
	}
	return strings.Join(lines, "\n")
}

// sorted renders a set of ids.
func (p *player) sorted(ids []int64) string { return p.numbers(slices.Sorted(slices.Values(ids))) }
