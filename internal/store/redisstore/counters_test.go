package redisstore

import (
	"slices"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// Whatever of a job's hash is lost while no server runs, no id and no epoch comes twice.
func TestCountersThatWereLostAreTakenFromWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(k keyspace) [][]any{
		"the next id":               func(k keyspace) [][]any { return [][]any{{"HDEL", k.job(), "next"}} },
		"the next id, set back":     func(k keyspace) [][]any { return [][]any{{"HSET", k.job(), "next", "0"}} },
		"both counters":             func(k keyspace) [][]any { return [][]any{{"HDEL", k.job(), "next", "epoch"}} },
		"the hash":                  func(k keyspace) [][]any { return [][]any{{"DEL", k.job()}} },
		"the hash and the log":      func(k keyspace) [][]any { return [][]any{{"DEL", k.job(), k.events()}} },
		"the hash and all but that": func(k keyspace) [][]any { return [][]any{{"DEL", k.job(), k.index(), k.completed(), k.retained()}} },
	} {
		for _, job := range []string{coordinator.DefaultJob, "orders"} {
			t.Run(name+" of "+job, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.Options{})
				retention := coordinator.Retention{Keep: 40}
				complete := func(s *Store) int64 {
					t.Helper()
					made, err := s.Trigger(t.Context(), coordinator.TriggerCall{Job: job, RequiredTaskAcks: 1, Defaults: coordinator.Settings{MaxConcurrent: 9, Retention: retention}})
					must(t, err)
					_, err = s.Complete(t.Context(), coordinator.CompleteCall{Job: job, ID: made.Checkpoint.ID, Force: true, Retention: retention})
					must(t, err)
					return made.Checkpoint.ID
				}
				recovered := func(s *Store) int64 {
					t.Helper()
					result, err := s.Recover(t.Context(), coordinator.RecoverCall{Job: job})
					must(t, err)
					return result.Epoch
				}
				before := open(t, server)
				var epoch, last int64
				for range 3 {
					epoch = recovered(before)
				}
				for range 30 {
					last = complete(before)
				}
				must(t, before.Close())
				for _, command := range lost(before.keys(job)) {
					must(t, server.Client(t).Do(t.Context(), command...).Err())
				}
				after := open(t, server)
				if name != "the hash and all but that" {
					_, err := after.Jobs(t.Context()) // which writes the counters
					must(t, err)
					states, err := after.Jobs(t.Context())
					must(t, err)
					if !slices.ContainsFunc(states, func(s coordinator.JobState) bool { return s.Job == job }) {
						t.Errorf("the job is not listed: %v", states)
					}
					_, err = after.Acknowledge(t.Context(), coordinator.AckCall{Job: job, ID: last, Items: []coordinator.AckItem{{TaskID: "a", Epoch: new(int64(0))}}})
					must(t, err) // it completed before
				}
				ids := []int64{complete(after), complete(after)}
				if ids[0] <= last || ids[1] <= ids[0] {
					t.Errorf("the ids %d follow %d", ids, last)
				}
				if next := recovered(after); next <= epoch {
					t.Errorf("epoch %d follows %d", next, epoch)
				}
				latest, err := after.Get(t.Context(), coordinator.Ref{Job: job, ID: coordinator.Latest})
				must(t, err)
				if latest.ID != ids[1] {
					t.Errorf("the latest is %d, want %d: what completes must not be evicted at once", latest.ID, ids[1])
				}
				events, err := after.Events(t.Context(), coordinator.EventsCall{Job: job, After: &coordinator.EventID{}, Limit: 1000})
				must(t, err)
				for i := 1; i < len(events.Events); i++ {
					if events.Events[i-1].ID.Compare(events.Events[i].ID) >= 0 {
						t.Errorf("event %v follows %v", events.Events[i].ID, events.Events[i-1].ID)
					}
				}
			})
		}
	}
}
