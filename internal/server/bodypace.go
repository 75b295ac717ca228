package server

import (
	"io"
	"net/http"
	"time"
)

// Body pacing. A request body may take bodyGrace, and a second more for each
// bodyMinRate bytes that came: a slow-loris that trickles bytes is cut off, while a
// long upload is never cut for being long. http.Server's ReadTimeout cannot do that.
const (
	bodyGrace   = 60 * time.Second
	bodyMinRate = 512 // bytes a second
)

// paceBodies makes next read its bodies at a pace.
func paceBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &pacedBody{ReadCloser: r.Body, control: http.NewResponseController(w), began: time.Now()}
		}
		next.ServeHTTP(w, r)
	})
}

type pacedBody struct {
	io.ReadCloser

	control *http.ResponseController
	began   time.Time
	read    int64
	done    bool
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if b.done {
		return b.ReadCloser.Read(p)
	}
	// Where no deadline can be set (a test's recorder) the body is read without one.
	_ = b.control.SetReadDeadline(b.began.Add(bodyGrace + time.Duration(b.read/bodyMinRate)*time.Second))
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF {
		// The deadline must go: it would cancel the handler's context in mid-answer.
		b.done = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
