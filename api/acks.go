package api

import (
	"encoding/json"
	"errors"
	"fmt"
)

// AckBody is the body of POST /checkpoints/{id}/acks: either one acknowledgement, the
// members of AckRequest, or a list of them in Acks. Acks is nil exactly when it is one.
type AckBody struct {
	TaskID  TaskName        `json:"taskId,omitempty"`
	Attempt *Counter        `json:"attempt,omitempty"`
	Epoch   *Counter        `json:"epoch,omitempty"`
	State   json.RawMessage `json:"state,omitempty"`
	Digest  *Digest         `json:"digest,omitempty"`
	Acks    []AckRequest    `json:"acks,omitzero"`
}

// One is the single acknowledgement of a body without Acks.
func (b *AckBody) One() AckRequest {
	return AckRequest{TaskID: b.TaskID, Attempt: b.Attempt, Epoch: b.Epoch, State: b.State, Digest: b.Digest}
}

// AckAnswer is the answer of POST /checkpoints/{id}/acks. One of the two is set: Single
// when the body was one acknowledgement, Bulk when it was a list.
type AckAnswer struct {
	Single *AckResult
	Bulk   *BulkAckResult
}

// MarshalJSON writes the one that is set.
func (a AckAnswer) MarshalJSON() ([]byte, error) {
	switch {
	case a.Single != nil && a.Bulk == nil:
		return json.Marshal(a.Single)
	case a.Bulk != nil && a.Single == nil:
		return json.Marshal(a.Bulk)
	}
	return nil, errors.New("api: an AckAnswer has exactly one of Single and Bulk")
}

// UnmarshalJSON takes an answer with results for that to a list.
func (a *AckAnswer) UnmarshalJSON(text []byte) error {
	var probe struct {
		Results json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(text, &probe); err != nil {
		return fmt.Errorf("api: decode an answer to acknowledgements: %w", err)
	}
	*a = AckAnswer{}
	if probe.Results != nil {
		return json.Unmarshal(text, &a.Bulk)
	}
	return json.Unmarshal(text, &a.Single)
}
