package coordinator

import (
	"context"
	"errors"
	"io"
	"time"
)

// ImportStep is what an [ImportCall] does.
type ImportStep string

// The steps, in their order: open once, and then the others for each checkpoint. What was begun and is not
// finished does not exist for anybody else, whatever they call: it is in no list and no count, and
// they cannot change it. Only calls that name the Token of its ImportBegin reach it: the steps here,
// [UploadCall] and [SharedWrite]. Errors of all but the first two: CodeJobNotFound, CodeCheckpointDeleted and
// CodeCheckpointNotFound where nothing is under import with that id and token.
const (
	// ImportOpen demands that the job has no checkpoint and none under import, makes it if it is new, raises
	// its counters to at least NextID and Epoch, and forgets the attempts of its tasks. Error:
	// CodeJobNotEmpty.
	ImportOpen ImportStep = "open"
	// ImportBegin puts the id of Checkpoint under import, which takes parts and shared state from then
	// on. The sweep removes it when LeaseMs are over, so that one that is left alone goes by itself. Error:
	// CodeJobNotEmpty where something has that id.
	ImportBegin ImportStep = "begin"
	// ImportRenew lets the lease end LeaseMs from now.
	ImportRenew ImportStep = "renew"
	// ImportTasks gives a page of the checkpoint's tasks in byte order, with their acknowledgements.
	// A part that was handed in for one of them is acknowledged now.
	ImportTasks ImportStep = "tasks"
	// ImportFinish makes the checkpoint what Checkpoint says, all of it at once, and lets everybody see it.
	// Error: CodeSnapshotDamaged where the parts, acknowledgements or shared state are not those that it and
	// Parts count.
	ImportFinish ImportStep = "finish"
	// ImportDrop removes one that is not finished. Where there is none it does nothing.
	ImportDrop ImportStep = "drop"
)

// ImportCall is one atomic step of bringing finished checkpoints into a job.
type ImportCall struct {
	Step ImportStep
	Job  string
	// NextID and Epoch are for ImportOpen.
	NextID, Epoch int64
	// Checkpoint is for the other steps: its ID for all of them, the rest for ImportFinish, and of the
	// rest NamedTasks for ImportTasks.
	Checkpoint Checkpoint
	// Parts is for ImportFinish: how many parts the checkpoint has.
	Parts int
	// Tasks are for ImportTasks, at most ImportPage.
	Tasks []TaskState
	// LeaseMs is for ImportBegin and ImportRenew, > 0.
	LeaseMs int64
	// Token is for all steps but ImportOpen, never "": nobody can guess the one that ImportBegin gives to the
	// checkpoint.
	Token string
}

// ImportPage is how many tasks one step of an import takes.
const ImportPage = 500

// ImportedCheckpoint is a checkpoint of an archive.
type ImportedCheckpoint struct {
	Checkpoint Checkpoint
	Tasks      []TaskState
	Shared     []SharedEntry
	// Part gives the restore bytes of a task.
	Part func(task int) io.Reader
}

// Archive is an export that was read and checked whole.
type Archive interface {
	Job() ExportedJob
	// Attempts are the highest ones of tasks; 0 is left out.
	Attempts() map[string]int64
	// Len is how many checkpoints there are.
	Len() int
	// Checkpoint reads one; 0 is the newest.
	Checkpoint(number int) (ImportedCheckpoint, error)
}

// importLease is how long a checkpoint may wait for the next step of its import.
const importLease = 10 * time.Minute

// importing is an import at work.
type importing struct {
	*Coordinator
	job     string
	archive Archive
	// finished are the checkpoints that everybody sees by now, the newest first.
	finished []int64
	// begun is the checkpoint that nobody sees yet, with its token; "" is none.
	begun int64
	token string
	// renewed is when its lease was last moved.
	renewed time.Time
}

// Import brings an archive into a job that has no checkpoints, the newest first, so that the latest
// completed one is never another than it was. When it fails, what it has brought is removed again.
// Errors: CodeJobNotEmpty, those of the store; CodeOutcomeUnknown where something that it has brought may
// still be there.
func (c *Coordinator) Import(ctx context.Context, job string, archive Archive) error {
	var f faults
	f.param("job", CheckJob(job))
	if err := f.err(); err != nil {
		return err
	}
	i := &importing{Coordinator: c, job: job, archive: archive}
	head := archive.Job()
	err := i.step(ctx, ImportCall{Step: ImportOpen, NextID: head.NextID, Epoch: head.Epoch})
	if err == nil {
		err = i.bring(ctx)
	}
	if err == nil {
		return nil
	}
	if failed := i.takeBack(ctx); failed != nil {
		c.observer.BackgroundFailed("import", failed)
		return ErrImportLeft(job, err)
	}
	switch CodeOf(err) {
	case CodeStoreUnavailable, CodeOutcomeUnknown, CodeNotReplicated:
		return ErrImportTakenBack(err) // what they say of one change is not true of the whole
	default:
		return err
	}
}

