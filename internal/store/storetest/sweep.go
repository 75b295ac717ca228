package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Each rule of this file makes garbage of one kind; that none of it is left is checked
// by rig.finish after every test of the suite.
func testSweep(t *testing.T, s suite) {
	big := func(task string) coordinator.PartContent { return bigPart(task, 2*coordinator.ChunkBytes+11) }
	s.rule(t, "nothing is left of a deleted checkpoint", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"))
		r.shared(c.ID, "k", "1")
		r.uploadAndAck(c.ID, "a", big("a"))
		r.uploadAndAck(c.ID, "b", big("b"))
		r.delete(c.ID)
	})
	s.rule(t, "nothing is left of parts when a checkpoint is aborted or expires", func(t *testing.T, r *rig) {
		for i := range 2 {
			c := r.trigger(named(names(3)...), timeout(1000))
			r.shared(c.ID, "k", "1")
			r.uploadAndAck(c.ID, names(3)[0], big("task-00000"))
			r.upload(c.ID, names(3)[1], big("task-00001"))
			if i == 0 {
				r.abort(c.ID)
			} else {
				r.clock.Advance(1001)
			}
		}
	})
	s.rule(t, "nothing is left of parts that were replaced", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(0), requires(2))
		for range 3 {
			r.upload(c.ID, "a", big("a"))
		}
		r.accept(c.ID, "a", with(part("a", "k", "1")))
	})
	s.rule(t, "nothing is left of what retention and cleanup take", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		for range 4 {
			c := r.trigger(named("a"))
			r.shared(c.ID, "k", "1")
			r.uploadAndAck(c.ID, "a", big("a"))
		}
		r.cleanup(0)
	})
	s.rule(t, "nothing is left of records that newer failures push out", func(t *testing.T, r *rig) {
		for range coordinator.EndedKept + 5 {
			c := r.trigger(named("a", "b"))
			r.uploadAndAck(c.ID, "a", big("a"))
			r.abort(c.ID)
		}
	})
	s.rule(t, "nothing is left of many parts", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2000))
		for chunk := range 2 {
			items := make([]coordinator.AckItem, 0, 800)
			for i := range 800 {
				task := fmt.Sprintf("task-%d-%d", chunk, i)
				items = append(items, item(task, with(part(task, "k", "1"))))
			}
			r.acks(c.ID, items...)
		}
		r.delete(c.ID)
	})
	s.rule(t, "what is in use is never swept", func(t *testing.T, r *rig) {
		done := r.trigger(timeout(0))
		r.shared(done.ID, "k", "1")
		r.uploadAndAck(done.ID, "task-1", big("task-1"))
		open := r.trigger(timeout(0), named(names(1200)...))
		r.shared(open.ID, "k", "2")
		r.upload(open.ID, "task-00007", big("task-00007"))
		r.accept(open.ID, "task-00008", with(big("task-00008")))
		for range 3 {
			r.clock.Advance(ms(leasesOver))
			r.sweep()
			r.reopen()
		}
		equal(t, "the snapshot is whole", r.restored(done.ID) == sharedLines("k", "1")+string(big("task-1").Content), true)
		r.accept(open.ID, "task-00007")
		r.complete(open.ID, true)
		equal(t, "the later snapshot is whole", r.restored(open.ID) == sharedLines("k", "2")+string(big("task-00007").Content)+string(big("task-00008").Content), true)
	})
	s.rule(t, "an upload is not swept while it runs", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(0))
		upload := r.begin(c.ID, "task-1", big("task-1"))
		r.clock.Advance(ms(10 * time.Second))
		r.sweep()
		equal(t, "refusal", r.commitCode(upload, big("task-1"), true), "")
		equal(t, "the snapshot is whole", r.restored(c.ID) == string(big("task-1").Content), true)
	})
	s.rule(t, "sweeping twice at once is harmless", func(t *testing.T, r *rig) {
		for range 30 {
			c := r.trigger(timeout(1000), atMostPending(100))
			r.upload(c.ID, "a", part("a", "k", "1"))
		}
		r.clock.Advance(1001)
		one, two := r.either()
		failed := make(chan error, 2)
		for _, store := range []coordinator.Store{one, two} {
			go func() {
				failed <- store.Sweep(t.Context(), coordinator.SweepCall{Retention: coordinator.Retention{Keep: 1}})
			}()
		}
		for range 2 {
			r.check("sweep", <-failed)
		}
	})
}
