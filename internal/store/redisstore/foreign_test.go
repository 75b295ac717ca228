package redisstore

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// Whatever else lies under the prefix, each checkpoint works, and what is not ours stays.
func TestForeignKeysDisturbNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s, client := open(t, server), server.Client(t)
	keys := s.keys(coordinator.DefaultJob)
	ctx := t.Context()
	do := func(args ...any) {
		t.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	seed := `{"@class":"io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoint","checkpointId":0,"completed":true}`
	do("SET", keys.record(0), seed)
	do("SET", keys.base+"007", seed)
	do("RPUSH", keys.record(1), "a list")
	do("HSET", keys.record(2), "v", "2", "status", "pending")
	do("SET", keys.staged(3), "not a set")

	first, second := trigger(t, s), trigger(t, s)
	if first.ID != 4 || second.ID != 5 {
		t.Fatalf("ids %d and %d, want 4 and 5", first.ID, second.ID)
	}
	// Somebody overwrites one of ours, and the auxiliary keys of another.
	do("SET", keys.record(first.ID), "overwritten")
	do("DEL", keys.acks(second.ID))
	do("SET", keys.acks(second.ID), "overwritten")
	third := trigger(t, s)

	ref := coordinator.Ref{Job: coordinator.DefaultJob}
	_, err := s.Get(ctx, coordinator.Ref{Job: coordinator.DefaultJob, ID: first.ID})
	wantCode(t, "get what was overwritten", err, coordinator.CodeSnapshotDamaged)
	_, err = s.Get(ctx, coordinator.Ref{Job: coordinator.DefaultJob, ID: 0})
	wantCode(t, "get the seed library's", err, coordinator.CodeCheckpointDeleted)
	ack := func(id int64) error {
		_, err := s.Acknowledge(ctx, coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{{TaskID: "a"}}, Retention: coordinator.Retention{Keep: 1}})
		return err
	}
	wantCode(t, "acknowledge one whose acks are broken", ack(second.ID), coordinator.CodeInternal)
	if err := ack(third.ID); err != nil {
		t.Errorf("acknowledge a sound one: %v", err)
	}
	ref.ID = coordinator.Latest
	if latest, err := s.Get(ctx, ref); err != nil || latest.ID != third.ID {
		t.Errorf("latest: %d, %v", latest.ID, err)
	}
	list, err := s.List(ctx, coordinator.ListCall{Job: coordinator.DefaultJob, Before: -1, Limit: 10})
	if err != nil || len(list.Checkpoints) != 2 {
		t.Errorf("list: %d checkpoints, %v; want the two sound records", len(list.Checkpoints), err)
	}
	if err := s.Sweep(ctx, coordinator.SweepCall{Retention: coordinator.Retention{Keep: 1}}); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if _, err := s.Recover(ctx, coordinator.RecoverCall{Job: coordinator.DefaultJob}); err != nil {
		t.Errorf("recover: %v", err)
	}
	cleaned, err := s.Cleanup(ctx, coordinator.CleanupCall{Job: coordinator.DefaultJob, Keep: 0, Max: 100})
	if err != nil {
		t.Errorf("cleanup: %v", err)
	}
	if diff := cmp.Diff([]int64{second.ID, third.ID}, cleaned.Deleted); diff != "" {
		t.Errorf("cleanup removed (-want +got):\n%s", diff)
	}

	for key, want := range map[string]string{
		keys.record(0): seed, keys.base + "007": seed, keys.record(first.ID): "overwritten", keys.staged(3): "not a set",
	} {
		if got := client.Get(ctx, key).Val(); got != want {
			t.Errorf("%s is %q, want it as it was", key, got)
		}
	}
	if got := client.LRange(ctx, keys.record(1), 0, -1).Val(); len(got) != 1 {
		t.Errorf("the foreign list is %v", got)
	}
}

// One job that cannot be read must not keep the schedules of all others from being known.
func TestADamagedJobIsLeftOutAndTheOthersAreRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	failures := &failureJournal{}
	s := openObserved(t, server, failures)
	for _, job := range []string{"healthy", "replaced", "unreadable"} {
		if _, err := s.PutJob(t.Context(), coordinator.PutJobCall{Job: job, Settings: coordinator.JobSettings{IntervalMs: new(int64(1000))}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Del(t.Context(), s.keys("replaced").job()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), s.keys("replaced").job(), "foreign", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.HSet(t.Context(), s.keys("unreadable").job(), "s_interval", "x").Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		states, err := s.Jobs(t.Context())
		if err != nil {
			t.Fatalf("one damaged job fails all: %v", err)
		}
		var names []string
		for _, state := range states {
			names = append(names, state.Job)
		}
		if diff := cmp.Diff([]string{coordinator.DefaultJob, "healthy"}, names); diff != "" {
			t.Errorf("the jobs (-want +got):\n%s", diff)
		}
	}
	if failures.n.Load() != 2 {
		t.Errorf("the two damaged jobs were reported %d times, want once each", failures.n.Load())
	}
}

// failureJournal counts errors that no request sees.
type failureJournal struct {
	coordinator.Silence
	n atomic.Int64
}

// BackgroundFailed counts the report.
func (j *failureJournal) BackgroundFailed(string, error) { j.n.Add(1) }

// damageJournal notes which checkpoints the observer was told of as damaged.
type damageJournal struct {
	coordinator.Silence
	mu   sync.Mutex
	told map[int64]int
}

// Damaged notes the checkpoint.
func (j *damageJournal) Damaged(_ string, id int64, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.told[id]++
}

func TestTheObserverIsToldOfEachRecordThatMakesNoSense(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(c *coordinator.Coordinator, id int64) error{
		"by its id": func(c *coordinator.Coordinator, id int64) error {
			_, err := c.Get(t.Context(), coordinator.Ref{Job: coordinator.DefaultJob, ID: id})
			return err
		},
		"as the latest": func(c *coordinator.Coordinator, _ int64) error {
			_, err := c.Get(t.Context(), coordinator.Ref{Job: coordinator.DefaultJob, ID: coordinator.Latest})
			return err
		},
		"to a recovery": func(c *coordinator.Coordinator, _ int64) error {
			_, err := c.Recover(t.Context(), coordinator.RecoverRequest{Job: coordinator.DefaultJob})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			journal := &damageJournal{told: map[int64]int{}}
			s := openObserved(t, server, journal)
			made := trigger(t, s)
			_, err := s.Complete(t.Context(), coordinator.CompleteCall{Job: coordinator.DefaultJob, ID: made.ID, Force: true})
			must(t, err)
			must(t, server.Client(t).Del(t.Context(), s.keys(coordinator.DefaultJob).record(made.ID)).Err())
			wantCode(t, name, ask(coordinator.New(s, coordinator.Options{Observer: journal}), made.ID), coordinator.CodeSnapshotDamaged)
			_, err = s.List(t.Context(), coordinator.ListCall{Job: coordinator.DefaultJob, Before: -1, Limit: 10})
			must(t, err)
			if journal.told[made.ID] < 2 {
				t.Errorf("told %v, want of checkpoint %d by the question and by the list", journal.told, made.ID)
			}
		})
	}
}
