package coordinator_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestFreshnessIsJudgedByTheAgeOfTheLatest(t *testing.T) {
	t.Parallel()
	const now = 100_000
	for _, tc := range []struct {
		name                string
		latest              int64 // when it completed; 0 is none
		staleAfter, between int64
		want                coordinator.Freshness
	}{
		{"none yet", 0, 1000, 1000, coordinator.FreshnessNever},
		{"neither limit nor schedule", 1, 0, 0, coordinator.FreshnessHealthy},
		{"as old as the limit", now - 1000, 1000, 0, coordinator.FreshnessHealthy},
		{"older than the limit", now - 1001, 1000, 0, coordinator.FreshnessStale},
		{"three intervals old", now - 3000, 0, 1000, coordinator.FreshnessHealthy},
		{"more than three intervals old", now - 3001, 0, 1000, coordinator.FreshnessStale},
		{"a limit wins over the interval", now - 3001, 5000, 1000, coordinator.FreshnessHealthy},
		{"a clock that stepped back", now + 5000, 1000, 0, coordinator.FreshnessHealthy},
	} {
		state := coordinator.JobState{LatestID: 0, LatestAt: tc.latest, ObservedAt: now}
		if tc.latest == 0 {
			state.LatestID = -1
		}
		if got := state.Freshness(coordinator.Settings{StaleAfterMs: tc.staleAfter, IntervalMs: tc.between}); got != tc.want {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
}

// deletions keeps the calls that a deletion is made of.
type deletions struct {
	*logStore

	calls []coordinator.DeleteJobCall
}

func (d *deletions) DeleteJob(ctx context.Context, call coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	d.calls = append(d.calls, call)
	return d.logStore.DeleteJob(ctx, call)
}

func TestAJobIsDeletedInStepsAndTheConditionIsOfTheFirst(t *testing.T) {
	t.Parallel()
	store := &deletions{logStore: newLogStore("orders")}
	store.change("orders", func(j *logJob) {
		for range 2*coordinator.CleanupStep + 50 {
			j.trigger()
		}
	})
	condition := coordinator.Precondition{IfMatch: []string{"3"}}
	if err := coordinator.New(store, coordinator.Options{}).DeleteJob(t.Context(), "orders", true, condition); err != nil {
		t.Fatal(err)
	}
	step := coordinator.DeleteJobCall{Job: "orders", Force: true, Max: coordinator.CleanupStep}
	first := step
	first.If = condition
	if diff := cmp.Diff([]coordinator.DeleteJobCall{first, step, step}, store.calls); diff != "" {
		t.Error(diff)
	}
}

func TestForgettingATaskChecksItsNames(t *testing.T) {
	t.Parallel()
	c := coordinator.New(&scriptedStore{}, coordinator.Options{})
	for _, names := range [][2]string{{"a/b", "task-1"}, {"orders", ".."}} {
		if err := c.ForgetTask(t.Context(), names[0], names[1]); coordinator.CodeOf(err) != coordinator.CodeInvalidParameter {
			t.Errorf("%v: %v", names, err)
		}
	}
}
