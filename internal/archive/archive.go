// Package archive reads what an export of a job wrote, before anything of it enters a store: it
// keeps the text in a temporary file, and checks all of it, from the order of the lines to the digest of
// every part, so that what is cut off or altered is refused as a whole. Memory holds a chunk of it, the
// tasks of one checkpoint, and a few numbers for each checkpoint.
package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// Limits of lines that are no entries: names and labels are bounded, and so is how much longer escapes
// make them.
const (
	maxHeadLine = 64 << 20
	maxLine     = 1 << 20
)

// Archive is an export that was checked whole. Close it.
type Archive struct {
	file     *os.File
	job      coordinator.ExportedJob
	attempts map[string]int64
	// places are where the lines of checkpoints begin in file.
	places []int64
}

var _ coordinator.Archive = (*Archive)(nil)

// Job is the first line.
func (a *Archive) Job() coordinator.ExportedJob { return a.job }

// Attempts are the highest ones that the acknowledgements name.
func (a *Archive) Attempts() map[string]int64 { return a.attempts }

// Len is how many checkpoints there are.
func (a *Archive) Len() int { return len(a.places) }

// Close gives the temporary file back.
func (a *Archive) Close() error {
	if err := a.file.Close(); err != nil {
		return fmt.Errorf("closing an import's file: %w", err)
	}
	return nil
}

// Checkpoint reads one checkpoint, of which only the parts stay in the file.
func (a *Archive) Checkpoint(number int) (coordinator.ImportedCheckpoint, error) {
	in := a.from(a.places[number])
	text, err := in.next(maxLine)
	if err != nil {
		return coordinator.ImportedCheckpoint{}, err
	}
	record, tasks, err := in.checkpoint(text)
	if err != nil {
		return coordinator.ImportedCheckpoint{}, err
	}
	out := coordinator.ImportedCheckpoint{Checkpoint: checkpointOf(record), Tasks: tasks}
	if record.Snapshot == nil {
		return out, nil
	}
	places := make([]int64, len(tasks))
	place := in.offset + record.Snapshot.SharedBytes
	for i := range tasks {
		places[i] = place
		if tasks[i].Ack != nil {
			place += tasks[i].Ack.Part.Bytes
		}
	}
	shared := snapshot.NewLineReader(io.NewSectionReader(a.file, in.offset, record.Snapshot.SharedBytes), snapshot.Shared, coordinator.MaxValueBytes)
	for {
		entry, err := shared.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, fmt.Errorf("reading an import's file: %w", err)
		}
		out.Shared = append(out.Shared, coordinator.SharedEntry{Key: string(entry.Key), Value: bytes.Clone(entry.Value)})
	}
	out.Part = func(task int) io.Reader { return io.NewSectionReader(a.file, places[task], tasks[task].Ack.Part.Bytes) }
	return out, nil
}

// lines reads an export, and knows where it is.
type lines struct {
	from   *bufio.Reader
	offset int64
	line   int64
	memory memory
	// head is the first line, which bounds the others.
	head *coordinator.ExportedJob
	// sum hashes all lines but the last one; nil does not.
	sum hash.Hash
}

// next reads one line of at most limit bytes, its line feed included.
func (l *lines) next(limit int) ([]byte, error) {
	var text []byte
	for {
		piece, err := l.from.ReadSlice('\n')
		text = append(text, piece...)
		l.offset += int64(len(piece))
		switch {
		case len(text) > limit:
			return nil, l.wrong("It is longer than %d bytes, which no line of its kind is.", limit)
		case errors.Is(err, bufio.ErrBufferFull):
			if kindOf(text) == "" {
				return nil, l.wrong("It is no line of an export.")
			}
			if err := l.memory.need(2 * len(text)); err != nil { // it grows by being copied
				return nil, err
			}
		case errors.Is(err, io.EOF):
			return nil, l.wrong("The export is cut off here: it has no last line, of the type end.")
		case err != nil:
			return nil, err //nolint:wrapcheck // It is that of the body.
		default:
			l.line++
			if l.sum != nil && kindOf(text) != "end" {
				l.sum.Write(text)
			}
			return text, nil
		}
	}
}

