package handlers

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// StreamEvents follows the events of a job.
func (s *server) StreamEvents(ctx context.Context, request api.StreamEventsRequestObject) (api.StreamEventsResponseObject, error) {
	params := request.Params
	after, err := resumeAfter(params)
	if err != nil {
		return nil, err
	}
	start, inTime, cancel := s.starting(ctx, s.options.Budget)
	defer cancel()
	job := jobOf(params.Job)
	watcher, err := s.coordinator.Watch(start, job, after)
	if !inTime() {
		if err == nil {
			watcher.Close()
		}
		err = coordinator.ErrStoreUnavailable(err)
	}
	if err != nil {
		return nil, err
	}
	return &eventStream{
		server: s, request: exchangeOf(ctx).request, watcher: watcher, job: job,
		types: params.Type, resumed: after != nil, told: watcher.Place(),
	}, nil
}

// resumeAfter is the last event that the client has, nil for none. An EventSource keeps
// its address when it connects again, so the header is newer than the query.
func resumeAfter(params api.StreamEventsParams) (*coordinator.EventID, error) {
	name, text := "Last-Event-ID", params.LastEventIDHeader
	if text == nil || *text == "" {
		name, text = "lastEventId", params.LastEventID
	}
	if text == nil {
		return nil, nil //nolint:nilnil // None is an answer.
	}
	id, err := coordinator.ParseEventID(*text)
	if err != nil {
		return nil, invalidParameter(name, err.Error())
	}
	return &id, nil
}

// eventStream is the answer to a client that follows a job. Whoever has it must visit it.
type eventStream struct {
	server  *server
	request *http.Request
	watcher *coordinator.Watcher
	job     string
	// types are the only ones to send; empty is all.
	types []api.EventType
	// resumed tells that the client named the last event it has.
	resumed bool
	// told is the place in the log that the client knows of; the watcher's is newer where
	// types held events back.
	told coordinator.EventID
	sink *eventSink
}

// VisitStreamEventsResponse streams until the client goes, the server drains, or the
// store fails; the client then resumes by its last id.
func (a *eventStream) VisitStreamEventsResponse(w http.ResponseWriter) error {
	defer a.watcher.Close()
	header := w.Header()
	header.Set("Content-Type", mediaEvents)
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // nginx would keep events until it has a page of them
	// The deadlines of its writes outlive the stream, so its connection must not.
	header.Set("Connection", "close")
	w.WriteHeader(http.StatusOK)
	if a.request.Method == http.MethodHead {
		return nil
	}
	a.sink = newEventSink(w, a.server.options.EventsIdle)
	if err := a.stream(a.request.Context()); err != nil {
		a.server.options.OnError(a.request, err)
	}
	if errors.Is(a.sink.err, os.ErrDeadlineExceeded) {
		a.server.options.OnDropped(a.job)
		panic(http.ErrAbortHandler)
	}
	a.sink.patient() // for the end of the body
	return nil
}

// stream gives the store's error, if that is what ended it.
func (a *eventStream) stream(ctx context.Context) error {
	a.greet()
	for {
		beat, stop := context.WithTimeout(ctx, a.server.options.Heartbeat)
		err := a.follow(beat)
		due := errors.Is(beat.Err(), context.DeadlineExceeded)
		stop()
		switch {
		case a.sink.err != nil, ctx.Err() != nil, errors.Is(err, coordinator.ErrDraining), coordinator.CodeOf(err) == coordinator.CodeJobNotFound:
			return nil //nolint:nilerr // These are ways for a stream to end.
		case !due:
			return err
		}
		a.heartbeat()
	}
}

// follow sends what happens until ctx ends or a write has failed.
func (a *eventStream) follow(ctx context.Context) error {
	for a.sink.err == nil {
		before := a.watcher.Place()
		batch, err := a.watcher.Next(ctx)
		if err != nil {
			return err
		}
		if batch.Gap {
			a.gap(before, batch.Pending)
		}
		for _, event := range batch.Events {
			if a.wants(event.Type) {
				a.sink.add(event.Rendered(eventFrame))
				a.told = event.ID
			}
		}
		a.sink.flush()
	}
	return nil
}

func (a *eventStream) wants(kind coordinator.EventType) bool {
	return len(a.types) == 0 || slices.Contains(a.types, api.EventType(kind))
}

// greet sends something at once, or a proxy would hold the head back, too.
func (a *eventStream) greet() {
	a.sink.add([]byte("retry: 1000\n: checkpointd\n\n"))
	if !a.resumed {
		a.sink.add(placeFrame(a.told))
	}
	a.sink.flush()
}

// gap tells what is not known and what there is instead.
func (a *eventStream) gap(before coordinator.EventID, pending []coordinator.Checkpoint) {
	a.told = a.watcher.Place()
	a.sink.add(gapFrame(a.job, before, a.told))
	if !a.wants(coordinator.EventTriggered) {
		return
	}
	for i := range pending {
		event := coordinator.TriggeredEvent(&pending[i])
		a.sink.add(eventFrame(&event))
	}
}

// heartbeat also tells the place that types held back, which would otherwise be trimmed
// from the log some day under a client that never gets an event.
func (a *eventStream) heartbeat() {
	a.sink.add([]byte(": heartbeat\n\n"))
	if place := a.watcher.Place(); place != a.told {
		a.sink.add(placeFrame(place))
		a.told = place
	}
	a.sink.flush()
}
