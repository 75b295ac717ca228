package handlers

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/go-cmp/cmp"
)

// stuck is a connection whose client does not read: small writes find room, flushing does
// not.
type stuck struct {
	*httptest.ResponseRecorder

	err    error
	writes []int
}

func (s *stuck) Write(p []byte) (int, error) {
	s.writes = append(s.writes, len(p))
	return s.ResponseRecorder.Write(p)
}

func (s *stuck) FlushError() error { return s.err }

func TestAnEventThatCannotBeFlushedIsNoticedBehindTheRoutersWriter(t *testing.T) {
	t.Parallel()
	connection := &stuck{ResponseRecorder: httptest.NewRecorder(), err: os.ErrDeadlineExceeded}
	var w http.ResponseWriter = middleware.NewWrapResponseWriter(connection, 1)
	sink := newEventSink(middleware.NewWrapResponseWriter(w, 1), time.Second)
	sink.flush()
	if sink.err != nil {
		t.Errorf("nothing was flushed, with %v", sink.err)
	}
	sink.add([]byte("id: 0-1\n\n"))
	sink.flush()
	if !errors.Is(sink.err, os.ErrDeadlineExceeded) {
		t.Errorf("the error is %v", sink.err)
	}
	sink.add([]byte("id: 0-2\n\n"))
	sink.flush()
	if got := connection.Body.String(); got != "id: 0-1\n\n" {
		t.Errorf("%q was written", got)
	}
}

func TestFramesAreWrittenTogetherButNeverMuchAtATime(t *testing.T) {
	t.Parallel()
	connection := &stuck{ResponseRecorder: httptest.NewRecorder()}
	sink := newEventSink(connection, time.Second)
	for range 3 {
		sink.add([]byte("id: 0-1\n\n"))
	}
	sink.flush()
	for range 5 {
		sink.add([]byte(strings.Repeat("x", eventPiece/2)))
	}
	sink.flush()
	if diff := cmp.Diff([]int{27, eventPiece, eventPiece, eventPiece / 2}, connection.writes); diff != "" || sink.err != nil {
		t.Errorf("writes (-want +got), error %v:\n%s", sink.err, diff)
	}
}