// object reads a line into what it must be, strictly.
func (l *lines) object(text []byte, into any, kind string) error {
	if err := json.Unmarshal(text, into, json.RejectUnknownMembers(true)); err != nil {
		if wrong, is := errors.AsType[*json.SemanticError](err); is && wrong.JSONPointer != "" {
			return l.wrongBefore("It is no line of the type %s as an export writes it: %s is wrong.", kind, wrong.JSONPointer)
		}
		return l.wrongBefore("It is no line of the type %s as an export writes it.", kind)
	}
	return nil
}

// wrong is a refusal of the line that is being read.
func (l *lines) wrong(format string, args ...any) error {
	detail := fmt.Sprintf(format, args...)
	return &coordinator.Error{
		Code:   coordinator.CodeInvalidRequest,
		Detail: fmt.Sprintf("This is not a whole export, and nothing was imported: line %d is wrong. Export the job once more, and send the bytes as they come.", l.line+1),
		Fields: []coordinator.FieldError{{Line: int(l.line + 1), Detail: detail}},
	}
}

// kindOf is the type of a line.
func kindOf(text []byte) string {
	for _, kind := range []string{"job", "checkpoint", "task", "end"} {
		if bytes.HasPrefix(text, []byte(`{"type":"`+kind+`",`)) {
			return kind
		}
	}
	return ""
}

// checkpoint reads a checkpoint, whose own line is text, and its tasks, which are in byte order.
func (l *lines) checkpoint(text []byte) (coordinator.ExportedCheckpoint, []coordinator.TaskState, error) {
	var record coordinator.ExportedCheckpoint
	err := l.object(text, &record, "checkpoint")
	if err == nil {
		err = l.checkRecord(&record)
	}
	if err != nil {
		return record, nil, err
	}
	tasks := make([]coordinator.TaskState, 0, record.Acknowledged+record.Missing)
	acknowledged := 0
	for range record.Acknowledged + record.Missing {
		var line coordinator.ExportedTask
		text, err := l.next(maxLine)
		if err == nil {
			err = l.object(text, &line, "task")
		}
		if err != nil {
			return record, nil, err
		}
		task, err := l.task(&line)
		if err != nil {
			return record, nil, err
		}
		if len(tasks) > 0 && tasks[len(tasks)-1].TaskID >= task.TaskID {
			return record, nil, l.wrongBefore("The tasks are not in the order of their names.")
		}
		if task.Ack != nil {
			acknowledged++
			task.Ack.LatencyMs = max(0, task.Ack.AcknowledgedAt-record.Start)
		}
		tasks = append(tasks, task)
	}
	if acknowledged != record.Acknowledged {
		return record, nil, l.wrongBefore("The checkpoint counts %d acknowledged tasks, and %d follow.", record.Acknowledged, acknowledged)
	}
	return record, tasks, nil
}

// wrongBefore is a refusal of the line that was just read.
func (l *lines) wrongBefore(format string, args ...any) error {
	before := *l
	before.line--
	return before.wrong(format, args...)
}

func (l *lines) task(line *coordinator.ExportedTask) (coordinator.TaskState, error) {
	task := coordinator.TaskState{TaskID: line.TaskID, Status: line.Status}
	err := coordinator.CheckTaskID(line.TaskID)
	switch {
	case err != nil:
		return task, l.wrongBefore("%v", err)
	case line.Type != "task":
		return task, l.wrongBefore("A task should follow.")
	case line.Status == coordinator.TaskMissing && *line == coordinator.ExportedTask{Type: "task", TaskID: line.TaskID, Status: line.Status}:
		return task, nil
	case line.Status != coordinator.TaskAcknowledged || !counters(line.Attempt, line.AcknowledgedAt, line.Entries, line.Bytes),
		coordinator.CheckDigest(line.Digest) != nil:
		return task, l.wrongBefore("The task is not as an export writes it.")
	}
	task.Ack = &coordinator.Ack{TaskID: line.TaskID, Attempt: line.Attempt, AcknowledgedAt: line.AcknowledgedAt, Part: coordinator.PartInfo{
		Entries: line.Entries, Bytes: line.Bytes, Digest: line.Digest,
	}}
	return task, nil
}

