package coordinator

import (
	"context"
	"io"
	"time"
)

// RestoreRecord is one transfer of a snapshot's bytes.
type RestoreRecord struct {
	CheckpointID int64
	// At is when it ended (Unix ms); the store fills it in.
	At       int64
	Bytes    int64
	Finished bool
	// By says who asked, as far as that is known.
	By string
}

// countingWriter knows how many bytes went through it.
type countingWriter struct {
	to      io.Writer
	written int64
}

// Write passes p on.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.written += int64(n)
	return n, err //nolint:wrapcheck // It is only passed through.
}

// recordTimeout is how long a store that is away may hold up the end of a transfer.
const recordTimeout = 2 * time.Second

// record keeps that the transfer took place. Failing to is no failure of the transfer.
func (r *Restore) record(bytes int64, finished bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), recordTimeout)
	defer cancel()
	_, err := call(r.coordinator, "record_restore", func() (struct{}, error) {
		return struct{}{}, r.coordinator.store.RecordRestore(ctx, r.checkpoint.Job, RestoreRecord{
			CheckpointID: r.checkpoint.ID, Bytes: bytes, Finished: finished, By: r.by,
		})
	})
	if err != nil {
		r.coordinator.observer.BackgroundFailed("record_restore", err)
	}
}
