package storetest

import (
	"context"
	"errors"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// refImport is a checkpoint that an import has begun and not finished.
type refImport struct {
	*refCheckpoint
	token string
	lease int64
}

// subject is find for those whom a token gives access to what is under import.
func (r *reference) subject(job string, id int64, token string) (*refJob, *refCheckpoint, error) {
	if token == "" {
		return r.find(job, id)
	}
	j, err := r.job(job)
	if err != nil {
		return nil, nil, err
	}
	if i := j.imports[id]; i != nil && i.token == token {
		return j, i.refCheckpoint, nil
	}
	if id < j.next {
		return nil, nil, coordinator.ErrCheckpointDeleted(job, id)
	}
	return nil, nil, coordinator.ErrCheckpointNotFound(job, id)
}

// Import does one step of an import.
func (r *reference) Import(_ context.Context, call coordinator.ImportCall) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if call.Step == coordinator.ImportOpen {
		j := r.entry(call.Job)
		switch {
		case len(j.checkpoints) > 0:
			return coordinator.ErrJobNotEmpty(call.Job)
		case len(j.imports) > 0:
			return coordinator.ErrJobImporting(call.Job)
		}
		j.exists, j.next, j.epoch = true, max(j.next, call.NextID), max(j.epoch, call.Epoch)
		clear(j.attempts)
		return nil
	}
	j, err := r.job(call.Job)
	if err != nil {
		return err
	}
	id, under := call.Checkpoint.ID, j.imports[call.Checkpoint.ID]
	if under != nil && under.token != call.Token {
		under = nil
	}
	switch {
	case call.Step == coordinator.ImportBegin && under == nil:
		return r.beginImport(j, call)
	case call.Step == coordinator.ImportBegin:
		return nil
	case call.Step == coordinator.ImportDrop:
		if under != nil {
			delete(j.imports, id)
		}
		return nil
	case under == nil && call.Step == coordinator.ImportFinish && j.checkpoints[id] != nil && j.checkpoints[id].imported == call.Token:
		return nil
	case under == nil:
		_, _, err := r.subject(call.Job, id, call.Token)
		return err
	case call.Step == coordinator.ImportRenew:
		under.lease = r.clock() + call.LeaseMs
		return nil
	case call.Step == coordinator.ImportTasks:
		r.importTasks(j, under.refCheckpoint, call)
		return nil
	}
	return r.finishImport(j, under.refCheckpoint, call)
}

func (r *reference) beginImport(j *refJob, call coordinator.ImportCall) error {
	id := call.Checkpoint.ID
	if j.checkpoints[id] != nil || j.imports[id] != nil {
		return coordinator.ErrJobNotEmpty(call.Job)
	}
	j.next = max(j.next, id+1)
	j.imports[id] = &refImport{
		refCheckpoint: &refCheckpoint{
			Checkpoint: coordinator.Checkpoint{Job: call.Job, ID: id, Status: coordinator.StatusPending},
			acks:       map[string]*refAck{}, uploaded: map[string]coordinator.PartContent{}, shared: map[string]refEntry{}, leases: map[string]int64{},
		},
		token: call.Token, lease: r.clock() + call.LeaseMs,
	}
	return nil
}

func (r *reference) finishImport(j *refJob, c *refCheckpoint, call coordinator.ImportCall) error {
	final := call.Checkpoint
	parts := 0
	for _, ack := range c.acks {
		if len(ack.content) > 0 {
			parts++
		}
	}
	if len(c.acks) != final.AcknowledgedTasks || len(c.uploaded) > 0 || parts != call.Parts ||
		c.SharedEntries != final.SharedEntries || c.SharedBytes != final.SharedBytes {
		return coordinator.ErrSnapshotDamaged(c.ID, "what was imported", errors.New("the counts differ"))
	}
	delete(j.imports, final.ID)
	final.Job = call.Job
	c.Checkpoint, c.imported = final, call.Token
	j.checkpoints[final.ID] = c
	if final.Completed() {
		j.completedAt, j.highest = max(j.completedAt, final.EndedAt), max(j.highest, final.ID)
	}
	j.shown = max(j.shown, min(final.Timestamp, r.clock()))
	kind := map[coordinator.Status]coordinator.EventType{
		coordinator.StatusCompleted: coordinator.EventCompleted, coordinator.StatusExpired: coordinator.EventExpired, coordinator.StatusAborted: coordinator.EventAborted,
	}[final.Status]
	r.tell(j, c, kind, "")
	r.trimEnded(j)
	return nil
}

func (r *reference) importTasks(j *refJob, c *refCheckpoint, call coordinator.ImportCall) {
	for _, task := range call.Tasks {
		if call.Checkpoint.NamedTasks {
			c.NamedTasks = true
			c.names = append(c.names, task.TaskID)
		}
		if task.Ack == nil {
			continue
		}
		c.acks[task.TaskID] = &refAck{Ack: *task.Ack, content: c.uploaded[task.TaskID].Content}
		delete(c.uploaded, task.TaskID)
		if task.Ack.Attempt > j.attempts[task.TaskID] {
			j.attempts[task.TaskID] = task.Ack.Attempt
		}
	}
}
