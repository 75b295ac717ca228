package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var eventsScript = newScript("events", readPreludes)

// Events reads on in a job's log. Position, gap and what is pending are of one moment.
func (s *Store) Events(ctx context.Context, call coordinator.EventsCall) (coordinator.EventsResult, error) {
	after := ""
	if call.After != nil {
		after = call.After.String()
	}
	r, err := s.run(ctx, eventsScript, reads, call.Job, after, call.Limit)
	if err != nil {
		return coordinator.EventsResult{}, err
	}
	if r.word != wordOK {
		return coordinator.EventsResult{}, refusal(eventsScript.verb, call.Job, coordinator.Latest, r)
	}
	body := cursor{values: r.body}
	position, errPosition := parseEventID(body.text())
	result := coordinator.EventsResult{Position: position, Gap: body.text() == "1"}
	rows := cursor{values: body.list()}
	for rows.more() {
		event, err := parseEvent(call.Job, rows.text(), rows.list())
		if err != nil {
			return coordinator.EventsResult{}, badReply(eventsScript.verb, r, err)
		}
		result.Events = append(result.Events, event)
	}
	if views := body.list(); result.Gap {
		result.Pending = s.checkpoints(call.Job, r.now, views)
	}
	if err := errors.Join(errPosition, body.err, rows.err); err != nil {
		return coordinator.EventsResult{}, badReply(eventsScript.verb, r, err)
	}
	return result, nil
}

// parseEventID reads an id as the log has it; "" is the zero id.
func parseEventID(text string) (coordinator.EventID, error) {
	if text == "" {
		return coordinator.EventID{}, nil
	}
	return coordinator.ParseEventID(text)
}

// parseEvent reads an entry of the log as prelude_event.lua writes it. Fields that it does not
// know are those of newer servers.
func parseEvent(job, id string, values []any) (coordinator.Event, error) {
	f := fields{values: make(map[string]string, len(values)/2)}
	event := coordinator.Event{Job: job, CheckpointID: -1}
	for c := (cursor{values: values}); c.more(); f.err = errors.Join(f.err, c.err) {
		name, value := c.text(), c.text()
		if name == "miss" {
			event.MissingTasks = append(event.MissingTasks, value)
		} else {
			f.values[name] = value
		}
	}
	var err error
	event.ID, err = parseEventID(id)
	event.Type, event.At = coordinator.EventType(f.values["type"]), f.number("at")
	if f.values["id"] != "" {
		event.CheckpointID = f.number("id")
	}
	event.Status, event.Why = coordinator.Status(f.values["status"]), coordinator.DeletionReason(f.values["why"])
	event.Pinned, event.SetAside = f.values["pinned"] == "1", f.values["aside"] == "1"
	event.RequiredTaskAcks, event.AcknowledgedTasks = int(f.optional("req")), int(f.optional("acked"))
	event.Deadline, event.DurationMs = f.optional("deadline"), f.optional("dur")
	event.Entries, event.Bytes = f.optional("entries"), f.optional("bytes")
	event.ConsecutiveFailures, event.By = int(f.optional("fails")), f.values["by"]
	if reason := f.values["reason"]; reason != "" {
		event.Failure = &coordinator.Failure{
			Reason: coordinator.FailureReason(reason), TaskID: f.values["task"], Message: f.values["msg"],
		}
	}
	if err := errors.Join(err, f.err); err != nil {
		return coordinator.Event{}, fmt.Errorf("event %s: %w", id, err)
	}
	return event, nil
}