// bring brings all of it, the settings last.
func (i *importing) bring(ctx context.Context) error {
	for number := range i.archive.Len() {
		next, err := i.archive.Checkpoint(number)
		if err != nil {
			return err
		}
		next.Checkpoint.Job = i.job
		// Before it is there: a reply that is lost may have left it.
		i.begun, i.token = next.Checkpoint.ID, newToken()
		if err := i.checkpoint(ctx, next); err != nil {
			return err
		}
		i.finished, i.token = append(i.finished, i.begun), ""
	}
	settings := i.archive.Job().Settings
	if settings == nil {
		return nil
	}
	_, err := i.PutJob(ctx, i.job, settings.settings(), Precondition{})
	return err
}

// step does a step in the job.
func (i *importing) step(ctx context.Context, step ImportCall) error {
	step.Job, step.Token = i.job, i.token
	_, err := call(i.Coordinator, "import", func() (struct{}, error) { return struct{}{}, i.store.Import(ctx, step) })
	return err
}

// takeBack removes what a failed import has brought.
func (i *importing) takeBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTimeout)
	defer cancel()
	var failed error
	if i.token != "" {
		drop := ImportCall{Step: ImportDrop, Checkpoint: Checkpoint{ID: i.begun}}
		failed = unlessTaken(i.step(ctx, drop))
	}
	for _, id := range i.finished {
		failed = errors.Join(failed, unlessTaken(i.Delete(ctx, DeleteCall{Job: i.job, ID: id, Force: true})))
	}
	return failed
}

// unlessTaken is nil where nothing is left to take back. That too few replicas know changes nothing: they know no
// more of what had come in.
func unlessTaken(err error) error {
	switch CodeOf(err) {
	case CodeJobNotFound, CodeNotReplicated:
		return nil
	default:
		return unlessGone(err)
	}
}

const takeBackTimeout = time.Minute

// checkpoint brings one checkpoint.
func (i *importing) checkpoint(ctx context.Context, next ImportedCheckpoint) error {
	final := next.Checkpoint
	if err := i.step(ctx, ImportCall{Step: ImportBegin, Checkpoint: final, LeaseMs: importLease.Milliseconds()}); err != nil {
		return err
	}
	i.renewed = time.Now()
	if len(next.Shared) > 0 {
		_, err := call(i.Coordinator, "write_shared", func() (SharedWritten, error) {
			return i.store.WriteShared(ctx, SharedWrite{Job: i.job, ID: final.ID, Op: SharedPut, Entries: next.Shared, Import: i.token})
		})
		if err != nil {
			return err
		}
	}
	parts := 0
	for number := range next.Tasks {
		task := &next.Tasks[number]
		if !final.Completed() || task.Ack == nil || task.Ack.Part.Bytes == 0 {
			continue
		}
		parts++
		upload := UploadCall{Job: i.job, ID: final.ID, TaskID: task.TaskID, Attempt: i.archive.Attempts()[task.TaskID], Import: i.token}
		if err := i.part(ctx, upload, task.Ack.Part, next.Part(number)); err != nil {
			return err
		}
	}
	for from := 0; from < len(next.Tasks); from += ImportPage {
		page := next.Tasks[from:min(from+ImportPage, len(next.Tasks))]
		if err := i.step(ctx, ImportCall{Step: ImportTasks, Checkpoint: final, Tasks: page}); err != nil {
			return err
		}
	}
	err := i.step(ctx, ImportCall{Step: ImportFinish, Checkpoint: final, Parts: parts})
	switch CodeOf(err) {
	case CodeOutcomeUnknown, CodeNotReplicated:
		// It may be there. After any other refusal it is not, and what has its id would be somebody else's.
		i.finished = append(i.finished, final.ID)
	default:
	}
	return err
}

// part hands a part in as its task would.
func (i *importing) part(ctx context.Context, begin UploadCall, info PartInfo, content io.Reader) error {
	upload, err := i.BeginUpload(ctx, begin)
	if err != nil {
		return err
	}
	defer upload.Discard(ctx)
	chunk := make([]byte, min(ChunkBytes, info.Bytes))
	for index, left := 0, info.Bytes; left > 0; index++ {
		if err := i.renew(ctx); err != nil {
			return err
		}
		piece := chunk[:min(left, int64(len(chunk)))]
		if _, err := io.ReadFull(content, piece); err != nil {
			return ErrInternal(err)
		}
		if err := upload.WriteChunk(upload.Context(), index, piece); err != nil {
			return asError(err)
		}
		left -= int64(len(piece))
	}
	_, err = upload.Commit(ctx, info, false)
	return err
}

// renew moves the lease from time to time.
func (i *importing) renew(ctx context.Context) error {
	if time.Since(i.renewed) < importLease/4 {
		return nil
	}
	i.renewed = time.Now()
	return i.step(ctx, ImportCall{Step: ImportRenew, Checkpoint: Checkpoint{ID: i.begun}, LeaseMs: importLease.Milliseconds()})
}

// settings are those of the domain.
func (s *ExportedSettings) settings() JobSettings {
	return JobSettings{
		RequiredTaskAcks: s.RequiredTaskAcks, Tasks: s.Tasks, TimeoutMs: s.TimeoutMs, IntervalMs: s.IntervalMs, MinPauseMs: s.MinPauseMs,
		MaxConcurrent: s.MaxConcurrent, TolerableFailures: s.TolerableFailures, StaleAfterMs: s.StaleAfterMs,
		Keep: s.Keep, MaxAgeMs: s.MaxAgeMs, MaxBytes: s.MaxBytes, Paused: s.Paused, Description: s.Description,
	}
}
