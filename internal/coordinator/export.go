package coordinator

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

// ExportFormat is the version of the text that an export is, and of what an import takes.
const ExportFormat = 1

// An export is lines of JSON, and the same for the same content, whichever store has it:
//
//	{"type":"job",…}         the job: its counters and settings
//	{"type":"checkpoint",…}  for each that has ended, the newest first; then
//	{"type":"task",…}        for each of its tasks, in byte order, and
//	{"key":…}                if it has completed, the bytes of its restore
//	{"type":"end",…}         how much there was, and the digest of all lines before
//
// What time makes of a job is not in it: pending checkpoints, events, statistics, the schedule's
// rhythm, keys of idempotency.

// ExportedJob is the first line of an export.
type ExportedJob struct {
	Type     string            `json:"type"`
	Format   int               `json:"format"`
	Job      string            `json:"job"`
	NextID   int64             `json:"nextCheckpointId"`
	Epoch    int64             `json:"epoch"`
	Settings *ExportedSettings `json:"settings,omitempty"`
}

// ExportedSettings are the settings of a job that was configured. They are named as in the contract.
type ExportedSettings struct {
	RequiredTaskAcks  *int     `json:"requiredTaskAcks,omitempty"`
	Tasks             []string `json:"tasks,omitempty"`
	TimeoutMs         *int64   `json:"timeoutMs,omitempty"`
	IntervalMs        *int64   `json:"intervalMs,omitempty"`
	MinPauseMs        *int64   `json:"minPauseMs,omitempty"`
	MaxConcurrent     *int     `json:"maxConcurrentCheckpoints,omitempty"`
	TolerableFailures *int     `json:"tolerableFailedCheckpoints,omitempty"`
	StaleAfterMs      *int64   `json:"staleAfterMs,omitempty"`
	Keep              *int     `json:"checkpointsToKeep,omitempty"`
	MaxAgeMs          *int64   `json:"checkpointsMaxAgeMs,omitempty"`
	MaxBytes          *int64   `json:"checkpointsMaxBytes,omitempty"`
	Paused            bool     `json:"paused,omitempty"`
	Description       string   `json:"description,omitempty"`
}

