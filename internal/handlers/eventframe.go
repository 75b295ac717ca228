package handlers

import (
	"bytes"
	"encoding/json"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// eventFrame is an event as the stream has it. What has no place in the log has no id.
func eventFrame(event *coordinator.Event) []byte {
	var frame bytes.Buffer
	if event.ID.Seq > 0 {
		frame.WriteString("id: " + event.ID.String() + "\n")
	}
	writeFrame(&frame, string(event.Type), eventOf(event))
	return frame.Bytes()
}

// gapFrame tells that what lies between two places is not known.
func gapFrame(job string, after, position coordinator.EventID) []byte {
	var frame bytes.Buffer
	frame.WriteString("id: " + position.String() + "\n")
	writeFrame(&frame, "gap", api.EventGap{Job: job, LastEventID: after.String(), Position: position.String()})
	return frame.Bytes()
}

// placeFrame moves the client's place without an event.
func placeFrame(place coordinator.EventID) []byte { return []byte("id: " + place.String() + "\n\n") }

// writeFrame writes name and data and ends the frame. JSON has no bare line breaks, so
// the data is one line.
func writeFrame(frame *bytes.Buffer, name string, data any) {
	frame.WriteString("event: " + name + "\ndata: ")
	encoder := json.NewEncoder(frame)
	encoder.SetEscapeHTML(false) // names should stay readable
	_ = encoder.Encode(data)     //nolint:errchkjson // Plain members into memory never fail.
	frame.WriteByte('\n')
}

func eventOf(event *coordinator.Event) api.Event {
	out := api.Event{
		Type: api.EventType(event.Type), Job: event.Job, Epoch: event.ID.Epoch, At: event.At,
		Why: present(api.DeletionReason(event.Why)), Failure: failureOf(event.Failure), By: present(event.By),
	}
	if event.ID.Seq > 0 {
		out.ID = new(event.ID.String())
	}
	if event.CheckpointID >= 0 {
		out.CheckpointID = &event.CheckpointID
	}
	if event.Type == coordinator.EventUpdated {
		out.Pinned, out.SetAside = &event.Pinned, present(event.SetAside)
	}
	if event.Type == coordinator.EventFailing {
		out.ConsecutiveFailures = &event.ConsecutiveFailures
	}
	if event.Status == "" {
		return out
	}
	out.Status = new(api.CheckpointStatus(event.Status))
	out.RequiredTaskAcks, out.AcknowledgedTasks = &event.RequiredTaskAcks, &event.AcknowledgedTasks
	out.MissingTasks, out.Deadline = event.MissingTasks, present(event.Deadline)
	if event.Status != coordinator.StatusPending {
		out.DurationMs = &event.DurationMs
	}
	if event.Status == coordinator.StatusCompleted {
		out.Entries, out.Bytes = &event.Entries, &event.Bytes
	}
	return out
}
