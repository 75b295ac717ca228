package coordinator

import (
	"context"
	"crypto/sha256"
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
	buffer *chunkBuffer
}

// chunkBuffer has room for a chunk, and behind it for what ReadAt may use besides.
type chunkBuffer [ChunkBytes + ReadSlack]byte

// readAhead is how many chunks of a restore are in memory: one that is being sent and one
// that is being read. A reader that has stopped reading holds no more than these.
const readAhead = 2

var buffers = sync.Pool{New: func() any { return new(chunkBuffer) }}

// writeRange sends a piece while it is hashed and the next is read from the store.
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
		buffer := buffers.Get().(*chunkBuffer) //nolint:forcetypeassert // The pool holds nothing else.
		read := func(yield func(piece) bool) {
			r.read(r.ctx, offset, length, func() *chunkBuffer { return buffer }, yield)
		}
		return read, func() { buffers.Put(buffer) }
	}
	ctx, stop := context.WithCancel(r.ctx)
	free := make(chan *chunkBuffer, readAhead)
	for range readAhead {
		free <- buffers.Get().(*chunkBuffer) //nolint:forcetypeassert // The pool holds nothing else.
	}
	ready := make(chan piece, readAhead+1) // one for each buffer, and one for a panic
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(ready)
		take := func() *chunkBuffer {
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
// take gives nil. The last piece of a part fails unless the digest of all of the part is as
// recorded, what a resumed transfer leaves out included: nobody ever gets a complete part with
// wrong bytes in it. The pieces before it are hashed while they are sent and the next is read.
func (r *Restore) read(ctx context.Context, offset, length int64, take func() *chunkBuffer, yield func(piece) bool) {
	sum := partSum{beside: length > ChunkBytes} // else there is one buffer only, see pieces
	defer sum.wait()                            // before anybody else gets the buffers
	for i, part := range r.parts {
		if offset >= part.Bytes {
			offset -= part.Bytes
			continue
		}
		left := min(length, part.Bytes-offset)
		sum.hash = nil
		if offset+left == part.Bytes {
			sum.hash = sha256.New()
			if err := r.hashUpTo(ctx, sum.hash, i, offset); err != nil {
				yield(piece{err: err})
				return
			}
		}
		for left > 0 {
			buffer := take()
			if buffer == nil {
				return
			}
			// Reads end at chunk borders, so that each touches one chunk of the store.
			n := min(left, ChunkBytes-offset%ChunkBytes)
			got, err := r.readAt(ctx, i, buffer[:n], offset)
			offset, left, length = offset+int64(got), left-int64(got), length-int64(got)
			if err == nil && sum.hash != nil {
				err = r.check(&sum, part, buffer[:got], left == 0)
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

// readAt reads at least one byte of a part.
func (r *Restore) readAt(ctx context.Context, i int, p []byte, offset int64) (int, error) {
	got, err := r.source.ReadAt(ctx, i, p, offset)
	if err == nil && got == 0 {
		err = ErrSnapshotDamaged(r.checkpoint.ID, partName(r.parts[i]), io.ErrUnexpectedEOF)
	}
	return got, err
}

// hashUpTo adds the bytes of a part before end to its sum: the client has them from a transfer
// that broke off, perhaps because of what is wrong with them.
func (r *Restore) hashUpTo(ctx context.Context, sum hash.Hash, i int, end int64) error {
	if end == 0 {
		return nil
	}
	buffer := buffers.Get().(*chunkBuffer) //nolint:forcetypeassert // The pool holds nothing else.
	defer buffers.Put(buffer)
	for offset := int64(0); offset < end; {
		n := min(end-offset, ChunkBytes-offset%ChunkBytes)
		got, err := r.readAt(ctx, i, buffer[:n], offset)
		if err != nil {
			return err
		}
		sum.Write(buffer[:got])
		offset += int64(got)
	}
	return nil
}

// check adds bytes to the sum of a part, and holds the sum against the part's digest when
// they are the last.
func (r *Restore) check(sum *partSum, part ManifestPart, p []byte, ends bool) error {
	sum.wait() // for the piece before: its buffer is the next to be taken
	if !ends && sum.beside {
		sum.begin(p)
		return nil
	}
	sum.hash.Write(p)
	if ends && Digest(sum.hash.Sum(nil)) != part.Digest {
		return ErrSnapshotDamaged(r.checkpoint.ID, partName(part), errors.New("its bytes do not have the recorded digest"))
	}
	return nil
}

// partSum hashes a part beside what else is done with its bytes.
type partSum struct {
	// hash is nil for a part that is not sent to its end.
	hash    hash.Hash
	hashing sync.WaitGroup
	// beside tells that the next piece is read into another buffer than the one before it.
	beside bool
}

// begin begins to hash p, which must stay as it is until wait has returned.
func (s *partSum) begin(p []byte) {
	s.hashing.Go(func() { s.hash.Write(p) })
}

// wait returns when everything that was begun is hashed.
func (s *partSum) wait() { s.hashing.Wait() }