// ExportedCheckpoint is the record of a checkpoint that has ended.
type ExportedCheckpoint struct {
	Type             string            `json:"type"`
	ID               int64             `json:"checkpointId"`
	Epoch            int64             `json:"epoch"`
	Status           Status            `json:"status"`
	Revision         int64             `json:"revision"`
	Timestamp        int64             `json:"timestamp"`
	Start            int64             `json:"start"`
	TimeoutMs        int64             `json:"timeoutMs"`
	EndedAt          int64             `json:"endedAt"`
	RequiredTaskAcks int               `json:"requiredTaskAcks"`
	NamedTasks       bool              `json:"namedTasks,omitempty"`
	Acknowledged     int               `json:"acknowledgedTasks"`
	Missing          int               `json:"missingTasks,omitempty"`
	Pinned           bool              `json:"pinned,omitempty"`
	SetAside         bool              `json:"setAside,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	Description      string            `json:"description,omitempty"`
	Failure          *ExportedFailure  `json:"failure,omitempty"`
	Snapshot         *ExportedSnapshot `json:"snapshot,omitempty"`
}

// ExportedFailure is why a checkpoint has not completed.
type ExportedFailure struct {
	Reason  FailureReason `json:"reason"`
	TaskID  string        `json:"taskId,omitempty"`
	Message string        `json:"message,omitempty"`
}

// ExportedSnapshot describes the restore lines of one that has.
type ExportedSnapshot struct {
	Version        int    `json:"version"`
	Entries        int64  `json:"entries"`
	Bytes          int64  `json:"bytes"`
	Digest         string `json:"digest"`
	SharedEntries  int64  `json:"sharedEntries"`
	SharedBytes    int64  `json:"sharedBytes"`
	SharedRevision int64  `json:"sharedRevision"`
}

// ExportedTask is a task of the checkpoint before it. Of one that is missing only the name is known.
type ExportedTask struct {
	Type           string     `json:"type"`
	TaskID         string     `json:"taskId"`
	Status         TaskStatus `json:"status"`
	Attempt        int64      `json:"attempt,omitempty"`
	AcknowledgedAt int64      `json:"acknowledgedAt,omitempty"`
	Entries        int64      `json:"entries,omitempty"`
	Bytes          int64      `json:"bytes,omitempty"`
	Digest         string     `json:"digest,omitempty"`
}

// ExportedEnd is the last line: without it an export is not whole.
type ExportedEnd struct {
	Type        string `json:"type"`
	Checkpoints int    `json:"checkpoints"`
	Lines       int64  `json:"lines"`
	Bytes       int64  `json:"bytes"`
	Digest      string `json:"digest"`
}

// Export is a job that is about to be written as text.
type Export struct {
	coordinator *Coordinator
	state       JobState
	out         *exportWriter
	end         ExportedEnd
}

// OpenExport looks for the job. Error: CodeJobNotFound.
func (c *Coordinator) OpenExport(ctx context.Context, job string) (*Export, error) {
	state, err := c.Job(ctx, job)
	if err != nil {
		return nil, err
	}
	return &Export{coordinator: c, state: state, end: ExportedEnd{Type: "end"}}, nil
}

// Write writes the export. It has nothing with an id that its head does not know as given, whatever is triggered
// meanwhile. Each checkpoint is whole and as at one moment; one that goes meanwhile is left out. After an error the text
// has no last line.
func (e *Export) Write(ctx context.Context, w io.Writer) error {
	e.out = &exportWriter{to: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	head := ExportedJob{
		Type: "job", Format: ExportFormat, Job: e.state.Job, NextID: e.state.NextID, Epoch: e.state.Epoch, Settings: exportedSettings(&e.state),
	}
	if err := e.out.line(head); err != nil {
		return err
	}
	// What was triggered after the head was read is above its next id, and would make the export one that no
	// import takes.
	for before := e.state.NextID; before > 0; {
		page, err := e.coordinator.List(ctx, ListCall{Job: e.state.Job, Before: before, Limit: exportPage})
		if err != nil {
			return err
		}
		for i := range page.Checkpoints {
			if err := e.checkpoint(ctx, &page.Checkpoints[i]); err != nil {
				return err
			}
		}
		if page.Next < 0 {
			break
		}
		before = page.Next
	}
	e.end.Lines, e.end.Bytes = e.out.lines, e.out.bytes
	e.end.Digest = Digest(e.out.sum.Sum(nil))
	if err := e.out.line(e.end); err != nil {
		return err
	}
	return e.out.flush()
}

// exportPage is how many checkpoints, or tasks, are read at a time.
const exportPage = 1000

func exportedSettings(state *JobState) *ExportedSettings {
	if !state.Configured {
		return nil
	}
	s := state.Settings
	return &ExportedSettings{
		RequiredTaskAcks: s.RequiredTaskAcks, Tasks: s.Tasks, TimeoutMs: s.TimeoutMs, IntervalMs: s.IntervalMs, MinPauseMs: s.MinPauseMs,
		MaxConcurrent: s.MaxConcurrent, TolerableFailures: s.TolerableFailures, StaleAfterMs: s.StaleAfterMs,
		Keep: s.Keep, MaxAgeMs: s.MaxAgeMs, MaxBytes: s.MaxBytes, Paused: s.Paused, Description: s.Description,
	}
}

// checkpoint writes one checkpoint unless it is pending, gone, or known to be damaged: one of
// these must not keep the others from being saved. One that is found damaged now ends the
// export, and is left out of the next.
func (e *Export) checkpoint(ctx context.Context, listed *Checkpoint) error {
	ref := Ref{Job: listed.Job, ID: listed.ID}
	var restore *Restore
	switch listed.Status {
	case StatusPending:
		return nil
	case StatusCompleted:
		if listed.Damage != "" { // which does not open any more
			return nil
		}
		var err error
		if restore, err = e.coordinator.OpenRestore(ctx, RestoreRequest{Ref: ref}); err != nil {
			return unlessGone(err)
		}
		defer restore.Abandon()
		found := restore.Checkpoint()
		if listed = &found; listed.Damage != "" {
			return nil
		}
	case StatusExpired, StatusAborted:
	}
	tasks, err := e.tasks(ctx, ref)
	if err != nil {
		return unlessGone(err)
	}
	if err := e.out.line(exportedCheckpoint(listed, tasks, restore)); err != nil {
		return err
	}
	for i := range tasks {
		if err := e.out.line(exportedTask(&tasks[i])); err != nil {
			return err
		}
	}
	e.end.Checkpoints++
	if restore == nil {
		return nil
	}
	err = restore.writeRange(e.out, 0, restore.Size())
	restore.markIfDamaged(err)
	return err
}

// unlessGone is no error where a checkpoint was deleted while the export ran.
func unlessGone(err error) error {
	switch CodeOf(err) {
	case CodeCheckpointDeleted, CodeCheckpointNotFound:
		return nil
	default:
		return err
	}
}

// tasks reads all tasks of a checkpoint, so that nothing is written of one that goes meanwhile.
func (e *Export) tasks(ctx context.Context, ref Ref) ([]TaskState, error) {
	var all []TaskState
	for after := ""; ; {
		page, err := e.coordinator.Tasks(ctx, TasksCall{Ref: ref, After: after, Limit: exportPage})
		if err != nil {
			return nil, err
		}
		all = append(all, page.Tasks...)
		if page.Next == "" {
			return all, nil
		}
		after = page.Next
	}
}

func exportedCheckpoint(cp *Checkpoint, tasks []TaskState, restore *Restore) ExportedCheckpoint {
	out := ExportedCheckpoint{
		Type: "checkpoint", ID: cp.ID, Epoch: cp.Epoch, Status: cp.Status, Revision: cp.Revision,
		Timestamp: cp.Timestamp, Start: cp.Start, TimeoutMs: cp.TimeoutMs, EndedAt: cp.EndedAt,
		RequiredTaskAcks: cp.RequiredTaskAcks, NamedTasks: cp.NamedTasks,
		Pinned: cp.Pinned, SetAside: cp.SetAside, Labels: cp.Labels, Description: cp.Description,
	}
	for i := range tasks {
		if tasks[i].Ack != nil {
			out.Acknowledged++
		} else {
			out.Missing++
		}
	}
	if f := cp.Failure; f != nil {
		out.Failure = &ExportedFailure{Reason: f.Reason, TaskID: f.TaskID, Message: f.Message}
	}
	if restore != nil {
		out.Snapshot = &ExportedSnapshot{
			Version: cp.SnapshotVersion, Entries: restore.Entries(), Bytes: restore.Size(), Digest: restore.Digest(),
			SharedEntries: cp.SharedEntries, SharedBytes: cp.SharedBytes, SharedRevision: cp.SharedRevision,
		}
	}
	return out
}

func exportedTask(task *TaskState) ExportedTask {
	out := ExportedTask{Type: "task", TaskID: task.TaskID, Status: task.Status}
	if ack := task.Ack; ack != nil {
		out.Attempt, out.AcknowledgedAt = ack.Attempt, ack.AcknowledgedAt
		out.Entries, out.Bytes, out.Digest = ack.Part.Entries, ack.Part.Bytes, ack.Part.Digest
	}
	return out
}

// exportWriter counts and hashes what goes out.
type exportWriter struct {
	to    *bufio.Writer
	sum   hash.Hash
	lines int64
	bytes int64
	text  bytes.Buffer
}

// Write passes on whole lines, or pieces of lines.
func (w *exportWriter) Write(p []byte) (int, error) {
	w.sum.Write(p)
	w.bytes += int64(len(p))
	w.lines += int64(bytes.Count(p, []byte{'\n'}))
	n, err := w.to.Write(p)
	if err != nil {
		return n, fmt.Errorf("writing an export: %w", err)
	}
	return n, nil
}

// line writes one value. Names stay as they are: only JSON itself is escaped.
func (w *exportWriter) line(value any) error {
	w.text.Reset()
	lines := json.NewEncoder(&w.text)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(value); err != nil {
		return ErrInternal(fmt.Errorf("writing a line of an export: %w", err))
	}
	_, err := w.Write(w.text.Bytes())
	return err
}

func (w *exportWriter) flush() error {
	if err := w.to.Flush(); err != nil {
		return fmt.Errorf("writing an export: %w", err)
	}
	return nil
}
