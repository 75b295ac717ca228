package filestore

import (
	"slices"
	"strconv"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// met tells whether a resource, which has this tag if it exists, meets a precondition.
func met(p coordinator.Precondition, tag string, exists bool) bool {
	if p.IfNoneMatch && exists {
		return false
	}
	return len(p.IfMatch) == 0 || exists && (slices.Contains(p.IfMatch, "*") || slices.Contains(p.IfMatch, tag))
}

// tag is the entity tag of the checkpoint as it is written; see coordinator.Checkpoint.Tag.
func (c *checkpoint) tag() string {
	return strconv.FormatInt(c.id, 10) + "-" + strconv.FormatInt(c.Revision, 10)
}

// sharedTag is the entity tag of the shared state as a whole.
func (c *checkpoint) sharedTag() string {
	return strconv.FormatInt(c.id, 10) + "-s" + strconv.FormatInt(c.Shared.Revision, 10)
}
