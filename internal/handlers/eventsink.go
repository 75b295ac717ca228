package handlers

import (
	"net/http"
	"sync"
	"time"
)

// eventPiece is how many bytes a client must take at a time. Only one that has much to
// catch up with gets several pieces at once.
const eventPiece = 64 << 10

// eventSink gathers frames and sends them together. Its first error stays.
type eventSink struct {
	to       http.ResponseWriter
	control  *http.ResponseController
	flusher  interface{ FlushError() error }
	patience time.Duration
	// frames are those that were not sent yet; nil when there are none, since most of
	// thousands of streams have nothing to send.
	frames *[]byte
	err    error
}

var frameBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

func newEventSink(w http.ResponseWriter, patience time.Duration) *eventSink {
	control := http.NewResponseController(w)
	return &eventSink{to: w, control: control, flusher: flusherOf(w, control), patience: patience}
}

// flusherOf finds the writer that tells whether flushing worked. The router's wrapper does
// not, and the deadline that a slow client missed would be taken for a client that left.
func flusherOf(w http.ResponseWriter, control *http.ResponseController) interface{ FlushError() error } {
	for {
		switch t := w.(type) {
		case interface{ FlushError() error }:
			return t
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return controlFlusher{control}
		}
	}
}

type controlFlusher struct{ *http.ResponseController }

// FlushError flushes as far as that can be done.
func (c controlFlusher) FlushError() error { return c.Flush() } //nolint:wrapcheck // It only renames.

// add puts a frame behind the others.
func (s *eventSink) add(frame []byte) {
	if s.err != nil {
		return
	}
	if s.frames == nil {
		s.frames = frameBuffers.Get().(*[]byte) //nolint:forcetypeassert // The pool holds nothing else.
	}
	*s.frames = append(*s.frames, frame...)
	if len(*s.frames) >= eventPiece {
		s.write()
	}
}

// flush sends what was added.
func (s *eventSink) flush() {
	if s.frames == nil {
		return
	}
	s.write()
	if s.err == nil {
		s.err = s.flusher.FlushError()
	}
	if cap(*s.frames) <= 2*eventPiece {
		frameBuffers.Put(s.frames)
	}
	s.frames = nil
}

func (s *eventSink) write() {
	if len(*s.frames) > 0 {
		s.patient()
		_, s.err = s.to.Write(*s.frames)
	}
	*s.frames = (*s.frames)[:0]
}

// patient gives the client time for the next write. A server without deadlines waits.
func (s *eventSink) patient() { _ = s.control.SetWriteDeadline(time.Now().Add(s.patience)) }
