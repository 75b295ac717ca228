package torture

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// What follows are stores that break one rule each. The checker is worth something only if
// it finds every one of them.

// countsTwice counts each acknowledgement for a second, made-up task too.
type countsTwice struct{ coordinator.Store }

func (b countsTwice) Acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	again := call.Items[0]
	again.TaskID += "-again"
	call.Items = append(call.Items, again)
	return b.Store.Acknowledge(ctx, call)
}

// losesAcks answers every acknowledgement of one task and forgets it.
type losesAcks struct{ coordinator.Store }

func (b losesAcks) Acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	if call.Items[0].TaskID != "task-0" {
		return b.Store.Acknowledge(ctx, call)
	}
	outcome := coordinator.AckOutcome{TaskID: "task-0", Outcome: coordinator.AckAccepted, Status: coordinator.StatusPending, AcknowledgedTasks: 1, RequiredTaskAcks: required}
	return coordinator.AckResult{Outcomes: []coordinator.AckOutcome{outcome}, Status: outcome.Status, AcknowledgedTasks: 1, RequiredTaskAcks: required}, nil
}

// latestByClock takes what completed last for the latest.
type latestByClock struct {
	coordinator.Store
	last *sync.Map
}

func (b latestByClock) Acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	result, err := b.Store.Acknowledge(ctx, call)
	if err == nil && result.Status == coordinator.StatusCompleted && result.Outcomes[0].Outcome == coordinator.AckAccepted {
		b.last.Store(call.Job, call.ID)
	}
	return result, err
}

func (b latestByClock) Get(ctx context.Context, ref coordinator.Ref) (coordinator.CheckpointDetail, error) {
	if id, ok := b.last.Load(ref.Job); ok && ref.ID == coordinator.Latest {
		ref.ID = id.(int64)
	}
	return b.Store.Get(ctx, ref)
}

// givesIDsTwice answers some triggers with the checkpoint before.
type givesIDsTwice struct {
	coordinator.Store
	last *sync.Map
}

func (b givesIDsTwice) Trigger(ctx context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	if before, ok := b.last.LoadAndDelete(call.Job); ok {
		return before.(coordinator.TriggerResult), nil
	}
	result, err := b.Store.Trigger(ctx, call)
	if err == nil {
		b.last.Store(call.Job, result)
	}
	return result, err
}

// forgetsItsCounter gives ids from 0 again after some triggers, as a server would that kept
// its counter in memory and was restarted.
type forgetsItsCounter struct {
	coordinator.Store
	triggers *sync.Map
}

func (b forgetsItsCounter) Trigger(ctx context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	result, err := b.Store.Trigger(ctx, call)
	n, _ := b.triggers.LoadOrStore(call.Job, new(atomic.Int64))
	if life := n.(*atomic.Int64).Add(1) - 1; err == nil && life >= 4 {
		result.Checkpoint.ID %= 4
	}
	return result, err
}

// losesWrites answers every fourth write of shared state and forgets it.
type losesWrites struct {
	coordinator.Store
	writes *atomic.Int64
}

func (b losesWrites) WriteShared(ctx context.Context, call coordinator.SharedWrite) (coordinator.SharedWritten, error) {
	if call.Op == coordinator.SharedPut && !call.Single && b.writes.Add(1)%4 == 0 {
		return coordinator.SharedWritten{}, nil
	}
	return b.Store.WriteShared(ctx, call)
}

// tearsWrites writes the entries of one call one by one.
type tearsWrites struct{ coordinator.Store }

func (b tearsWrites) WriteShared(ctx context.Context, call coordinator.SharedWrite) (written coordinator.SharedWritten, err error) {
	entries := call.Entries
	for i := range max(1, len(entries)) {
		if len(entries) > 0 {
			call.Entries = entries[i : i+1]
		}
		if written, err = b.Store.WriteShared(ctx, call); err != nil {
			return written, err
		}
	}
	return written, nil
}

// mixesCuts stores for some acknowledgements what the same task handed in before.
type mixesCuts struct {
	coordinator.Store
	parts *sync.Map
	acks  *atomic.Int64
}

func (b mixesCuts) Acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	item := &call.Items[0]
	if item.Part != nil {
		before, known := b.parts.Swap(call.Job+item.TaskID, item.Part)
		if known && b.acks.Add(1)%3 == 0 {
			item.Part = before.(*coordinator.PartContent)
		}
	}
	return b.Store.Acknowledge(ctx, call)
}

// changesAndDenies says of some aborts that nothing was changed.
type changesAndDenies struct {
	coordinator.Store
	aborts *atomic.Int64
}

func (b changesAndDenies) Abort(ctx context.Context, call coordinator.AbortCall) (coordinator.Checkpoint, error) {
	aborted, err := b.Store.Abort(ctx, call)
	if err == nil && b.aborts.Add(1)%2 == 0 {
		err = coordinator.ErrStoreUnavailable(errors.New("a lie"))
	}
	return aborted, err
}

// evictsTheLatest takes the latest completed checkpoint in every cleanup.
type evictsTheLatest struct{ coordinator.Store }

func (b evictsTheLatest) Cleanup(ctx context.Context, call coordinator.CleanupCall) (coordinator.CleanupResult, error) {
	keep := call.Keep
	call.Keep = 0
	result, err := b.Store.Cleanup(ctx, call)
	result.Kept = max(result.Kept, keep)
	return result, err
}

func TestABrokenStoreIsCaught(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(coordinator.Store) coordinator.Store{
		"an acknowledgement that counts twice":     func(s coordinator.Store) coordinator.Store { return countsTwice{s} },
		"an acknowledgement that is lost":          func(s coordinator.Store) coordinator.Store { return losesAcks{s} },
		"latest by the clock":                      func(s coordinator.Store) coordinator.Store { return latestByClock{s, new(sync.Map)} },
		"an id that is given twice":                func(s coordinator.Store) coordinator.Store { return givesIDsTwice{s, new(sync.Map)} },
		"ids that begin anew":                      func(s coordinator.Store) coordinator.Store { return forgetsItsCounter{s, new(sync.Map)} },
		"a write that is lost":                     func(s coordinator.Store) coordinator.Store { return losesWrites{s, new(atomic.Int64)} },
		"a write that is seen half":                func(s coordinator.Store) coordinator.Store { return tearsWrites{s} },
		"a cut with a part of another":             func(s coordinator.Store) coordinator.Store { return mixesCuts{s, new(sync.Map), new(atomic.Int64)} },
		"a change that is said not to be one":      func(s coordinator.Store) coordinator.Store { return changesAndDenies{s, new(atomic.Int64)} },
		"a cleanup that takes more than it should": func(s coordinator.Store) coordinator.Store { return evictsTheLatest{s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rehearsal{store: broken(openStore(t)), seed: seed(t), histories: 60, untilViolated: true}
			r.play(t)
			if r.tally.judged(illegal) == 0 {
				t.Error("60 histories of a broken store all have a legal order")
			}
		})
	}
}
