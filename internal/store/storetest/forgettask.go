package storetest

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testForgetTask(t *testing.T, s suite) {
	s.rule(t, "a task that was forgotten may begin with attempt 0 again, the others may not", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		for _, job := range []*rig{r, orders} {
			c := job.trigger(requires(3))
			job.accept(c.ID, "a", attempt(5))
			job.accept(c.ID, "b", attempt(5))
		}
		r.forgetTask("a")
		r.reopen()
		c, theirs := r.trigger(requires(3)), orders.trigger(requires(3))
		r.ackRefused(coordinator.CodeStaleAttempt, c.ID, "b")
		_ = orders.ackRefused(coordinator.CodeStaleAttempt, theirs.ID, "a")
		r.accept(c.ID, "a")
	})
	s.rule(t, "what was forgotten is counted anew", func(t *testing.T, r *rig) {
		r.accept(r.trigger().ID, "a", attempt(5))
		r.forgetTask("a")
		r.accept(r.trigger().ID, "a", attempt(2))
		r.ackRefused(coordinator.CodeStaleAttempt, r.trigger().ID, "a", attempt(1))
	})
	s.rule(t, "its acknowledgements stand", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"))
		r.accept(c.ID, "a", attempt(5))
		r.forgetTask("a")
		equal(t, "acknowledged", r.get(c.ID).AcknowledgedTasks, 1)
		equal(t, "attempt of the acknowledgement", r.get(c.ID).Acks[0].Attempt, 5)
		equal(t, "outcome", r.ack(c.ID, "a").Outcome, coordinator.AckDuplicate)
	})
	s.rule(t, "forgetting a task that was never heard of, or twice, is fine", func(t *testing.T, r *rig) {
		for _, name := range awkwardNames() {
			r.forgetTask(name)
			r.forgetTask(name)
		}
	})
	s.rule(t, "any legal name is forgotten, and no other", func(t *testing.T, r *rig) {
		tasks := awkwardNames()
		c := r.trigger(requires(2 * len(tasks)))
		for _, name := range tasks {
			r.accept(c.ID, name, attempt(1))
		}
		next := r.trigger(requires(2 * len(tasks)))
		for i, name := range tasks {
			r.forgetTask(name)
			r.accept(next.ID, name)
			if i+1 < len(tasks) {
				r.ackRefused(coordinator.CodeStaleAttempt, next.ID, tasks[i+1])
			}
		}
	})
}
