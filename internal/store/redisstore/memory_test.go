package redisstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// full is a store on a Redis that is full, with one checkpoint of each kind.
type full struct {
	*Store
	testing.TB
	server    *redistest.Server
	client    *redis.Client
	now       int64
	completed []int64
	pending   []int64
	expiring  int64
}

func fillRedis(t *testing.T) *full {
	t.Helper()
	server := redistest.Start(t, redistest.Options{Config: []string{"--maxmemory-policy", "noeviction"}})
	f := &full{TB: t, server: server, client: server.Client(t), now: labTime}
	s, err := New(Options{URL: server.URL, KeyPrefix: server.Prefix, Clock: func() int64 { return f.now }})
	if err != nil {
		t.Fatal(err)
	}
	f.Store = s
	t.Cleanup(func() { _ = s.Close() })
	for range 2 {
		id := trigger(t, s).ID
		f.pending = append(f.pending, id)
		f.shared(id)
	}
	for range 3 {
		id := trigger(t, s).ID
		if _, err := f.acknowledge(id, "task"); err != nil {
			t.Fatal(err)
		}
		f.completed = append(f.completed, id)
	}
	call := aTriggerCall()
	call.TimeoutMs = new(int64(10))
	result, err := s.Trigger(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	f.expiring = result.Checkpoint.ID
	if err := f.client.ZAdd(t.Context(), s.keys(coordinator.DefaultJob).deadlines(), redis.Z{Score: 1, Member: f.pending[1]}).Err(); err != nil {
		t.Fatal(err)
	}
	f.close()
	return f
}

// close leaves no room: whatever needs memory is refused from here on.
func (f *full) close() {
	f.Helper()
	if err := f.client.ConfigSet(f.Context(), "maxmemory", "1").Err(); err != nil {
		f.Fatal(err)
	}
}

func (f *full) acknowledge(id int64, task string) (coordinator.AckResult, error) {
	return f.Acknowledge(f.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{
		{TaskID: task, Part: &coordinator.PartContent{Content: []byte("x"), Entries: 1, Digest: "sha256:x"}},
	}})
}

func (f *full) shared(id int64) {
	f.Helper()
	_, err := f.WriteShared(f.Context(), coordinator.SharedWrite{
		Job: coordinator.DefaultJob, ID: id, Op: coordinator.SharedPut, Entries: []coordinator.SharedEntry{{Key: "k", Value: []byte("1")}},
	})
	if err != nil {
		f.Fatal(err)
	}
}

// dump is everything that Redis holds.
func (f *full) dump() map[string]string {
	f.Helper()
	l := lab{TB: f.TB, redis: f.client, keys: newKeyspace(f.server.Prefix, coordinator.DefaultJob)}
	return l.everything()
}

func TestAFullRedisRefusesWritesAndKeepsNothingHalfWritten(t *testing.T) {
	t.Parallel()
	f := fillRedis(t)
	before := f.dump()
	job, id := coordinator.DefaultJob, f.pending[0]
	named := aTriggerCall()
	named.Tasks = []string{"x"}
	pinned := true
	for what, call := range map[string]func() error{
		"trigger":            func() error { _, err := f.Trigger(t.Context(), aTriggerCall()); return err },
		"trigger with names": func() error { _, err := f.Trigger(t.Context(), named); return err },
		"acknowledge":        func() error { _, err := f.acknowledge(id, "task"); return err },
		"update": func() error {
			_, err := f.Update(t.Context(), coordinator.UpdateCall{Job: job, ID: id, Pinned: &pinned})
			return err
		},
		"extend": func() error {
			_, err := f.Extend(t.Context(), coordinator.ExtendCall{Job: job, ID: id, TimeoutMs: 100_000})
			return err
		},
		"complete": func() error {
			_, err := f.Complete(t.Context(), coordinator.CompleteCall{Job: job, ID: id, Force: true})
			return err
		},
		"shared write": func() error {
			_, err := f.WriteShared(t.Context(), coordinator.SharedWrite{
				Job: job, ID: id, Op: coordinator.SharedPut, Entries: []coordinator.SharedEntry{{Key: "new", Value: []byte("2")}},
			})
			return err
		},
		"first tick of a schedule": func() error {
			_, err := f.TriggerIfDue(t.Context(), coordinator.DueCall{Job: job, Defaults: labDefaults()})
			return err
		},
		"settings": func() error {
			_, err := f.PutJob(t.Context(), coordinator.PutJobCall{Job: job, Settings: coordinator.JobSettings{Tasks: []string{"a"}}, Defaults: labDefaults()})
			return err
		},
		"restore record": func() error {
			return f.RecordRestore(t.Context(), job, coordinator.RestoreRecord{CheckpointID: 1})
		},
		"begin upload": func() error {
			_, err := f.BeginUpload(t.Context(), coordinator.UploadCall{Job: job, ID: id, TaskID: "other", Token: "u"})
			return err
		},
	} {
		wantCode(t, what, call(), coordinator.CodeStoreFull)
	}
	after := f.dump()
	for key, value := range after {
		if before[key] != value {
			t.Errorf("%s changed", key)
		}
	}
	if len(before) != len(after) {
		t.Errorf("%d keys before, %d after", len(before), len(after))
	}
	if _, err := f.Get(t.Context(), coordinator.Ref{Job: job, ID: coordinator.Latest}); err != nil {
		t.Errorf("latest of a full Redis: %v", err)
	}
}

