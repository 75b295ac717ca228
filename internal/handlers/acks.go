package handlers

import (
	"context"
	"fmt"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Acknowledge takes one acknowledgement, or a list of them as one step.
func (s *server) Acknowledge(ctx context.Context, request api.AcknowledgeRequestObject) (api.AcknowledgeResponseObject, error) {
	if request.Body.Acks != nil {
		return s.acknowledgeAll(ctx, request)
	}
	item, err := ackItemOf("", request.Body.One(), s.partRoom(ctx))
	if err != nil {
		return nil, err
	}
	if err := admitTask(ctx, item.TaskID, "/taskId"); err != nil {
		return nil, err
	}
	id := int64(request.ID)
	outcome, err := s.coordinator.Acknowledge(ctx, jobOf(request.Params.Job), id, item)
	if err != nil {
		return nil, err
	}
	return api.Acknowledge200JSONResponse{Single: new(ackResultOf(id, outcome))}, nil
}

func (s *server) acknowledgeAll(ctx context.Context, request api.AcknowledgeRequestObject) (api.AcknowledgeResponseObject, error) {
	items, err := ackItemsOf(request.Body, s.partRoom(ctx))
	if err != nil {
		return nil, err
	}
	for i := range items {
		if err := admitTask(ctx, items[i].TaskID, fmt.Sprintf("/acks/%d/taskId", i)); err != nil {
			return nil, err
		}
	}
	id := int64(request.ID)
	result, err := s.coordinator.AcknowledgeAll(ctx, jobOf(request.Params.Job), id, items)
	if err != nil {
		return nil, err
	}
	return bulkAnswer{id, result}, nil
}

// ackItemsOf maps a list, whose number and names were checked while it was decoded.
func ackItemsOf(body *api.AckBody, room *partRoom) ([]coordinator.AckItem, error) {
	if body.TaskID != "" || body.Attempt != nil || body.Epoch != nil || body.State != nil || body.Digest != nil {
		return nil, invalidRequest("/acks", "The body is one acknowledgement or a list of them, not both. Leave out acks, or all members beside it.")
	}
	items := make([]coordinator.AckItem, len(body.Acks))
	for i, ack := range body.Acks {
		item, err := ackItemOf(fmt.Sprintf("/acks/%d", i), ack, room)
		if err != nil {
			return nil, err
		}
		items[i] = item
	}
	return items, nil
}

// ackItemOf maps one acknowledgement that stands at pointer in the body.
func ackItemOf(pointer string, ack api.AckRequest, room *partRoom) (coordinator.AckItem, error) {
	item := coordinator.AckItem{
		TaskID: ack.TaskID, Attempt: valueOr(ack.Attempt, 0), Epoch: ack.Epoch, Digest: valueOr(ack.Digest, ""),
	}
	if ack.Digest != nil {
		if err := coordinator.CheckDigest(*ack.Digest); err != nil {
			return item, invalidRequest(pointer+"/digest", err.Error())
		}
	}
	if err := coordinator.CheckTaskID(ack.TaskID); err != nil {
		return item, invalidRequest(pointer+"/taskId", err.Error())
	}
	if ack.State == nil {
		return item, nil
	}
	part, err := renderPart(pointer+"/state", ack.TaskID, ack.State, room)
	item.Part = part
	return item, err
}
