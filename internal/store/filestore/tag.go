package filestore

import "strconv"

// tag is the entity tag of the checkpoint as it is written; see coordinator.Checkpoint.Tag.
func (c *checkpoint) tag() string {
	return strconv.FormatInt(c.id, 10) + "-" + strconv.FormatInt(c.Revision, 10)
}

// sharedTag is the entity tag of the shared state as a whole.
func (c *checkpoint) sharedTag() string {
	return strconv.FormatInt(c.id, 10) + "-s" + strconv.FormatInt(c.Shared.Revision, 10)
}
