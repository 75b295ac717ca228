package fault

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"maps"
	"net/http"
	"time"
)

// exchange is a request with its answer, under way or over.
type exchange struct {
	front *Front
	note  Request // guarded by the front's lock
	hash  hash.Hash
}

func newExchange(f *Front, r *http.Request) *exchange {
	return &exchange{front: f, hash: sha256.New(), note: Request{
		At: time.Now(), Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.Query(), Header: r.Header.Clone(),
	}}
}

// readFirst is how much of a body is read before a request is refused; a server answers long
// uploads early, too.
const readFirst = 1 << 20

func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	x, rule, ctx := f.begin(r)
	if x == nil {
		breakOff()
	}
	defer f.end(x)
	body := &bodyReader{ReadCloser: r.Body, exchange: x, left: rule.cutBody}
	if rule.before != nil {
		rule.before()
	}
	if rule.delay > 0 {
		select {
		case <-time.After(rule.delay):
		case <-ctx.Done():
			breakOff()
		}
	}
	switch {
	case rule.cutBefore:
		breakOff()
	case rule.hang:
		_, _ = io.Copy(io.Discard, body) // a client that does not send it all has gone
		<-ctx.Done()
		breakOff()
	case rule.answer != nil:
		if r.Header.Get("Expect") == "" {
			_, _ = io.CopyN(io.Discard, body, readFirst) // what is missing changes nothing
		}
		r.Body = body
		to := &answerWriter{ResponseWriter: w, exchange: x}
		rule.answer(to, r.WithContext(ctx))
		if !to.begun {
			to.WriteHeader(http.StatusOK)
		}
		x.whole()
	default:
		x.relay(ctx, w, r, body, rule)
	}
}

// breakOff closes the connection without another byte; net/http has it so.
func breakOff() { panic(http.ErrAbortHandler) }

// relay passes a request on and its answer back.
func (x *exchange) relay(ctx context.Context, w http.ResponseWriter, r *http.Request, body *bodyReader, rule Rule) {
	out := r.Clone(ctx)
	out.RequestURI, out.Body = "", body
	out.URL.Scheme, out.URL.Host = x.front.target.Scheme, x.front.target.Host
	dropHop(out.Header)
	if r.Body == http.NoBody || r.ContentLength == 0 {
		out.Body = nil
	}
	if rule.rewrite != nil {
		rule.rewrite(out)
	}
	response, err := x.front.transport.RoundTrip(out)
	if err != nil {
		breakOff() // whatever the reason: the server is away, the client has gone, the script cuts
	}
	defer response.Body.Close() //nolint:errcheck // It is read only.
	if rule.alter != nil {
		if err := rule.alter(response); err != nil {
			breakOff()
		}
	}
	if rule.noHead {
		_, _ = io.Copy(io.Discard, response.Body) // until it is carried out
		breakOff()
	}
	dropHop(response.Header)
	maps.Copy(w.Header(), response.Header)
	to := &answerWriter{ResponseWriter: w, exchange: x, left: rule.cutAnswer, cuts: rule.cutAnswer >= 0}
	to.WriteHeader(response.StatusCode)
	to.flush()
	if _, err := io.Copy(to, response.Body); err != nil {
		breakOff()
	}
	x.whole()
}

// dropHop drops what is about one connection only.
func dropHop(header http.Header) {
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		header.Del(name)
	}
}

func (x *exchange) whole() {
	x.front.lock.Lock()
	defer x.front.lock.Unlock()
	x.note.Whole = true
}

// bodyReader notes what is read of a request's body.
type bodyReader struct {
	io.ReadCloser

	exchange *exchange
	left     int64 // bytes until the cut, or -1
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errCut
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	b.exchange.read(p[:n], err == io.EOF)
	return n, err //nolint:wrapcheck // As io.Reader has it.
}

func (x *exchange) read(p []byte, ended bool) {
	x.front.lock.Lock()
	defer x.front.lock.Unlock()
	x.hash.Write(p)
	x.note.BodyBytes += int64(len(p))
	x.note.Body = append(x.note.Body, p[:min(len(p), keep-len(x.note.Body))]...)
	if ended {
		x.note.BodyDigest = "sha256:" + hex.EncodeToString(x.hash.Sum(nil))
		x.front.tell()
	}
}

// answerWriter notes an answer, passes each piece on at once, and cuts.
type answerWriter struct {
	http.ResponseWriter

	exchange *exchange
	left     int64
	cuts     bool
	begun    bool
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *answerWriter) WriteHeader(status int) {
	w.begun = true
	w.exchange.front.lock.Lock()
	w.exchange.note.Status = status
	w.exchange.front.tell()
	w.exchange.front.lock.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	whole := p
	if w.cuts {
		p = p[:min(int64(len(p)), w.left)]
	}
	n, err := w.ResponseWriter.Write(p)
	w.left -= int64(n)
	w.exchange.front.lock.Lock()
	note := &w.exchange.note
	note.AnswerBytes += int64(n)
	note.Answer = append(note.Answer, p[:min(n, keep-len(note.Answer))]...)
	w.exchange.front.lock.Unlock()
	w.flush()
	if err == nil && n < len(whole) {
		err = errCut
	}
	return n, err
}

// flush sends what is written. A client that has gone is noticed by the next write.
func (w *answerWriter) flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }
