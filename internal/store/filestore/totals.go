package filestore

import (
	"errors"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// checkTotals holds the totals of the record against what they sum up: a list of which something is missing,
// or of which one bit has turned, is no short list but none at all. Error: coordinator.ErrInconsistent.
func (c *checkpoint) checkTotals() error {
	// What a checkpoint holds goes when it ends uncompleted; its list of acknowledgements stays.
	holds := c.Status == coordinator.StatusPending || c.Status == coordinator.StatusCompleted
	acked, entries, size := 0, c.Shared.Entries, c.Shared.Bytes
	for task, text := range ascend(child(c.b, bucketAcks), nil) {
		given, err := c.readAck(string(task), text)
		if err != nil {
			return err
		}
		if holds {
			if _, err := c.ackedPart(string(task), given); err != nil {
				return err
			}
		}
		acked, entries, size = acked+1, entries+given.Entries, size+given.Bytes
	}
	switch {
	case acked != c.Acked:
		return c.job.inconsistent(c.id, "the list of acknowledgements", fmt.Errorf("%d of %d are there", acked, c.Acked))
	case !holds:
		return nil
	case entries != c.Entries || size != c.Bytes:
		sums := fmt.Errorf("they sum up to %d entries of %d bytes instead of %d of %d", entries, size, c.Entries, c.Bytes)
		return c.job.inconsistent(c.id, "the list of acknowledgements", sums)
	}
	if c.Shared.Bytes > InlineBytes {
		return nil // so much would hold up everybody; its first reader sums it up
	}
	_, err := c.sumShared()
	return err
}

var errPartDiffers = errors.New("its record is missing or does not fit the acknowledgement")

// checkBefore is checkTotals before so many acknowledgements where they may complete the checkpoint. It comes
// before anything is written.
func (c *checkpoint) checkBefore(acks int) error {
	if c.Status != coordinator.StatusPending || c.Acked+acks < c.Required {
		return nil
	}
	return c.checkTotals()
}

// ackedPart gives the part of a task if its record is as the acknowledgement says; nil where both say that
// there is none. Errors: CodeSnapshotDamaged.
func (c *checkpoint) ackedPart(task string, given *ack) (*part, error) {
	p, err := c.part(task)
	switch {
	case err != nil:
		return nil, err
	case p == nil && given.info() == part{}.info():
		return nil, nil //nolint:nilnil // No part is no error.
	case p == nil || p.info() != given.info():
		return nil, damaged(c.id, task, errPartDiffers)
	}
	return p, nil
}
