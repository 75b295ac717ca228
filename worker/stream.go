package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// streamSilence is after which silence a stream is dead: the server says something every
	// 15 seconds.
	streamSilence = 45 * time.Second
	// streamPause is the longest pause before a stream is tried again. Polls go on meanwhile.
	streamPause = 30 * time.Second
	// frameLineMax bounds a line of the stream; an event may name twenty long task ids.
	frameLineMax = 1 << 20
)

// follow keeps the event stream open, resumed after the last event that was seen.
func (r *run) follow(ctx context.Context) error {
	policy := backoff{min: 250 * time.Millisecond, max: streamPause}
	last, refused := "", false
	for {
		began, err := r.stream(ctx, &last)
		r.link.set(false, false)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if isAny(err, CodeStaleEpoch) {
			return err
		}
		if began {
			policy.reset()
		}
		level := slog.LevelInfo
		if refused && !began {
			level = slog.LevelDebug // it was told before
		}
		refused = !began
		r.Logger.Log(ctx, level, "there is no event stream, polling until there is", "error", err)
		if err := pause(ctx, policy.next()); err != nil {
			return err
		}
	}
}

var (
	errStreamLate   = errors.New("the event stream did not begin in time")
	errStreamSilent = errors.New("the event stream fell silent")
	errStreamEnded  = errors.New("the event stream ended")
)

// stream reads events until the stream ends. It tells whether the stream began.
func (r *run) stream(ctx context.Context, last *string) (began bool, _ error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	late := time.AfterFunc(r.StreamTimeout, func() { end(errStreamLate) })
	defer late.Stop()

	response, err := r.openStream(ctx, *last)
	if err != nil {
		return false, errors.Join(err, context.Cause(ctx))
	}
	defer response.Body.Close() //nolint:errcheck // It was read only.
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 0, 4<<10), frameLineMax)
	var silent *time.Timer
	var frame frame
	for lines.Scan() {
		if !began {
			if !late.Stop() {
				break
			}
			began = true
			silent = time.AfterFunc(streamSilence, func() { end(errStreamSilent) })
			defer silent.Stop()
			r.link.set(true, *last == "")
		}
		silent.Reset(streamSilence)
		if !frame.add(lines.Text()) {
			continue
		}
		if err := r.hear(frame); err != nil {
			return began, err
		}
		if frame.id != "" {
			*last = frame.id
		}
		frame.reset()
	}
	return began, errors.Join(errStreamEnded, lines.Err(), context.Cause(ctx))
}

func (r *run) openStream(ctx context.Context, last string) (*http.Response, error) {
	request, err := r.client.request(ctx, http.MethodGet, "/events", url.Values{"type": {
		eventTriggered, eventCompleted, eventExpired, eventAborted, eventRecovered,
	}}, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/event-stream")
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := r.client.open(request)
	if err != nil {
		return nil, err
	}
	if media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); media != "text/event-stream" {
		_ = response.Body.Close() // nothing of it is wanted
		return nil, fmt.Errorf("GET /events is answered as %q", media)
	}
	return response, nil
}

// frame is one event as it arrives, line by line.
type frame struct{ id, event, data string }

func (f *frame) reset() { *f = frame{} }

// add takes a line, and tells whether the frame is complete.
func (f *frame) add(line string) (complete bool) {
	if line == "" {
		return true
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "id":
		f.id = value
	case "event":
		f.event = value
	case "data":
		f.data += value // the server writes one line
	}
	return false
}

// The events that a worker asks for. A gap comes unasked.
const (
	eventTriggered = "checkpoint.triggered"
	eventCompleted = "checkpoint.completed"
	eventExpired   = "checkpoint.expired"
	eventAborted   = "checkpoint.aborted"
	eventRecovered = "job.recovered_epoch"
	eventGap       = "gap"
)

// hear draws the conclusions from an event.
func (r *run) hear(f frame) error {
	if f.data == "" {
		return nil
	}
	var event struct {
		Epoch        int64    `json:"epoch"`
		CheckpointID int64    `json:"checkpointId"`
		Status       status   `json:"status"`
		Failure      *failure `json:"failure"`
	}
	if err := json.Unmarshal([]byte(f.data), &event); err != nil {
		return fmt.Errorf("reading an event of type %q: %w", f.event, err)
	}
	switch f.event {
	case eventTriggered:
		r.rouse()
	case eventCompleted, eventExpired, eventAborted:
		if ended := endedAs(event.CheckpointID, event.Status, event.Failure); ended != nil {
			r.ledger.close(ended)
		}
	case eventRecovered:
		if event.Epoch > r.epoch {
			return r.stale(event.Epoch)
		}
	case eventGap:
		r.link.set(true, true)
		r.rouse()
	}
	return nil
}

// rouse makes the worker look for checkpoints.
func (r *run) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stale is what the server would answer to a message of ours.
func (r *run) stale(epoch int64) error {
	return &Problem{
		Code: CodeStaleEpoch, Status: http.StatusConflict,
		Detail: fmt.Sprintf("The fleet has recovered: the epoch is %d, and this worker began in %d.", epoch, r.epoch),
	}
}