func TestAFullRedisStillFreesMemory(t *testing.T) {
	t.Parallel()
	f := fillRedis(t)
	job := coordinator.DefaultJob
	ctx := t.Context()

	// A deadline is where it does not belong, and then the clock steps back.
	for _, step := range []int64{0, -5} {
		f.now += step
		if err := f.Sweep(ctx, coordinator.SweepCall{Retention: coordinator.Retention{Keep: 5}}); err != nil {
			t.Errorf("sweep after a step of the clock by %d: %v", step, err)
		}
	}
	if start := f.client.HGet(ctx, f.keys(job).record(f.expiring), "start").Val(); start != decimal(f.now) {
		t.Errorf("after a step back of the clock to %d the start is %s", f.now, start)
	}
	f.now += 11
	_, err := f.acknowledge(f.expiring, "late")
	if err != nil {
		t.Errorf("acknowledge an overdue one: %v", err)
	}
	if status := f.client.HGet(ctx, f.keys(job).record(f.expiring), "status").Val(); status != "expired" {
		t.Errorf("the overdue one is %q", status)
	}
	if cp, err := f.Abort(ctx, coordinator.AbortCall{Job: job, ID: f.pending[0], TaskID: "task", Attempt: 4, Message: "full"}); err != nil || cp.Status != coordinator.StatusAborted {
		t.Errorf("abort: %v, %v", cp.Status, err)
	}
	if err := f.Delete(ctx, coordinator.DeleteCall{Job: job, ID: f.completed[0]}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if result, err := f.Store.Cleanup(ctx, coordinator.CleanupCall{Job: job, Keep: 2, Max: 100}); err != nil || len(result.Deleted) != 3 {
		t.Errorf("cleanup: %+v, %v", result, err)
	}
	for range 2 {
		call := coordinator.RecoverCall{Job: job, LeaseMs: 1000, Idempotency: coordinator.Idempotency{Key: "crash"}}
		if result, err := f.Recover(ctx, call); err != nil || result.Epoch != 1 || result.Checkpoint == nil {
			t.Errorf("recover: %+v, %v", result, err)
		}
		f.now++ // so that the lease really moves
	}
	if err := f.ForgetTask(ctx, job, "task"); err != nil {
		t.Errorf("forget a task: %v", err)
	}
	if result, err := f.DeleteJob(ctx, coordinator.DeleteJobCall{Job: job, Force: true, Max: 100}); err != nil || result.More {
		t.Errorf("delete the job: %+v, %v", result, err)
	}
	if err := f.Sweep(ctx, coordinator.SweepCall{Retention: coordinator.Retention{Keep: 1}}); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if left := leftovers(t, f.client, f.server.Prefix); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// A tick that is due triggers or changes nothing, so that the schedule goes on when there is
// room again.
func TestAScheduleOnAFullRedisWaits(t *testing.T) {
	t.Parallel()
	f := fillRedis(t)
	keys := f.keys(coordinator.DefaultJob)
	must(t, f.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	must(t, f.client.HSet(t.Context(), keys.job(), "due", f.now).Err())
	tick := func() (coordinator.DueResult, error) {
		defaults := labDefaults()
		defaults.MaxConcurrent = 100
		return f.TriggerIfDue(t.Context(), coordinator.DueCall{Job: coordinator.DefaultJob, Defaults: defaults})
	}
	f.close()
	f.now += 5 // less than any deadline
	before := f.dump()
	_, err := tick()
	wantCode(t, "tick", err, coordinator.CodeStoreFull)
	if diff := cmp.Diff(before, f.dump()); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	must(t, f.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	if result, err := tick(); err != nil || result.Triggered == nil || result.Schedule.Triggered != 1 {
		t.Errorf("tick when there is room again: %+v, %v", result, err)
	}
}
