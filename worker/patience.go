package worker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// transferPatience is after how much time without a byte, or without an answer to the last one,
// an upload or a restore is given up and begun again. The server has given an upload up after a
// minute; only TCP may take a quarter of an hour to notice that nobody is there, and what stands
// in between may never.
const transferPatience = 2 * time.Minute

var errStuck = errors.New("the transfer does not move on")

// transferFailed names the cause where it was our patience.
func transferFailed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStuck) {
		return cause
	}
	return err
}

// openPatiently sends a request whose answer may take as long as it likes while it moves on.
func (c *client) openPatiently(request *http.Request, patience time.Duration) (*http.Response, error) {
	ctx, cutOff := context.WithCancelCause(request.Context())
	stuck := time.AfterFunc(patience, func() { cutOff(errStuck) })
	response, err := c.open(request.WithContext(ctx))
	stuck.Stop()
	if err != nil {
		cutOff(nil)
		return nil, transferFailed(ctx, err)
	}
	response.Body = &patientBody{ReadCloser: response.Body, ctx: ctx, cutOff: cutOff, stuck: stuck, patience: patience}
	return response, nil
}

// patientBody may be read slowly, but must not keep its reader waiting for long.
type patientBody struct {
	io.ReadCloser

	ctx      context.Context //nolint:containedctx // A reader has no other place for it.
	cutOff   context.CancelCauseFunc
	stuck    *time.Timer // runs only while something is read
	patience time.Duration
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.stuck.Reset(b.patience)
	defer b.stuck.Stop()
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = transferFailed(b.ctx, err)
	}
	return n, err
}

func (b *patientBody) Close() error {
	defer b.cutOff(nil)
	return b.ReadCloser.Close() //nolint:wrapcheck // As io.Closer has it.
}
