package coordinator

import "context"

// List reads a page of checkpoints, newest first.
func (c *Coordinator) List(ctx context.Context, list ListCall) (ListResult, error) {
	if err := list.check(); err != nil {
		return ListResult{}, err
	}
	return call(c, "list", func() (ListResult, error) { return c.store.List(ctx, list) })
}

// check validates the call.
func (l *ListCall) check() error {
	var f faults
	f.param("job", CheckJob(l.Job))
	f.param("limit", between(int64(l.Limit), 1, MaxListLimit, "checkpoints"))
	if l.Before >= 0 {
		f.param("before", CheckCounter(l.Before))
	}
	if l.NotAckedBy != "" {
		f.param("notAckedBy", CheckTaskID(l.NotAckedBy))
	}
	return f.err()
}

// ListCall filters a list. Zero values do not filter.
type ListCall struct {
	Job    string
	Status Status
	// Before lists ids below it; < 0 starts at the newest.
	Before int64
	Limit  int
	// NotAckedBy leaves out what this task has acknowledged, and what it may not.
	NotAckedBy string
}

// ListResult is one page; Next is the Before of the next one, < 0 when there is none.
type ListResult struct {
	Checkpoints []Checkpoint
	Next        int64
}
