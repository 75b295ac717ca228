package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// restore is an open restore. Its methods are for one goroutine, except Renew.
type restore struct {
	store      *Store
	call       coordinator.RestoreCall
	lease      string
	checkpoint coordinator.Checkpoint
	parts      []coordinator.ManifestPart
	// names are the files of parts, "" for what lies in the database.
	names []string
	// sharedDigest is what the record had, "" where opening had to compute it.
	sharedDigest string

	// file is that of part number open; only the part that is being read has its file
	// open, however many parts there are.
	file *os.File
	open int
	// reader is where the shared state was read last.
	reader sharedReader
}

var _ coordinator.RestoreSource = (*restore)(nil)

// OpenRestore leases a completed checkpoint and reads its manifest.
func (s *Store) OpenRestore(ctx context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	r := &restore{store: s, call: call, lease: "restore " + call.Token}
	if call.Token == "" {
		r.lease += newName()
	}
	// The lease comes first, so that what the manifest names is still there afterwards.
	id, err := r.admit(ctx)
	if err != nil {
		return nil, err
	}
	r.call.ID = id
	_, err = read(ctx, s, func(st *step) (struct{}, error) { return struct{}{}, r.readManifest(st) })
	if err == nil {
		err = r.checkFiles()
	}
	err = r.unlessDeleted(ctx, err)
	if err != nil {
		// Without a reader the lease would only hold up retention; failing to give it
		// back leaves it to its time.
		_ = r.Release(context.WithoutCancel(ctx))
		return nil, err
	}
	r.saveSharedDigest(ctx)
	return r, nil
}

// unlessDeleted says of damage whether it is one: what a deletion has taken since is not.
func (r *restore) unlessDeleted(ctx context.Context, err error) error {
	if coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged {
		return err
	}
	_, gone := read(ctx, r.store, func(st *step) (*checkpoint, error) { return st.find(r.call.Ref, false) })
	if coordinator.CodeOf(gone) == coordinator.CodeCheckpointDeleted {
		return gone
	}
	return err
}

// admit finds the checkpoint, and leases it if the call wants a lease.
func (r *restore) admit(ctx context.Context) (int64, error) {
	find := func(leaseMs int64) func(*step) (int64, error) {
		return func(st *step) (int64, error) {
			c, err := st.find(r.call.Ref, false)
			if err != nil {
				return 0, err
			}
			if status := c.at(st.now).Status; status != coordinator.StatusCompleted {
				return 0, coordinator.ErrNotCompleted(c.id, status)
			}
			if c.Version > coordinator.SnapshotVersion {
				return 0, coordinator.ErrUnsupportedVersion(c.id, c.Version)
			}
			if leaseMs > 0 {
				st.lease(c, r.lease, st.now+leaseMs)
			}
			return c.id, nil
		}
	}
	if r.call.LeaseMs > 0 {
		id, err := free(ctx, r.store, find(r.call.LeaseMs))
		if coordinator.CodeOf(err) != coordinator.CodeStoreFull {
			return id, err
		}
		// Reading goes on when the disk is full. Without its lease a restore may break
		// off, but it never reads anything wrong.
	}
	return read(ctx, r.store, find(0))
}

// readManifest reads what is selected, in restore order, and checks what shows without
// reading any part.
func (r *restore) readManifest(st *step) error {
	c, err := st.find(r.call.Ref, false)
	if err != nil {
		return err
	}
	r.checkpoint = c.view(st.now)
	if r.call.Tasks == nil || r.call.Shared {
		sum, err := c.sumShared()
		if err != nil {
			return err
		}
		r.sharedDigest = c.Shared.Digest
		r.add(coordinator.ManifestPart{Shared: true, PartInfo: sum}, "")
	}
	if r.call.Tasks != nil {
		tasks := slices.Clone(r.call.Tasks)
		slices.Sort(tasks)
		for _, task := range slices.Compact(tasks) {
			given, err := c.ack(task)
			if err != nil {
				return err
			}
			if given == nil {
				return c.withoutPart(task)
			}
			if err := r.addTask(c, task, given); err != nil {
				return err
			}
		}
		return nil
	}
	for task, text := range ascend(child(c.b, bucketAcks), nil) {
		given, err := c.readAck(string(task), text)
		if err != nil {
			return err
		}
		if err := r.addTask(c, string(task), given); err != nil {
			return err
		}
	}
	var entries, size int64
	for _, p := range r.parts {
		entries, size = entries+p.Entries, size+p.Bytes
	}
	if found := len(r.parts) - 1; found != c.Acked || entries != c.Entries || size != c.Bytes {
		return c.job.inconsistent(c.id, "the list of acknowledgements", fmt.Errorf("%d of %d are there, with %d of %d entries and %d of %d bytes", found, c.Acked, entries, c.Entries, size, c.Bytes))
	}
	return nil
}

// withoutPart is the refusal for a task that has not acknowledged a completed checkpoint.
func (c *checkpoint) withoutPart(task string) error {
	if err := c.checkTotals(); err != nil { // it may be one that the list has lost
		return err
	}
	switch {
	case c.Named && c.expects(task):
		return coordinator.ErrTaskAbsent(c.id, task, true)
	case !c.Named && c.Acked < c.Required:
		return coordinator.ErrTaskAbsent(c.id, task, false)
	}
	return coordinator.ErrTaskNotInCheckpoint(c.id, task)
}

