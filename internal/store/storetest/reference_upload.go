package storetest

import (
	"context"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// refUpload is a running upload: its bytes are its own until it is committed.
type refUpload struct {
	reference *reference
	call      coordinator.UploadCall
	content   []byte
}

// BeginUpload checks that the task may hand in a part.
func (r *reference) BeginUpload(_ context.Context, call coordinator.UploadCall) (coordinator.Upload, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := &refUpload{reference: r, call: call}
	if _, _, err := u.check(); err != nil {
		return nil, err
	}
	return u, nil
}

// check gives the checkpoint, or why a part of this task cannot be handed in now.
func (u *refUpload) check() (*refJob, *refCheckpoint, error) {
	j, c, err := u.reference.subject(u.call.Job, u.call.ID, u.call.Import)
	if err != nil {
		return nil, nil, err
	}
	if refusal := u.reference.refusal(j, c, u.call.TaskID, u.call.Attempt, u.call.Epoch); refusal != nil {
		return nil, nil, refusal
	}
	if c.acks[u.call.TaskID] != nil {
		return nil, nil, coordinator.ErrAckConflict(c.ID, u.call.TaskID)
	}
	if c.Completed() {
		return nil, nil, u.reference.late(j, c)
	}
	return j, c, nil
}

// WriteChunk appends, which is all that chunks in order need.
func (u *refUpload) WriteChunk(_ context.Context, index int, chunk []byte) error {
	u.content = append(u.content[:index*coordinator.ChunkBytes], chunk...)
	return nil
}

// ReadAt reads back.
func (u *refUpload) ReadAt(_ context.Context, p []byte, off int64) error {
	copy(p, u.content[off:])
	return nil
}

// Check answers what Commit would.
func (u *refUpload) Check(context.Context) error {
	u.reference.mu.Lock()
	defer u.reference.mu.Unlock()
	_, _, err := u.check()
	return err
}

// Commit makes the part the task's own.
func (u *refUpload) Commit(_ context.Context, call coordinator.CommitCall) (coordinator.CommitResult, error) {
	r := u.reference
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.job(u.call.Job)
	if err != nil {
		return coordinator.CommitResult{}, err
	}
	return once(j, "commit "+u.call.Token, func() (coordinator.CommitResult, error) {
		j, c, err := u.check()
		if err != nil {
			return coordinator.CommitResult{}, err
		}
		part := coordinator.PartContent{Content: slices.Clone(u.content), Entries: call.Part.Entries, Digest: call.Part.Digest}
		if !call.Ack {
			j.attempts[u.call.TaskID] = max(j.attempts[u.call.TaskID], u.call.Attempt)
			c.uploaded[u.call.TaskID] = part
			return coordinator.CommitResult{}, nil
		}
		outcome := coordinator.AckOutcome{TaskID: u.call.TaskID, Outcome: coordinator.AckAccepted}
		outcome.LatencyMs = r.accept(j, c, u.call.TaskID, u.call.Attempt, part, call.Retention)
		outcome.Status, outcome.AcknowledgedTasks, outcome.RequiredTaskAcks = c.Status, c.AcknowledgedTasks, c.RequiredTaskAcks
		return coordinator.CommitResult{Ack: &outcome}, nil
	})
}

// Discard forgets the bytes.
func (u *refUpload) Discard(context.Context) error { return nil }
