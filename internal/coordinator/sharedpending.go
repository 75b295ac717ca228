package coordinator

import "context"

// sharedTaskPages bounds how many pages of task names a [pendingView] has; with fewer
// waiters than that, each asks for itself.
const sharedTaskPages = 20

// pendingView is what is pending in a job, newest first, and who has it still to do.
type pendingView struct {
	checkpoints []pendingCheckpoint
	// more tells that there are too many for one view.
	more bool
}

type pendingCheckpoint struct {
	Checkpoint
	// names are its missing tasks when it names its tasks, else those that have
	// acknowledged; nil where that was not looked up.
	names map[string]bool
}

// sharedPending answers from a view that all waiters of a job share: of turn or later, or,
// where that is 0, read after the call. ok is false where that does not tell what this
// task has to do, or nobody else is there to share it.
func (c *Coordinator) sharedPending(ctx context.Context, f *feed, turn uint64, list ListCall) (result ListResult, ok bool, err error) {
	crowd := f.crowd() > sharedTaskPages
	var view pendingView
	switch {
	case turn > 0:
		view, err = f.pending.get(ctx, turn, 0, func(ctx context.Context) (pendingView, error) {
			return c.pendingView(ctx, list.Job, crowd)
		})
	case crowd:
		// Mostly nothing is pending yet, and a whole fleet comes back at once. Names are not
		// worth their pages here: those who come one by one would read them one by one.
		view, err = f.arriving.get(ctx, func(ctx context.Context) (pendingView, error) {
			return c.pendingView(ctx, list.Job, false)
		})
	default:
		return ListResult{}, false, nil
	}
	if err != nil || view.more {
		return ListResult{}, false, err
	}
	result.Next = -1
	for i := range view.checkpoints {
		pending := &view.checkpoints[i]
		expected, known := pending.expects(list.NotAckedBy)
		switch {
		case !known:
			return ListResult{}, false, nil
		case !expected:
		case len(result.Checkpoints) == list.Limit:
			result.Next = result.Checkpoints[list.Limit-1].ID
			return result, true, nil
		default:
			result.Checkpoints = append(result.Checkpoints, pending.Checkpoint)
		}
	}
	return result, true, nil
}

// expects tells whether a task has still to acknowledge; "" asks for none.
func (p *pendingCheckpoint) expects(task string) (expected, known bool) {
	switch {
	case task == "", !p.NamedTasks && p.AcknowledgedTasks == 0:
		return true, true
	case p.names == nil:
		return false, false
	default:
		return p.names[task] == p.NamedTasks, true
	}
}

func (c *Coordinator) pendingView(ctx context.Context, job string, crowd bool) (pendingView, error) {
	page, err := c.List(ctx, ListCall{Job: job, Status: StatusPending, Before: -1, Limit: MaxListLimit})
	if err != nil || page.Next >= 0 {
		return pendingView{more: true}, err
	}
	var view pendingView
	pages := 0
	if crowd {
		pages = sharedTaskPages
	}
	for _, checkpoint := range page.Checkpoints {
		names, ended, err := c.pendingNames(ctx, &checkpoint, &pages)
		if err != nil {
			return pendingView{}, err
		}
		if !ended {
			view.checkpoints = append(view.checkpoints, pendingCheckpoint{checkpoint, names})
		}
	}
	return view, nil
}

// pendingNames looks up names of a [pendingCheckpoint], unless that takes more than the
// pages left. ended tells that it is pending no more.
func (c *Coordinator) pendingNames(ctx context.Context, checkpoint *Checkpoint, pages *int) (names map[string]bool, ended bool, err error) {
	call := TasksCall{Ref: Ref{Job: checkpoint.Job, ID: checkpoint.ID}, Status: TaskAcknowledged, Limit: MaxListLimit}
	if checkpoint.NamedTasks {
		call.Status = TaskMissing
	} else if checkpoint.AcknowledgedTasks == 0 {
		return nil, false, nil
	}
	names = map[string]bool{}
	for *pages > 0 {
		*pages--
		result, err := c.Tasks(ctx, call)
		if CodeOf(err) == CodeCheckpointDeleted || err == nil && result.Checkpoint.Status != StatusPending {
			return nil, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		for i := range result.Tasks {
			names[result.Tasks[i].TaskID] = true
		}
		if call.After = result.Next; call.After == "" {
			return names, false, nil
		}
	}
	return nil, false, nil
}
