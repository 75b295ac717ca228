package coordinator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// importingStore takes an import and deletions, as a test says.
type importingStore struct {
	coordinator.Store

	step   func(coordinator.ImportCall) error
	remove func(id int64) error
}

func (s *importingStore) Import(_ context.Context, call coordinator.ImportCall) error {
	return s.step(call)
}

func (s *importingStore) Delete(_ context.Context, call coordinator.DeleteCall) error {
	return s.remove(call.ID)
}

// twoCheckpoints is an archive of checkpoints without tasks.
type twoCheckpoints struct{}

func (twoCheckpoints) Job() coordinator.ExportedJob { return coordinator.ExportedJob{NextID: 2} }
func (twoCheckpoints) Attempts() map[string]int64   { return nil }
func (twoCheckpoints) Len() int                     { return 2 }

func (twoCheckpoints) Checkpoint(number int) (coordinator.ImportedCheckpoint, error) {
	return coordinator.ImportedCheckpoint{Checkpoint: coordinator.Checkpoint{ID: int64(1 - number), Status: coordinator.StatusCompleted}}, nil
}

func TestAnImportDuringWhichTheStoreFailsSaysWhetherSomethingIsLeft(t *testing.T) {
	t.Parallel()
	away := coordinator.ErrStoreUnavailable(errors.New("away"))
	unreplicated := coordinator.ErrNotReplicated(errors.New("alone"))
	gone := coordinator.ErrCheckpointDeleted("orders", 1)
	for name, tc := range map[string]struct {
		fails        coordinator.ImportStep
		err          error
		drop, remove error
		want         coordinator.Code
		spared       bool
	}{
		"nothing had come in":             {fails: coordinator.ImportOpen, err: away, remove: away, want: coordinator.CodeStoreUnavailable},
		"all was taken back":              {fails: coordinator.ImportFinish, err: away, want: coordinator.CodeStoreUnavailable},
		"the lost reply was of nothing":   {fails: coordinator.ImportBegin, err: coordinator.ErrOutcomeUnknown(away), want: coordinator.CodeStoreUnavailable, spared: true},
		"what was begun is left":          {fails: coordinator.ImportFinish, err: away, drop: away, want: coordinator.CodeOutcomeUnknown},
		"what was finished may be left":   {fails: coordinator.ImportFinish, err: coordinator.ErrOutcomeUnknown(away), remove: away, want: coordinator.CodeOutcomeUnknown},
		"the finished one is taken back":  {fails: coordinator.ImportFinish, err: coordinator.ErrOutcomeUnknown(away), remove: gone, want: coordinator.CodeStoreUnavailable},
		"replicas are too few throughout": {fails: coordinator.ImportFinish, err: unreplicated, drop: unreplicated, remove: unreplicated, want: coordinator.CodeStoreUnavailable},
		"somebody else has the id":        {fails: coordinator.ImportBegin, err: coordinator.ErrJobNotEmpty("orders"), want: coordinator.CodeJobNotEmpty, spared: true},
		"the job was deleted":             {fails: coordinator.ImportFinish, err: coordinator.ErrJobNotFound("orders"), drop: coordinator.ErrJobNotFound("orders"), want: coordinator.CodeJobNotFound, spared: true},
		"it is the archive":               {fails: coordinator.ImportFinish, err: coordinator.ErrSnapshotDamaged(1, "all", nil), want: coordinator.CodeSnapshotDamaged, spared: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			removed := map[int64]bool{}
			store := &importingStore{remove: func(id int64) error {
				removed[id] = true
				return tc.remove
			}}
			store.step = func(call coordinator.ImportCall) error {
				switch {
				case call.Step == coordinator.ImportDrop:
					return tc.drop
				case call.Step == tc.fails:
					return tc.err
				}
				return nil
			}
			err := coordinator.New(store, coordinator.Options{}).Import(t.Context(), "orders", twoCheckpoints{})
			if tc.spared && removed[1] {
				t.Error("a checkpoint of somebody else was removed")
			}
			if code := coordinator.CodeOf(err); code != tc.want {
				t.Errorf("got %q (%v), want %q", code, err, tc.want)
			}
		})
	}
}
