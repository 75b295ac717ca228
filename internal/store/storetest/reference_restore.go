package storetest

import (
	"context"
	"maps"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// refRestore is an open restore.
type refRestore struct {
	reference  *reference
	call       coordinator.RestoreCall
	checkpoint coordinator.Checkpoint
	parts      []coordinator.ManifestPart
	contents   [][]byte
}

// OpenRestore leases a completed checkpoint and reads its manifest.
func (r *reference) OpenRestore(_ context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, v, err := r.read(call.Ref)
	switch {
	case err != nil:
		return nil, err
	case !v.Completed():
		return nil, coordinator.ErrNotCompleted(c.ID, v.Status)
	}
	s := &refRestore{reference: r, call: call, checkpoint: v}
	if call.Tasks == nil || call.Shared {
		lines := renderShared(c.shared)
		s.add(coordinator.ManifestPart{Shared: true, PartInfo: info(content(lines, int64(len(c.shared))))}, lines)
	}
	tasks := call.Tasks
	if tasks == nil {
		tasks = slices.Collect(maps.Keys(c.acks))
	}
	for _, task := range slices.Sorted(slices.Values(tasks)) {
		ack := c.acks[task]
		switch {
		case ack != nil:
		case slices.Contains(c.names, task), !c.NamedTasks && len(c.acks) < c.RequiredTaskAcks:
			return nil, coordinator.ErrTaskAbsent(c.ID, task, c.NamedTasks)
		default:
			return nil, coordinator.ErrTaskNotInCheckpoint(c.ID, task)
		}
		s.add(coordinator.ManifestPart{TaskID: task, PartInfo: ack.Part}, ack.content)
	}
	if call.LeaseMs > 0 {
		c.leases[call.Token] = r.clock() + call.LeaseMs
	}
	return s, nil
}

func (s *refRestore) add(part coordinator.ManifestPart, content []byte) {
	s.parts = append(s.parts, part)
	s.contents = append(s.contents, content)
}

// Checkpoint is what is restored.
func (s *refRestore) Checkpoint() coordinator.Checkpoint { return s.checkpoint }

// Parts are the selected parts.
func (s *refRestore) Parts() []coordinator.ManifestPart { return s.parts }

// held finds the checkpoint, which may be gone.
func (s *refRestore) held() (*refCheckpoint, error) {
	c, _, err := s.reference.read(coordinator.Ref{Job: s.call.Job, ID: s.checkpoint.ID})
	return c, err
}

// ReadAt gives what is there up to the chunk's end.
func (s *refRestore) ReadAt(_ context.Context, part int, p []byte, off int64) (int, error) {
	s.reference.mu.Lock()
	defer s.reference.mu.Unlock()
	if _, err := s.held(); err != nil {
		return 0, coordinator.ErrSnapshotDamaged(s.checkpoint.ID, "the checkpoint", err)
	}
	end := min((off/coordinator.ChunkBytes+1)*coordinator.ChunkBytes, int64(len(s.contents[part])))
	return copy(p, s.contents[part][off:end]), nil
}

// Renew prolongs the lease.
func (s *refRestore) Renew(context.Context) error {
	s.reference.mu.Lock()
	defer s.reference.mu.Unlock()
	c, err := s.held()
	if err == nil {
		c.leases[s.call.Token] = s.reference.clock() + s.call.LeaseMs
	}
	return err
}

// Release gives the lease back.
func (s *refRestore) Release(context.Context) error {
	s.reference.mu.Lock()
	defer s.reference.mu.Unlock()
	if c, err := s.held(); err == nil {
		delete(c.leases, s.call.Token)
	}
	return nil
}

// Close holds nothing.
func (s *refRestore) Close() error { return nil }

// SaveDigest keeps a digest.
func (r *reference) SaveDigest(_ context.Context, ref coordinator.Ref, digest string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, v, err := r.read(ref); err == nil && v.Completed() {
		c.Digest = digest
	}
	return nil
}

// MarkDamaged notes what a checkpoint lacks.
func (r *reference) MarkDamaged(_ context.Context, call coordinator.DamageCall) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	if j, c, err := r.find(call.Job, call.ID); err == nil && c.Completed() && c.Damage == "" {
		c.Damage = call.What
		c.Revision++
		r.tell(j, c, coordinator.EventUpdated, "")
	}
	return nil
}
