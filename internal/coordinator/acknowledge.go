package coordinator

import (
	"context"
	"fmt"
)

// AckCall acknowledges a checkpoint for one or more tasks.
type AckCall struct {
	Job   string
	ID    int64
	Items []AckItem
	// Retention is the server's default; the job's own settings win.
	Retention Retention
	Token     string
}

// AckItem is one task's word.
type AckItem struct {
	TaskID  string
	Attempt int64
	// Epoch is checked when given.
	Epoch *int64
	// Part replaces an uploaded part; nil lets the uploaded one count.
	Part *PartContent
	// Digest, when given, must be that of the part that would count.
	Digest string
}

// PartContent is a part held in memory, as its restore bytes.
type PartContent struct {
	Content []byte
	Entries int64
	Digest  string
}

// AckStatus is what became of one [AckItem].
type AckStatus string

// The three outcomes.
const (
	AckAccepted  AckStatus = "acknowledged"
	AckDuplicate AckStatus = "duplicate"
	AckRefused   AckStatus = "refused"
)

// AckOutcome is one item's answer, as of its own place in the order.
type AckOutcome struct {
	TaskID            string
	Outcome           AckStatus
	Refusal           *Error // with AckRefused
	Status            Status
	AcknowledgedTasks int
	RequiredTaskAcks  int
	// LatencyMs is the time since the checkpoint's start, with AckAccepted.
	LatencyMs int64
}

// AckResult has one outcome for each item, and where the checkpoint stands after them.
type AckResult struct {
	Outcomes          []AckOutcome
	Status            Status
	AcknowledgedTasks int
	RequiredTaskAcks  int
}

// Acknowledge hands in one task's word. A repeat of an accepted one is AckDuplicate;
// every other refusal is the error.
func (c *Coordinator) Acknowledge(ctx context.Context, job string, id int64, item AckItem) (AckOutcome, error) {
	var f faults
	f.ref(job, id)
	f.ack(-1, &item)
	if err := f.err(); err != nil {
		return AckOutcome{}, err
	}
	result, err := c.acknowledge(ctx, job, id, []AckItem{item})
	if err != nil {
		return AckOutcome{}, err
	}
	outcome := result.Outcomes[0]
	if outcome.Refusal != nil {
		return outcome, outcome.Refusal
	}
	return outcome, nil
}

// AcknowledgeAll hands in the words of several tasks as one step, in order. Single
// refusals are in the outcomes. A checkpoint that expired or was aborted cannot be
// acknowledged at all, so that is the error.
func (c *Coordinator) AcknowledgeAll(ctx context.Context, job string, id int64, items []AckItem) (AckResult, error) {
	var f faults
	f.ref(job, id)
	if len(items) == 0 {
		f.body("/acks", ViolationError("The list must have at least one acknowledgement."))
	}
	for i := range items {
		f.ack(i, &items[i])
		if len(f.fields) >= maxFaults {
			break
		}
	}
	if err := f.err(); err != nil {
		return AckResult{}, err
	}
	if len(items) > MaxBulkAcks {
		return AckResult{}, ErrLimitExceeded("bulkAcks", MaxBulkAcks, fmt.Sprintf("The call has %d acknowledgements", len(items)))
	}
	result, err := c.acknowledge(ctx, job, id, items)
	if err != nil {
		return AckResult{}, err
	}
	if result.Status == StatusExpired || result.Status == StatusAborted {
		refusal := ErrEnded(id, result.Status)
		for _, outcome := range result.Outcomes {
			if outcome.Refusal != nil && outcome.Refusal.Code == refusal.Code {
				refusal = outcome.Refusal // this one carries the next steps
				break
			}
		}
		return AckResult{}, refusal
	}
	return result, nil
}

func (c *Coordinator) acknowledge(ctx context.Context, job string, id int64, items []AckItem) (AckResult, error) {
	for i := range items {
		if err := c.checkPart(&items[i]); err != nil {
			return AckResult{}, err
		}
	}
	result, err := call(c, "acknowledge", func() (AckResult, error) {
		return c.store.Acknowledge(ctx, AckCall{Job: job, ID: id, Items: items, Retention: c.settings.Retention, Token: newToken()})
	})
	if err != nil {
		return result, err
	}
	if len(result.Outcomes) != len(items) {
		return result, ErrInternal(fmt.Errorf("the store answered %d outcomes for %d acknowledgements", len(result.Outcomes), len(items)))
	}
	for _, outcome := range result.Outcomes {
		c.observer.Acknowledged(job, id, outcome)
	}
	return result, nil
}

// checkPart holds a part that came with its acknowledgement to the limit of uploads.
func (c *Coordinator) checkPart(item *AckItem) error {
	limit := c.settings.MaxPartBytes
	if item.Part == nil || limit <= 0 || int64(len(item.Part.Content)) <= limit {
		return nil
	}
	return ErrTooLarge("partBytes", limit, fmt.Sprintf("The part of task %q has %d restore bytes", item.TaskID, len(item.Part.Content)))
}

// ack adds the faults of the acknowledgement at a place of the list, -1 for one by itself.
func (f *faults) ack(place int, item *AckItem) {
	check := func(member string, err error) {
		if err == nil {
			return // without a pointer, which a list would have to make for each member
		}
		if place >= 0 {
			member = fmt.Sprintf("/acks/%d%s", place, member)
		}
		f.body(member, err)
	}
	check("/taskId", CheckTaskID(item.TaskID))
	check("/attempt", CheckCounter(item.Attempt))
	if item.Epoch != nil {
		check("/epoch", CheckCounter(*item.Epoch))
	}
	if item.Digest != "" {
		check("/digest", CheckDigest(item.Digest))
	}
}
