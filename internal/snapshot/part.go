package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

const digestPrefix = "sha256:"

// PartWriter renders entries into the restore bytes of one part and hands them
// on in chunks. It keeps at most one chunk in memory.
type PartWriter struct {
	taskID   string
	maxBytes int64
	put      func(index int, chunk []byte) error

	chunk   []byte
	head    []byte
	sum     hash.Hash
	entries int64
	bytes   int64
	chunks  int
	err     error
}

var errFinished = errors.New("the part is already finished")

// NewPartWriter returns a writer for the part of taskID, or for the shared
// state where taskID is Shared. The part may have maxBytes restore bytes. put
// takes the chunks in order, from index 0: each of exactly ChunkSize bytes but
// the last, which is shorter or equal, and never an empty one. It must not keep
// the slice. Its error stops the writer and comes back wrapped.
func NewPartWriter(taskID string, maxBytes int64, put func(index int, chunk []byte) error) *PartWriter {
	return &PartWriter{taskID: taskID, maxBytes: maxBytes, put: put, sum: sha256.New()}
}

// Bytes counts the restore bytes so far, which is also the offset of the next
// entry's line.
func (w *PartWriter) Bytes() int64 { return w.bytes }

// Entries counts the entries so far.
func (w *PartWriter) Entries() int64 { return w.entries }

// Add renders one entry. Key and value are not kept; the value must be
// canonical. The error is a *TooLargeError when the part would exceed its
// limit, otherwise the chunk callback's. After an error the writer is of no use
// any more and keeps answering that error.
func (w *PartWriter) Add(key, value []byte) error {
	if w.err != nil {
		return w.err
	}
	w.head = appendHead(w.head[:0], w.taskID, key)
	size := int64(len(w.head) + len(value) + len("}\n"))
	if size > w.maxBytes-w.bytes {
		w.err = &TooLargeError{
			What: "part", Max: w.maxBytes,
			Detail: fmt.Sprintf("the part is larger than %d bytes", w.maxBytes),
		}
		return w.err
	}
	w.write(w.head)
	w.write(value)
	w.write([]byte("}\n"))
	if w.err != nil {
		return w.err
	}
	w.entries++
	w.bytes += size
	return nil
}

// Finish hands on the last chunk and describes the part. An empty part has no
// chunk at all. The writer is of no use any more afterwards.
func (w *PartWriter) Finish() (coordinator.PartInfo, error) {
	if w.err == nil && len(w.chunk) > 0 {
		w.flush()
	}
	if w.err != nil {
		return coordinator.PartInfo{}, w.err
	}
	w.err = errFinished
	return coordinator.PartInfo{Entries: w.entries, Bytes: w.bytes, Digest: digestOf(w.sum)}, nil
}

func (w *PartWriter) write(b []byte) {
	for len(b) > 0 && w.err == nil {
		n := min(len(b), ChunkSize-len(w.chunk))
		w.chunk = append(w.chunk, b[:n]...)
		b = b[n:]
		if len(w.chunk) == ChunkSize {
			w.flush()
		}
	}
}

func (w *PartWriter) flush() {
	w.sum.Write(w.chunk)
	if err := w.put(w.chunks, w.chunk); err != nil {
		w.err = fmt.Errorf("put chunk %d: %w", w.chunks, err)
	}
	w.chunks++
	w.chunk = w.chunk[:0]
}

func digestOf(sum hash.Hash) string {
	return digestPrefix + hex.EncodeToString(sum.Sum(nil))
}
