package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// upload sends the part once and acknowledges it in the same step.
func (r *run) upload(c *cut, entries Entries, meter *meter) (completed bool, _ error) {
	query := url.Values{"taskId": {r.TaskID}, "ack": {"true"}, "epoch": {strconv.FormatInt(r.epoch, 10)}}
	if r.Attempt > 0 {
		query.Set("attempt", strconv.FormatInt(r.Attempt, 10))
	}
	sending, cutOff := context.WithCancelCause(c.transfer)
	defer cutOff(nil)
	request, err := r.client.request(sending, http.MethodPut, c.path()+"/task/state", query, nil)
	if err != nil {
		return false, err
	}
	stuck := time.AfterFunc(r.transferPatience, func() { cutOff(errStuck) })
	defer stuck.Stop()
	part := newPart(entries, meter, func() { stuck.Reset(r.transferPatience) }) // at its end, too: for the answer
	request.Body = part
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Expect", "100-continue") // a late part is refused before it is sent
	stop := r.keepAlive(c, part)
	defer stop()

	response, err := r.client.open(request)
	// The body may still be read by the transport when an answer came early; no entry may be
	// read twice at the same time.
	if fault := part.finish(); fault != nil {
		err = fault
	}
	if response != nil {
		defer response.Body.Close() //nolint:errcheck // It was read only.
	}
	if err != nil {
		return false, transferFailed(sending, err)
	}
	var answer statusAnswer
	if err := decode(response, &answer); err != nil {
		return false, transferFailed(sending, err)
	}
	return answer.Status == statusCompleted, nil
}

// firstExtension is how long an upload runs before the deadline is moved for the first time.
const firstExtension = time.Second

// keepAlive moves the checkpoint's deadline while the upload gets on. One that is stuck is
// left to its deadline.
func (r *run) keepAlive(c *cut, part *part) (stop func()) {
	if r.ExtendBy < 0 {
		return func() {}
	}
	ended := make(chan struct{})
	r.watchers.Go(func() {
		timer := time.NewTimer(min(firstExtension, r.ExtendBy/3))
		defer timer.Stop()
		for sent := int64(0); ; {
			select {
			case <-ended:
				return
			case <-c.ctx.Done():
				return
			case <-timer.C:
			}
			timer.Reset(min(firstExtension, r.ExtendBy/3))
			now := part.sent.Load()
			if now == sent {
				continue
			}
			sent = now
			body := map[string]int64{"timeoutMs": r.ExtendBy.Milliseconds()}
			if err := r.client.do(c.ctx, call{method: http.MethodPost, path: c.path() + "/extend", body: body}, nil); err != nil {
				r.Logger.DebugContext(c.ctx, "the deadline could not be moved", "checkpoint", c.ID, "error", err)
				continue
			}
			timer.Reset(r.ExtendBy / 3)
		}
	})
	return func() { close(ended) }
}

// part is the body of an upload: entries as lines, made while they are sent.
type part struct {
	*io.PipeReader

	sent atomic.Int64
	// moved is called when the connection has taken something, or the end.
	moved func()
	ended chan struct{}
	err   error // before ended is closed
}

// entriesError is a fault of the entries, and not of what carries them.
type entriesError struct{ error }

func (e *entriesError) Unwrap() error { return e.error }

func newPart(entries Entries, meter *meter, moved func()) *part {
	reader, writer := io.Pipe()
	p := &part{PipeReader: reader, moved: moved, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		err := writeLines(meteredWriter{writer, meter}, entries)
		if fault, is := errors.AsType[*entriesError](err); is {
			p.err = fault
		}
		writer.CloseWithError(err)
	}()
	return p
}

// Read is the transport's.
func (p *part) Read(b []byte) (int, error) {
	n, err := p.PipeReader.Read(b)
	p.sent.Add(int64(n))
	p.moved()
	return n, err //nolint:wrapcheck // As io.Reader has it.
}

// finish ends the reading of entries and gives their error.
func (p *part) finish() error {
	_ = p.PipeReader.Close() // never fails
	<-p.ended
	return p.err
}

// lineBuffer is how much is made before it is handed to the connection.
const lineBuffer = 64 << 10

// meteredWriter passes on what the connection takes, and says how much that was.
type meteredWriter struct {
	io.Writer
	meter *meter
}

// Write passes long values on in pieces, so that there is something to say about each.
func (w meteredWriter) Write(p []byte) (written int, _ error) {
	for len(p) > 0 {
		n, err := w.Writer.Write(p[:min(len(p), lineBuffer)])
		written += n
		w.meter.bytes(n)
		if err != nil {
			return written, err //nolint:wrapcheck // It is the reader's own error.
		}
		p = p[n:]
	}
	return written, nil
}

func writeLines(w meteredWriter, entries Entries) error {
	w.meter.again()
	out := bufio.NewWriterSize(w, lineBuffer)
	if entries == nil {
		return nil // an empty part
	}
	for entry, err := range entries {
		if err != nil {
			return &entriesError{err}
		}
		if err := writeLine(out, entry); err != nil {
			return err
		}
		w.meter.entry()
	}
	return out.Flush() //nolint:wrapcheck // It is the reader's own error.
}

func writeLine(out *bufio.Writer, entry Entry) error {
	if !utf8.ValidString(entry.Key) { // or two keys might become one
		return &entriesError{fmt.Errorf("the key %q is not UTF-8", entry.Key)}
	}
	if len(entry.Value) == 0 {
		return &entriesError{fmt.Errorf("the key %q has no value", entry.Key)}
	}
	value := []byte(entry.Value)
	if bytes.ContainsAny(value, "\r\n") {
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return &entriesError{fmt.Errorf("the value of %q: %w", entry.Key, err)}
		}
		value = compact.Bytes()
	}
	key, err := json.Marshal(entry.Key)
	if err != nil {
		return &entriesError{err}
	}
	for _, piece := range [][]byte{[]byte(`{"key":`), key, []byte(`,"value":`), value, []byte("}\n")} {
		if _, err := out.Write(piece); err != nil {
			return err //nolint:wrapcheck // It is the reader's own error.
		}
	}
	return nil
}
