package coordinator_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestOnlyWhatIsStillDamagedAtASecondLookIsMarked(t *testing.T) {
	t.Parallel()
	damaged := func(id int64) error { return coordinator.ErrSnapshotDamaged(id, "the shared state", nil) }
	for name, test := range map[string]struct {
		id int64
		// looks are what the store answers in turn, nil for a restore that opens.
		looks  []error
		want   coordinator.Code
		marked []int64
	}{
		"a passing fault":                 {7, []error{damaged(7), nil}, coordinator.CodeStoreUnavailable, nil},
		"a store that goes away":          {7, []error{damaged(7), coordinator.ErrStoreUnavailable(nil)}, coordinator.CodeStoreUnavailable, nil},
		"one that is deleted meanwhile":   {7, []error{damaged(7), coordinator.ErrCheckpointDeleted("default", 7)}, coordinator.CodeCheckpointDeleted, nil},
		"the latest, deleted meanwhile":   {coordinator.Latest, []error{damaged(7), coordinator.ErrCheckpointDeleted("default", 7), nil}, "", nil},
		"a lasting one":                   {7, []error{damaged(7), damaged(7)}, coordinator.CodeSnapshotDamaged, []int64{7}},
		"the latest, and an older one":    {coordinator.Latest, []error{damaged(7), damaged(7), nil}, "", []int64{7}},
		"two that are the latest in turn": {coordinator.Latest, []error{damaged(7), damaged(7), damaged(5), damaged(5), nil}, "", []int64{7, 5}},
		"none that is whole":              {coordinator.Latest, []error{damaged(7), damaged(7), damaged(7)}, coordinator.CodeSnapshotDamaged, []int64{7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := test.looks
			store := &scriptedStore{source: func(coordinator.RestoreCall) (coordinator.RestoreSource, error) {
				if len(looks) == 0 {
					t.Fatal("it looks once more")
				}
				err := looks[0]
				if looks = looks[1:]; err != nil {
					return nil, err
				}
				return newMemorySource("x\n"), nil
			}}
			restore, err := coordinator.New(store, coordinator.Options{}).OpenRestore(t.Context(), coordinator.RestoreRequest{
				Ref: coordinator.Ref{Job: "default", ID: test.id},
			})
			if err == nil {
				restore.Close()
			}
			if got := coordinator.CodeOf(err); got != test.want {
				t.Errorf("the answer is %q (%v), want %q", got, err, test.want)
			}
			if diff := cmp.Diff(test.marked, store.marked); diff != "" {
				t.Errorf("marked (-want +got):\n%s", diff)
			}
			if len(looks) > 0 {
				t.Errorf("it did not look %d more times", len(looks))
			}
		})
	}
}

func TestWhatReadingFindsDamagedIsMarked(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]struct {
		content string // of the damaged part at the second look
		err     error
		marked  []int64
	}{
		"still damaged":     {"y\n", nil, []int64{7}},
		"whole after all":   {"x\n", nil, nil},
		"not to be seen":    {"y\n", coordinator.ErrStoreUnavailable(nil), nil},
		"deleted meanwhile": {"y\n", coordinator.ErrCheckpointDeleted("default", 7), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, again := newMemorySource("shared\n", "x\n"), newMemorySource("shared\n", "x\n")
			first.content[1], again.content[1] = []byte("y\n"), []byte(second.content)
			looks := 0
			store := &scriptedStore{source: func(call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
				if looks++; looks == 1 {
					return first, nil
				}
				if diff := cmp.Diff([]string{"b"}, call.Tasks); diff != "" || call.Shared || call.LeaseMs != 0 {
					t.Errorf("the second look is %+v", call)
				}
				again.parts, again.content = again.parts[1:], again.content[1:]
				return again, second.err
			}}
			restore, err := coordinator.New(store, coordinator.Options{}).OpenRestore(t.Context(), coordinator.RestoreRequest{Ref: coordinator.Ref{Job: "default", ID: 7}})
			if err != nil {
				t.Fatal(err)
			}
			defer restore.Close()
			if err := restore.WriteRange(new(bytes.Buffer), 0, restore.Size()); coordinator.CodeOf(err) != coordinator.CodeSnapshotDamaged {
				t.Errorf("reading ended with %v", err)
			}
			if diff := cmp.Diff(second.marked, store.marked); diff != "" {
				t.Errorf("marked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotSeenToBeWholeIsNotTakenForRepaired(t *testing.T) {
	t.Parallel()
	for _, found := range []*coordinator.Error{
		coordinator.ErrSnapshotDamaged(7, "the shared state", nil), coordinator.ErrStoreUnavailable(nil), coordinator.ErrInternal(nil),
	} {
		// An update of this store would end the test.
		store := &scriptedStore{source: func(coordinator.RestoreCall) (coordinator.RestoreSource, error) { return nil, found }}
		_, err := coordinator.New(store, coordinator.Options{}).Update(t.Context(), coordinator.UpdateCall{Job: "default", ID: 7, Repaired: true})
		if coordinator.CodeOf(err) != found.Code {
			t.Errorf("the answer is %v, want %v", err, found)
		}
	}
}

func TestARecoveryThatCannotLookNamesNoCheckpoint(t *testing.T) {
	t.Parallel()
	// A recovery of this store would end the test.
	store := &scriptedStore{source: func(coordinator.RestoreCall) (coordinator.RestoreSource, error) {
		return nil, coordinator.ErrStoreUnavailable(nil)
	}}
	_, err := coordinator.New(store, coordinator.Options{}).Recover(t.Context(), coordinator.RecoverRequest{Job: "default"})
	if coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
		t.Errorf("the answer is %v", err)
	}
}
