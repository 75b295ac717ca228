package handlers

import (
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/operations"
)

const (
	mediaJSON    = "application/json"
	mediaNDJSON  = "application/x-ndjson"
	mediaProblem = "application/problem+json"
	mediaText    = "text/plain"
	mediaYAML    = "application/yaml"
	mediaEvents  = "text/event-stream"
)

// acknowledge is the operation that has a door of its own.
var acknowledge = operations.Named("Acknowledge")

// bodySlack is room for white space and for what stands around the largest value.
const bodySlack = 64 << 10

// mostBody is how many bytes of a JSON body are read: the limit, and with the largest of them some
// more, so that what fits into it is not refused for the white space around it.
func mostBody(o *operations.Operation) int64 {
	if o.BodyLimit == coordinator.MaxBodyBytes {
		return o.BodyLimit + bodySlack
	}
	return o.BodyLimit
}
