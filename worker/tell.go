package worker

import "context"

// tell passes the ends of checkpoints on to the user, one after another. It ends the worker's
// life after the one that FinalCheckpoint waits for, and when nothing more is handed in.
func (r *run) tell(ctx context.Context, handedIn <-chan struct{}) error {
	for {
		last := isClosed(handedIn) // before the news are taken, so that they are all of them
		for _, word := range r.ledger.next() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.Logger.InfoContext(ctx, "checkpoint ended", "checkpoint", word.ID, "reason", word.Reason, "message", word.Message)
			completed := word.Reason == ReasonCompleted
			switch {
			case !completed && r.OnAborted != nil:
				r.OnAborted(ctx, word.ID, word.Ended)
			case completed && r.OnCompleted != nil:
				r.OnCompleted(ctx, word.ID)
			}
			if completed && word.final {
				return errWorked
			}
		}
		if last {
			return errHandedIn
		}
		select {
		case <-r.ledger.more:
		case <-handedIn:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
