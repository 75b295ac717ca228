package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"runtime/debug"
	"sync"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// PartWriter renders entries into the restore bytes of one part and hands them
// on in chunks. It keeps at most two chunks in memory: one that fills, and one
// that is hashed and handed on meanwhile. Close it.
type PartWriter struct {
	maxBytes int64
	put      func(index int, chunk []byte) error

	// prefix is what every line begins with, up to where the key's text stands.
	prefix  []byte
	chunk   []byte
	head    []byte
	entries int64
	bytes   int64
	err     error

	pace Pace

	// buffers are those that chunks lie in, once there is more than a little.
	buffers [2]*[ChunkSize]byte
	// handing ends the goroutine that hands a chunk on; only that touches what
	// follows, and nobody does while there is none.
	handing chan struct{}
	sum     hash.Hash
	chunks  int
	putErr  error
}

// Pace lets a writer that is one of many leave the processor to the others.
type Pace interface {
	// Wait waits for done to be closed, on the goroutine that writes.
	Wait(done <-chan struct{})
	// Compute runs a function that computes for some tenths of a millisecond, on another
	// goroutine.
	Compute(f func())
}

// KeepPace has the writer wait and compute through pace.
func (w *PartWriter) KeepPace(pace Pace) { w.pace = pace }

var errFinished = errors.New("the part is already finished")

// firstChunk is up to how many bytes a part has no buffer of a whole chunk.
const firstChunk = 32 << 10

var chunkBuffers = sync.Pool{New: func() any { return new([ChunkSize]byte) }}

// NewPartWriter returns a writer for the part of taskID, or for the shared
// state where taskID is Shared. The part may have maxBytes restore bytes. put
// takes the chunks in order, from index 0: each of exactly ChunkSize bytes but
// the last, which is shorter or equal, and never an empty one. It is called
// from another goroutine, one call at a time, and never after Finish or Close
// has returned. It must not keep the slice. Its error stops the writer and
// comes back wrapped.
func NewPartWriter(taskID string, maxBytes int64, put func(index int, chunk []byte) error) *PartWriter {
	return &PartWriter{prefix: linePrefix(taskID), maxBytes: maxBytes, put: put, sum: sha256.New()}
}

// Bytes counts the restore bytes so far, which is also the offset of the next
// entry's line.
func (w *PartWriter) Bytes() int64 { return w.bytes }

// Entries counts the entries so far.
func (w *PartWriter) Entries() int64 { return w.entries }

// Add renders one entry. Key and value are not kept; the value must be
// canonical. The error is a *TooLargeError when the part would exceed its
// limit, otherwise the chunk callback's, maybe for a chunk of some calls ago.
// After an error the writer is of no use any more and keeps answering that
// error.
func (w *PartWriter) Add(key, value []byte) error {
	if w.err != nil {
		return w.err
	}
	w.head = append(appendEscaped(append(w.head[:0], w.prefix...), key), headEnd...)
	size := int64(len(w.head) + len(value) + len("}\n"))
	if size > w.maxBytes-w.bytes {
		w.err = &TooLargeError{
			What: "part", Max: w.maxBytes,
			Detail: fmt.Sprintf("the part is larger than %d bytes", w.maxBytes),
		}
		return w.err
	}
	if int(size) < cap(w.chunk)-len(w.chunk) {
		w.chunk = append(append(append(w.chunk, w.head...), value...), "}\n"...)
	} else {
		w.write(w.head)
		w.write(value)
		w.write([]byte("}\n"))
	}
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
	w.wait()
	if w.err != nil {
		return coordinator.PartInfo{}, w.err
	}
	w.err = errFinished
	return coordinator.PartInfo{Entries: w.entries, Bytes: w.bytes, Digest: digestOf(w.sum)}, nil
}

// Close waits for a chunk that is handed on and gives the memory back. It is
// harmless after Finish.
func (w *PartWriter) Close() {
	w.wait()
	if w.err == nil {
		w.err = errFinished
	}
	w.chunk = nil
	for i, buffer := range w.buffers {
		if buffer != nil {
			chunkBuffers.Put(buffer)
			w.buffers[i] = nil
		}
	}
}

// write adds bytes, and hands chunks on as they are full.
func (w *PartWriter) write(b []byte) {
	for len(b) > 0 && w.err == nil {
		if len(w.chunk)+len(b) > cap(w.chunk) && cap(w.chunk) < ChunkSize {
			w.grow(len(w.chunk) + len(b))
		}
		n := min(len(b), cap(w.chunk)-len(w.chunk))
		w.chunk = append(w.chunk, b[:n]...)
		b = b[n:]
		if len(w.chunk) == ChunkSize {
			w.flush()
		}
	}
}

// grow makes room for size bytes, or for a whole chunk.
func (w *PartWriter) grow(size int) {
	if size <= firstChunk {
		size = min(max(size, 2*cap(w.chunk)), firstChunk)
		w.chunk = append(make([]byte, 0, size), w.chunk...)
		return
	}
	w.buffers[0] = chunkBuffers.Get().(*[ChunkSize]byte) //nolint:forcetypeassert // The pool holds nothing else.
	w.chunk = append(w.buffers[0][:0], w.chunk...)
}

// flush hands the chunk on. The one before must have gone; while this one goes,
// the next fills.
func (w *PartWriter) flush() {
	w.wait()
	if w.err != nil {
		return
	}
	chunk, handing, pace := w.chunk, make(chan struct{}), w.pace
	w.handing = handing
	go func() {
		defer close(handing)
		defer func() {
			if cause := recover(); cause != nil { // which only the request's own goroutine survives
				w.putErr = coordinator.ErrInternal(fmt.Errorf("putting chunk %d panicked: %v\n%s", w.chunks, cause, debug.Stack()))
			}
		}()
		if pace == nil {
			w.sum.Write(chunk)
		} else {
			pace.Compute(func() { w.sum.Write(chunk) })
		}
		if err := w.put(w.chunks, chunk); err != nil {
			w.putErr = fmt.Errorf("put chunk %d: %w", w.chunks, err)
		}
		w.chunks++
	}()
	if len(chunk) < ChunkSize {
		w.chunk = nil // it was the last
		return
	}
	w.buffers[0], w.buffers[1] = w.buffers[1], w.buffers[0]
	if w.buffers[0] == nil {
		w.buffers[0] = chunkBuffers.Get().(*[ChunkSize]byte) //nolint:forcetypeassert // The pool holds nothing else.
	}
	w.chunk = w.buffers[0][:0]
}

// wait returns when no chunk is being handed on.
func (w *PartWriter) wait() {
	if w.handing != nil {
		if w.pace == nil {
			<-w.handing
		} else {
			w.pace.Wait(w.handing)
		}
		w.handing = nil
	}
	if w.err == nil {
		w.err = w.putErr
	}
}

func digestOf(sum hash.Hash) string {
	return coordinator.Digest(sum.Sum(nil))
}
