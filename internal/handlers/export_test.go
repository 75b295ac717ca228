package handlers

import (
	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// PlainAckItem reads a body as the door for plain acknowledgements does.
func PlainAckItem(body []byte) (coordinator.AckItem, bool) { return new(plainAck).item(body) }

// StrictAckItem reads a body as the general door does.
func StrictAckItem(body []byte) (coordinator.AckItem, error) {
	var decoded api.AckBody
	if err := decodeStrict(body, &decoded); err != nil {
		return coordinator.AckItem{}, err
	}
	budget := maxInlineParts
	return ackItemOf("", decoded.One(), &budget)
}

// AppendAckResult is how the door for plain acknowledgements answers.
func AppendAckResult(result api.AckResult) []byte { return appendAckResult(nil, result) }
