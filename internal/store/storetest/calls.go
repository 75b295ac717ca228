package storetest

import (
	"slices"
	"sync"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

type triggerOption func(*coordinator.TriggerCall)

func requires(n int) triggerOption {
	return func(c *coordinator.TriggerCall) { c.RequiredTaskAcks = n }
}

func named(tasks ...string) triggerOption {
	return func(c *coordinator.TriggerCall) { c.Tasks, c.RequiredTaskAcks = tasks, 0 }
}

func timeout(ms int64) triggerOption {
	return func(c *coordinator.TriggerCall) { c.TimeoutMs = &ms }
}

// leftOpen says nothing that the job's settings or the defaults may say.
func leftOpen() triggerOption {
	return func(c *coordinator.TriggerCall) { c.RequiredTaskAcks, c.Tasks, c.TimeoutMs = 0, nil, nil }
}

func forced() triggerOption { return func(c *coordinator.TriggerCall) { c.Force = true } }

func pinned() triggerOption { return func(c *coordinator.TriggerCall) { c.Pinned = true } }

func atMostPending(n int) triggerOption {
	return func(c *coordinator.TriggerCall) { c.Defaults.MaxConcurrent = n }
}

func withKey(key, fingerprint string) triggerOption {
	return func(c *coordinator.TriggerCall) { c.Key, c.Fingerprint = key, fingerprint }
}

// triggerCall asks for a checkpoint that one acknowledgement of any task completes.
func (r *rig) triggerCall(options ...triggerOption) coordinator.TriggerCall {
	call := coordinator.TriggerCall{
		Job: r.job, RequiredTaskAcks: 1, TimeoutMs: new(int64(60_000)), Defaults: r.defaults,
		Idempotency: coordinator.Idempotency{Token: r.token(), Fingerprint: "body"},
	}
	for _, option := range options {
		option(&call)
	}
	return call
}

func (r *rig) trigger(options ...triggerOption) coordinator.Checkpoint {
	r.t.Helper()
	result, err := r.store.Trigger(r.t.Context(), r.triggerCall(options...))
	r.check("trigger", err)
	return result.Checkpoint
}

type ackOption func(*coordinator.AckItem)

func with(content coordinator.PartContent) ackOption {
	return func(i *coordinator.AckItem) { i.Part = &content }
}

func digest(d string) ackOption { return func(i *coordinator.AckItem) { i.Digest = d } }

func attempt(n int64) ackOption { return func(i *coordinator.AckItem) { i.Attempt = n } }

func epoch(n int64) ackOption { return func(i *coordinator.AckItem) { i.Epoch = &n } }

func item(task string, options ...ackOption) coordinator.AckItem {
	i := coordinator.AckItem{TaskID: task}
	for _, option := range options {
		option(&i)
	}
	return i
}

func (r *rig) ackCall(id int64, items ...coordinator.AckItem) coordinator.AckCall {
	return coordinator.AckCall{Job: r.job, ID: id, Items: items, Retention: r.defaults.Retention, Token: r.token()}
}

// acks sends several tasks' words in one call.
func (r *rig) acks(id int64, items ...coordinator.AckItem) coordinator.AckResult {
	r.t.Helper()
	result, err := r.store.Acknowledge(r.t.Context(), r.ackCall(id, items...))
	r.check("acknowledge", err)
	if len(result.Outcomes) != len(items) {
		r.t.Fatalf("acknowledge answered %d outcomes for %d items", len(result.Outcomes), len(items))
	}
	for i, outcome := range result.Outcomes {
		equal(r.t, "the task of an outcome", outcome.TaskID, items[i].TaskID)
		if refused := outcome.Outcome == coordinator.AckRefused; refused != (outcome.Refusal != nil) {
			r.t.Errorf("outcome %q of %s comes with refusal %v", outcome.Outcome, outcome.TaskID, outcome.Refusal)
		}
	}
	return result
}

// ack sends one task's word and gives its outcome, whatever it is.
func (r *rig) ack(id int64, task string, options ...ackOption) coordinator.AckOutcome {
	r.t.Helper()
	return r.acks(id, item(task, options...)).Outcomes[0]
}

// accept sends one task's word, which must count.
func (r *rig) accept(id int64, task string, options ...ackOption) coordinator.AckOutcome {
	r.t.Helper()
	outcome := r.ack(id, task, options...)
	if outcome.Outcome != coordinator.AckAccepted {
		r.t.Fatalf("ack of %s for %d: %s (%v), want it to count", task, id, outcome.Outcome, outcome.Refusal)
	}
	return outcome
}

// ackRefused sends one task's word, which must be refused with the code.
func (r *rig) ackRefused(want coordinator.Code, id int64, task string, options ...ackOption) *coordinator.Error {
	r.t.Helper()
	outcome := r.ack(id, task, options...)
	if outcome.Refusal == nil {
		r.t.Fatalf("ack of %s for %d: %s, want the refusal %s", task, id, outcome.Outcome, want)
	}
	equal(r.t, "the refusal", outcome.Refusal.Code, want)
	return outcome.Refusal
}

// completed makes a completed checkpoint of one task.
func (r *rig) completed(options ...triggerOption) coordinator.Checkpoint {
	r.t.Helper()
	c := r.trigger(options...)
	r.accept(c.ID, "task-1", with(part("task-1", "k", "1")))
	return c
}

// completedTimes makes n completed checkpoints and gives their ids, oldest first.
func (r *rig) completedTimes(n int) []int64 {
	r.t.Helper()
	ids := make([]int64, 0, n)
	for range n {
		ids = append(ids, r.completed().ID)
	}
	return ids
}

// completedAtOnce completes n checkpoints, several at a time: a store joins what comes at once, and
// does so many more quickly than one after another.
func (r *rig) completedAtOnce(n int) {
	r.t.Helper()
	const callers = 8
	calls := make(chan coordinator.TriggerCall, n)
	for range n {
		calls <- r.triggerCall()
	}
	close(calls)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for call := range calls {
				triggered, err := r.store.Trigger(r.t.Context(), call)
				if err == nil {
					_, err = r.store.Complete(r.t.Context(), coordinator.CompleteCall{
						Job: r.job, ID: triggered.Checkpoint.ID, Force: true, Retention: r.defaults.Retention, Token: call.Idempotency.Token + "-completed",
					})
				}
				if err != nil {
					r.t.Errorf("complete one of many: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// aborted makes an aborted checkpoint.
func (r *rig) aborted(options ...triggerOption) coordinator.Checkpoint {
	r.t.Helper()
	return r.abort(r.trigger(options...).ID)
}

func (r *rig) abort(id int64) coordinator.Checkpoint {
	r.t.Helper()
	c, err := r.store.Abort(r.t.Context(), coordinator.AbortCall{Job: r.job, ID: id, Token: r.token()})
	r.check("abort", err)
	return c
}

func (r *rig) complete(id int64, force bool) coordinator.Checkpoint {
	r.t.Helper()
	c, err := r.store.Complete(r.t.Context(), r.completeCall(id, force))
	r.check("complete", err)
	return c
}

func (r *rig) completeCall(id int64, force bool) coordinator.CompleteCall {
	return coordinator.CompleteCall{Job: r.job, ID: id, Force: force, Retention: r.defaults.Retention, Token: r.token()}
}

func (r *rig) extend(id, timeoutMs int64) coordinator.Checkpoint {
	r.t.Helper()
	c, err := r.store.Extend(r.t.Context(), coordinator.ExtendCall{Job: r.job, ID: id, TimeoutMs: timeoutMs})
	r.check("extend", err)
	return c
}

func (r *rig) pin(id int64, pinned bool) coordinator.Checkpoint {
	r.t.Helper()
	c, err := r.store.Update(r.t.Context(), coordinator.UpdateCall{Job: r.job, ID: id, Pinned: &pinned})
	r.check("update", err)
	return c
}

func (r *rig) delete(id int64) {
	r.t.Helper()
	r.check("delete", r.store.Delete(r.t.Context(), coordinator.DeleteCall{Job: r.job, ID: id}))
}

func (r *rig) cleanup(keep int) coordinator.CleanupResult {
	r.t.Helper()
	result, err := r.store.Cleanup(r.t.Context(), coordinator.CleanupCall{Job: r.job, Keep: keep, Max: coordinator.CleanupStep})
	r.check("cleanup", err)
	return result
}

// recoveryLease is how long the suite's recoveries hold their checkpoint, in ms. No sum of
// the steps of a game's clock meets it.
const recoveryLease = 600_011

func (r *rig) recoverCall(key string) coordinator.RecoverCall {
	return coordinator.RecoverCall{Job: r.job, LeaseMs: recoveryLease, Idempotency: coordinator.Idempotency{Key: key, Fingerprint: "recover", Token: r.token()}}
}

// recover restarts the fleet; key "" sends no Idempotency-Key.
func (r *rig) recover(key string) coordinator.RecoverResult {
	r.t.Helper()
	result, err := r.store.Recover(r.t.Context(), r.recoverCall(key))
	r.check("recover", err)
	return result
}

func (r *rig) sweep() {
	r.t.Helper()
	r.check("sweep", r.store.Sweep(r.t.Context(), coordinator.SweepCall{Retention: r.defaults.Retention}))
}

func (r *rig) get(id int64) coordinator.CheckpointDetail {
	r.t.Helper()
	c, err := r.store.Get(r.t.Context(), r.ref(id))
	r.check("get", err)
	return c
}

// getRefused reads a checkpoint, which must be refused with the code.
func (r *rig) getRefused(want coordinator.Code, id int64) {
	r.t.Helper()
	_, err := r.store.Get(r.t.Context(), r.ref(id))
	r.refused(err, want)
}

func (r *rig) wantStatus(id int64, want coordinator.Status) {
	r.t.Helper()
	equal(r.t, "status", r.get(id).Status, want)
}

// list reads all pages of a list and gives the ids in their order.
func (r *rig) list(call coordinator.ListCall) []int64 {
	r.t.Helper()
	call.Job, call.Before = r.job, -1
	if call.Limit == 0 {
		call.Limit = coordinator.DefaultListLimit
	}
	ids := []int64{}
	for {
		page, err := r.store.List(r.t.Context(), call)
		r.check("list", err)
		if len(page.Checkpoints) > call.Limit {
			r.t.Fatalf("a page of at most %d has %d checkpoints", call.Limit, len(page.Checkpoints))
		}
		for _, c := range page.Checkpoints {
			ids = append(ids, c.ID)
		}
		if page.Next < 0 {
			return ids
		}
		if call.Before >= 0 && page.Next >= call.Before {
			r.t.Fatalf("the page before %d names %d as the next", call.Before, page.Next)
		}
		call.Before = page.Next
	}
}

func (r *rig) wantIDs(what string, got []int64, want ...int64) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// state reads one job's gauges.
func (r *rig) state() coordinator.JobState {
	r.t.Helper()
	jobs, err := r.store.Jobs(r.t.Context())
	r.check("jobs", err)
	for _, job := range jobs {
		if job.Job == r.job {
			return job
		}
	}
	r.t.Fatalf("job %q is not among %v", r.job, jobs)
	return coordinator.JobState{}
}

// tag reads the entity tag of a checkpoint.
func (r *rig) tag(id int64) string {
	r.t.Helper()
	detail := r.get(id)
	return detail.Tag()
}

// sharedTag reads the entity tag of a checkpoint's shared state.
func (r *rig) sharedTag(id int64) string {
	r.t.Helper()
	detail := r.get(id)
	return detail.SharedTag()
}
