package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"runtime/debug"
	"sync"
)

// piece is the next bytes of a restore, or why there are none.
type piece struct {
	bytes []byte
	err   error
	// last tells that these are the last bytes of all.
	last bool
	// buffer is where bytes lies; it goes back to the reader.
	buffer *[ChunkBytes]byte
}

// readAhead is how many chunks of a restore are in memory: one that is being sent and one
// that is being read. A reader that has stopped reading holds no more than these.
const readAhead = 2

var buffers = sync.Pool{New: func() any { return new([ChunkBytes]byte) }}

// writeRange sends a piece while the next is read from the store and hashed.
func (r *Restore) writeRange(w io.Writer, offset, length int64) error {
	if length == 0 {
		r.release()
		return nil
	}
	pieces, done := r.pieces(offset, length)
	defer done()
	for p := range pieces {
		// Deleted meanwhile: that is the reason then, and not what reading met.
		if cause := context.Cause(r.ctx); cause != nil {
			return asError(cause)
		}
		if p.err != nil {
			return asError(p.err)
		}
		if p.last {
			r.release()
		}
		if _, err := w.Write(p.bytes); err != nil {
			return fmt.Errorf("writing to the reader: %w", err)
		}
	}
	return nil
}

// pieces reads length bytes from offset, ahead of the loop over them. The bytes of a piece
// are valid until the loop asks for the next. done ends the reading and waits for its end.
func (r *Restore) pieces(offset, length int64) (pieces iter.Seq[piece], done func()) {
	if length <= ChunkBytes {
		// What is little is read as it is sent: there is nothing to gain.
		buffer := buffers.Get().(*[ChunkBytes]byte) //nolint:forcetypeassert // The pool holds nothing else.
		read := func(yield func(piece) bool) {
			r.read(r.ctx, offset, length, func() *[ChunkBytes]byte { return buffer }, yield)
		}
		return read, func() { buffers.Put(buffer) }
	}
	ctx, stop := context.WithCancel(r.ctx)
	free := make(chan *[ChunkBytes]byte, readAhead)
	for range readAhead {
		free <- buffers.Get().(*[ChunkBytes]byte) //nolint:forcetypeassert // The pool holds nothing else.
	}
	ready := make(chan piece, readAhead+1) // one for each buffer, and one for a panic
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(ready)
		take := func() *[ChunkBytes]byte {
			select {
			case buffer := <-free:
				return buffer
			case <-ctx.Done():
				return nil
			}
		}
		defer func() {
			if cause := recover(); cause != nil { // which only the request's own goroutine survives
				ready <- piece{err: ErrInternal(fmt.Errorf("reading a restore panicked: %v\n%s", cause, debug.Stack()))}
			}
		}()
		r.read(ctx, offset, length, take, func(p piece) bool {
			ready <- p
			return true
		})
	})
	consume := func(yield func(piece) bool) {
		for p := range ready {
			more := yield(p)
			if p.buffer != nil {
				free <- p.buffer
			}
			if !more {
				return
			}
		}
	}
	return consume, func() {
		stop()
		for p := range ready { // until the reader has closed it
			if p.buffer != nil {
				free <- p.buffer
			}
		}
		reading.Wait()
		close(free)
		for buffer := range free {
			buffers.Put(buffer)
		}
	}
}

// read yields pieces, each in a buffer that take gives, until they end, one has failed, or
// take gives nil. The last piece of a part that is sent whole fails unless the digest of all
// is as recorded: nobody ever gets a complete part with wrong bytes in it.
func (r *Restore) read(ctx context.Context, offset, length int64, take func() *[ChunkBytes]byte, yield func(piece) bool) {
	for i, part := range r.parts {
		if offset >= part.Bytes {
			offset -= part.Bytes
			continue
		}
		left := min(length, part.Bytes-offset)
		var sum hash.Hash
		if left == part.Bytes {
			sum = sha256.New()
		}
		for left > 0 {
			buffer := take()
			if buffer == nil {
				return
			}
			// Reads end at chunk borders, so that each touches one chunk of the store.
			n := min(left, ChunkBytes-offset%ChunkBytes)
			got, err := r.source.ReadAt(ctx, i, buffer[:n], offset)
			if err == nil && got == 0 {
				err = ErrSnapshotDamaged(r.checkpoint.ID, partName(part), io.ErrUnexpectedEOF)
			}
			offset, left, length = offset+int64(got), left-int64(got), length-int64(got)
			if err == nil && sum != nil {
				err = r.check(sum, part, buffer[:got], left == 0)
			}
			if !yield(piece{bytes: buffer[:got], err: err, last: length == 0, buffer: buffer}) || err != nil {
				return
			}
		}
		if offset = 0; length == 0 {
			return
		}
	}
}

// check adds bytes to the sum of a part, and holds the sum against the part's digest when
// they are the last.
func (r *Restore) check(sum hash.Hash, part ManifestPart, p []byte, ends bool) error {
	sum.Write(p)
	if ends && "sha256:"+hex.EncodeToString(sum.Sum(nil)) != part.Digest {
		return ErrSnapshotDamaged(r.checkpoint.ID, partName(part), errors.New("its bytes do not have the recorded digest"))
	}
	return nil
}
