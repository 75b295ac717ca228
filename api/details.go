package api

// CheckpointDetails is a checkpoint with its first 100 acknowledgements, by the bytes of
// the task id. Acks is never nil in an answer.
type CheckpointDetails struct {
	Checkpoint

	Acks []Ack `json:"acks"`
}
