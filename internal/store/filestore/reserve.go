package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// reserveBytes is room for hundreds of small commits.
const reserveBytes = 1 << 20

// reserveRetryMs is the time between attempts to take the reserve again: on a disk that
// is still full each of them would take away what is left.
const reserveRetryMs = 10_000

// reserve is a file that takes up room for the day when the disk is full. A database
// must write even to delete, so without it a full disk could not be freed any more by
// those who want to: it is given up for the changes that free room.
type reserve struct {
	disk disk
	path string

	mu    sync.Mutex
	held  bool
	again int64 // when to try to take it again, in Unix ms
}

// take takes the room if it is not held. A disk without room is no error: the store must
// open on it.
func (r *reserve) take(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held || now < r.again {
		return
	}
	r.again = now + reserveRetryMs
	if err := r.write(); err != nil {
		_ = r.disk.Remove(r.path) // half a reserve is none
		return
	}
	r.held = true
}

func (r *reserve) write() error {
	file, err := r.disk.Open(r.path, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("make the reserve: %w", err)
	}
	if _, err := r.disk.WriteAt(file, make([]byte, reserveBytes), 0); err != nil {
		return errors.Join(fmt.Errorf("write the reserve: %w", err), file.Close())
	}
	return errors.Join(r.disk.Sync(file), file.Close())
}

func (r *reserve) isHeld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// give gives the room back to the disk, and tells whether there was any.
func (r *reserve) give() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held {
		return false
	}
	r.held = false
	err := r.disk.Remove(r.path)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}