func (r *restore) add(p coordinator.ManifestPart, file string) {
	r.parts, r.names = append(r.parts, p), append(r.names, file)
}

// addTask adds the part of an acknowledged task if it is as the acknowledgement says.
func (r *restore) addTask(c *checkpoint, task string, given *ack) error {
	info := given.info()
	file := ""
	p, err := c.ackedPart(task, given)
	switch {
	case err != nil:
		return err
	case p == nil:
	case p.File:
		file = p.Upload
	case int64(len(get(child(c.b, bucketContent), []byte(task)))) != info.Bytes:
		return damaged(c.id, task, errors.New("its bytes are missing or not as many as recorded"))
	}
	r.add(coordinator.ManifestPart{TaskID: task, PartInfo: info}, file)
	return nil
}

func damaged(id int64, task string, cause error) error {
	return coordinator.ErrSnapshotDamaged(id, fmt.Sprintf("the part of task %q", task), cause)
}

// checkFiles looks whether every file is there and as long as recorded.
func (r *restore) checkFiles() error {
	for i, name := range r.names {
		if name == "" {
			continue
		}
		if err := r.store.folder.look(name, r.parts[i].Bytes); err != nil {
			return r.store.folder.refusal(err, r.call.ID, r.parts[i].TaskID)
		}
	}
	return nil
}

// Checkpoint is what is restored, as it was when the restore was opened.
func (r *restore) Checkpoint() coordinator.Checkpoint { return r.checkpoint }

// Parts are the selected parts in restore order.
func (r *restore) Parts() []coordinator.ManifestPart { return r.parts }

// ReadAt reads from one part, up to the end of the chunk that off lies in. It looks
// first whether the checkpoint is still there: deleting it must break off a running
// restore, although an open file would outlive its name.
func (r *restore) ReadAt(ctx context.Context, number int, p []byte, off int64) (int, error) {
	info := r.parts[number]
	if off < 0 || off >= info.Bytes {
		return 0, io.EOF
	}
	end := min(info.Bytes, (off/coordinator.ChunkBytes+1)*coordinator.ChunkBytes)
	p = p[:min(int64(len(p)), end-off)]
	n, err := read(ctx, r.store, func(st *step) (int, error) {
		c, err := st.find(r.call.Ref, false)
		switch {
		case err != nil: // it was deleted, which is no damage
			return 0, err
		case info.Shared:
			return r.reader.readAt(c, p, off), nil
		case r.names[number] != "":
			return len(p), nil // read below, without a transaction
		}
		content := get(child(c.b, bucketContent), []byte(info.TaskID))
		return copy(p, content[min(off, int64(len(content))):]), nil
	})
	if err == nil && r.names[number] != "" {
		n, err = r.readFile(number, p, off)
	}
	if err != nil {
		return 0, err
	}
	if n < len(p) {
		return 0, coordinator.ErrSnapshotDamaged(r.call.ID, partName(info), io.ErrUnexpectedEOF)
	}
	return n, nil
}

func partName(p coordinator.ManifestPart) string {
	if p.Shared {
		return "the shared state"
	}
	return fmt.Sprintf("the part of task %q", p.TaskID)
}

// readFile reads from the file of a part and keeps it open for the next call.
func (r *restore) readFile(number int, p []byte, off int64) (int, error) {
	if r.file == nil || r.open != number {
		if err := r.Close(); err != nil {
			return 0, err
		}
		file, err := r.store.folder.open(r.names[number])
		if err != nil {
			return 0, r.store.folder.refusal(err, r.call.ID, r.parts[number].TaskID)
		}
		r.file, r.open = file, number
	}
	n, err := r.store.folder.readAt(r.file, p, off)
	if err != nil {
		return 0, r.store.folder.refusal(err, r.call.ID, r.parts[number].TaskID)
	}
	return n, nil
}

// Renew prolongs the lease.
func (r *restore) Renew(ctx context.Context) error {
	_, err := free(ctx, r.store, func(st *step) (struct{}, error) {
		c, err := st.find(r.call.Ref, false)
		if err == nil {
			st.lease(c, r.lease, st.now+r.call.LeaseMs)
		}
		return struct{}{}, err
	})
	return err
}

// Release gives the lease back. A checkpoint that is gone has no leases.
func (r *restore) Release(ctx context.Context) error {
	if r.call.LeaseMs <= 0 {
		return nil
	}
	_, err := free(ctx, r.store, func(st *step) (struct{}, error) {
		if c, err := st.find(r.call.Ref, false); err == nil {
			st.delete(child(c.b, bucketLeases), []byte(r.lease))
		}
		return struct{}{}, nil
	})
	return err
}

// Close closes the open file and leaves the lease to its time.
func (r *restore) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	if err != nil {
		return coordinator.ErrInternal(fmt.Errorf("close the file of a part: %w", err))
	}
	return nil
}