// checkRecord checks a record by itself.
func (l *lines) checkRecord(r *coordinator.ExportedCheckpoint) error {
	failed := r.Status == coordinator.StatusExpired || r.Status == coordinator.StatusAborted
	if r.Type != "checkpoint" || !failed && r.Status != coordinator.StatusCompleted ||
		(r.Snapshot != nil) != (r.Status == coordinator.StatusCompleted) || (r.Failure != nil) != failed {
		return l.wrongBefore("A checkpoint that has ended should follow, with its snapshot or its failure.")
	}
	if !counters(r.ID, r.Epoch, r.Revision, r.Timestamp, r.Start, r.TimeoutMs, r.EndedAt, int64(r.Acknowledged), int64(r.Missing)) ||
		r.RequiredTaskAcks < 1 || r.RequiredTaskAcks > coordinator.MaxRequiredTaskAcks || r.Acknowledged > coordinator.MaxTasksPerCheckpoint ||
		r.Missing > coordinator.MaxTasks || r.Missing > 0 && !r.NamedTasks {
		return l.wrongBefore("A number of the checkpoint is out of its range.")
	}
	if err := r.Check(l.head); err != nil {
		return l.wrongBefore("%v.", err)
	}
	s := r.Snapshot
	switch {
	case r.SetAside && r.Status != coordinator.StatusCompleted:
		return l.wrongBefore("Only a completed checkpoint can be set aside.")
	case s == nil:
	case s.Version > coordinator.SnapshotVersion:
		return coordinator.ErrUnsupportedVersion(r.ID, s.Version)
	case s.Version < 0, !counters(s.Entries, s.Bytes, s.SharedEntries, s.SharedBytes, s.SharedRevision), coordinator.CheckDigest(s.Digest) != nil,
		s.SharedEntries > coordinator.MaxSharedKeys, s.SharedBytes > coordinator.MaxSharedBytes:
		return l.wrongBefore("The snapshot of the checkpoint is not as an export writes it.")
	}
	return nil
}

func counters(numbers ...int64) bool {
	return !slices.ContainsFunc(numbers, func(n int64) bool { return coordinator.CheckCounter(n) != nil })
}

// checkpointOf is the record as the domain has it.
func checkpointOf(r coordinator.ExportedCheckpoint) coordinator.Checkpoint {
	s := cmp.Or(r.Snapshot, new(coordinator.ExportedSnapshot))
	cp := coordinator.Checkpoint{
		ID: r.ID, Epoch: r.Epoch, Status: r.Status, Revision: r.Revision, Timestamp: r.Timestamp, Start: r.Start, TimeoutMs: r.TimeoutMs,
		RequiredTaskAcks: r.RequiredTaskAcks, AcknowledgedTasks: r.Acknowledged, NamedTasks: r.NamedTasks, EndedAt: r.EndedAt,
		Pinned: r.Pinned, SetAside: r.SetAside, Labels: r.Labels, Description: r.Description,
		SnapshotVersion: s.Version, Entries: s.Entries, Bytes: s.Bytes, Digest: s.Digest,
		SharedEntries: s.SharedEntries, SharedBytes: s.SharedBytes, SharedRevision: s.SharedRevision,
	}
	if f := r.Failure; f != nil {
		cp.Failure = &coordinator.Failure{Reason: f.Reason, TaskID: f.TaskID, Message: f.Message}
		cp.SnapshotVersion = coordinator.SnapshotVersion
	}
	return cp
}
