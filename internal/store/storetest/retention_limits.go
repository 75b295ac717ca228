package storetest

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// size is what a checkpoint of sized has as restore bytes.
const size = 1000

// sized makes a completed checkpoint of a known size.
func (r *rig) sized(options ...triggerOption) coordinator.Checkpoint {
	r.t.Helper()
	c := r.trigger(options...)
	r.accept(c.ID, "task-1", with(bigPart("task-1", size)))
	return c
}

func testRetentionByAge(t *testing.T, s suite) {
	rule := func(t *testing.T, sentence string, body func(*testing.T, *rig)) {
		t.Helper()
		s.rule(t, sentence, func(t *testing.T, r *rig) {
			r.defaults.MaxAgeMs = 1000
			body(t, r)
		})
	}
	rule(t, "what completed longer ago than that goes, by the sweep alone too, and not in its last millisecond", func(t *testing.T, r *rig) {
		started := r.trigger()
		r.clock.Advance(600)
		r.accept(started.ID, "task-1")
		last := r.completed()
		mark := r.position()
		r.clock.Advance(1000)
		r.sweep()
		r.wantStatus(started.ID, coordinator.StatusCompleted)
		r.clock.Advance(1)
		r.wantStatus(started.ID, coordinator.StatusCompleted)
		r.sweep()
		r.wantKinds(mark, kind(coordinator.EventDeleted, started.ID))
		r.wantIDs("the list", r.list(coordinator.ListCall{}), last.ID)
		if why := r.seen.deletionOf(r.job, started.ID); len(why) != 1 || why[0] != coordinator.DeletedByRetention {
			t.Errorf("reported deletions = %q", why)
		}
	})
	rule(t, "a completion applies it as well", func(t *testing.T, r *rig) {
		old := r.completed()
		r.clock.Advance(600)
		young := r.completed()
		r.clock.Advance(401)
		last := r.completed()
		r.getRefused(coordinator.CodeCheckpointDeleted, old.ID)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), last.ID, young.ID)
	})
	rule(t, "the newest ordinary one stays however old it is, also beside newer pinned ones", func(t *testing.T, r *rig) {
		ids := r.completedTimes(2)
		first, second := r.completed(pinned()), r.completed(pinned())
		r.clock.Advance(1_000_000)
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), second.ID, first.ID, ids[1])
		r.pin(first.ID, false)
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), second.ID, first.ID)
	})
	rule(t, "age goes by the time of completion, whatever the order of ids", func(t *testing.T, r *rig) {
		slow := r.trigger()
		quick := r.completed()
		r.clock.Advance(900)
		r.accept(slow.ID, "task-1")
		last := r.completed()
		r.clock.Advance(200)
		r.sweep()
		r.getRefused(coordinator.CodeCheckpointDeleted, quick.ID)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), last.ID, slow.ID)
	})
	rule(t, "a leased one waits, and blocks no other", func(t *testing.T, r *rig) {
		ids := r.completedTimes(4)
		source := r.openRestore(r.restoreCall(ids[0]))
		r.clock.Advance(1001)
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), ids[3], ids[0])
		r.check("release", source.Release(t.Context()))
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), ids[3])
	})
	rule(t, "pending and failed ones are not touched", func(t *testing.T, r *rig) {
		open, gone := r.trigger(timeout(0)), r.aborted()
		r.completed()
		last := r.completed()
		r.clock.Advance(5000)
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), last.ID, gone.ID, open.ID)
	})
	rule(t, "the job's own age comes before the server's, 0 is for ever", func(t *testing.T, r *rig) {
		longer, forever := r.in("longer"), r.in("forever")
		longer.putJob(coordinator.JobSettings{MaxAgeMs: new(int64(5000))})
		forever.putJob(coordinator.JobSettings{MaxAgeMs: new(int64(0))})
		for _, after := range []struct {
			ms                   int64
			own, longer, forever int
		}{{1001, 1, 2, 2}, {4000, 1, 1, 2}} {
			if after.ms == 1001 {
				for _, job := range []*rig{r, longer, forever} {
					job.completedTimes(2)
				}
			}
			r.clock.Advance(after.ms)
			r.sweep()
			equal(t, "kept", len(r.list(coordinator.ListCall{})), after.own)
			equal(t, "kept longer", len(longer.list(coordinator.ListCall{})), after.longer)
			equal(t, "kept for ever", len(forever.list(coordinator.ListCall{})), after.forever)
		}
	})
	rule(t, "hundreds of old ones are all gone after a few sweeps", func(t *testing.T, r *rig) {
		r.completedAtOnce(250)
		r.clock.Advance(1001)
		for range 4 {
			r.sweep()
		}
		equal(t, "kept", len(r.list(coordinator.ListCall{})), 1)
	})
}

func testRetentionByBytes(t *testing.T, s suite) {
	rule := func(t *testing.T, sentence string, body func(*testing.T, *rig)) {
		t.Helper()
		s.rule(t, sentence, func(t *testing.T, r *rig) {
			r.defaults.MaxBytes = 2 * size
			body(t, r)
		})
	}
	rule(t, "the oldest go until the others fit, to the byte", func(t *testing.T, r *rig) {
		one, two := r.sized(), r.sized()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), two.ID, one.ID)
		three := r.sized()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), three.ID, two.ID)
		r.defaults.MaxBytes = 2*size - 1
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), three.ID)
	})
	rule(t, "shared state and empty parts count as what they are", func(t *testing.T, r *rig) {
		empty := r.trigger()
		r.accept(empty.ID, "task-1")
		one := r.sized()
		c := r.trigger()
		r.shared(c.ID, "k", "1")
		r.accept(c.ID, "task-1", with(bigPart("task-1", size-len(sharedLines("k", "1")))))
		r.wantIDs("the list", r.list(coordinator.ListCall{}), c.ID, one.ID, empty.ID)
		c = r.trigger()
		r.shared(c.ID, "k", "1")
		r.accept(c.ID, "task-1")
		r.getRefused(coordinator.CodeCheckpointDeleted, empty.ID)
		r.getRefused(coordinator.CodeCheckpointDeleted, one.ID)
	})
	rule(t, "the newest ordinary one stays however large it is", func(t *testing.T, r *rig) {
		small := r.completed()
		c := r.trigger()
		r.uploadAndAck(c.ID, "task-1", bigPart("task-1", 5*size))
		r.getRefused(coordinator.CodeCheckpointDeleted, small.ID)
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), c.ID)
	})
	rule(t, "pinned ones are neither counted nor touched", func(t *testing.T, r *rig) {
		kept := r.sized(pinned())
		one, two := r.sized(), r.sized()
		later := r.sized(pinned())
		r.wantIDs("the list", r.list(coordinator.ListCall{}), later.ID, two.ID, one.ID, kept.ID)
		r.pin(later.ID, false)
		r.sweep()
		r.wantIDs("the list, unpinned", r.list(coordinator.ListCall{}), later.ID, two.ID, kept.ID)
		r.pin(two.ID, true)
		last := r.sized()
		r.wantIDs("the list, another pinned", r.list(coordinator.ListCall{}), last.ID, later.ID, two.ID, kept.ID)
	})
	rule(t, "a leased one waits and counts with its bytes, and blocks no other", func(t *testing.T, r *rig) {
		one, two := r.sized(), r.sized()
		source := r.openRestore(r.restoreCall(one.ID))
		three := r.sized()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), three.ID, one.ID)
		r.getRefused(coordinator.CodeCheckpointDeleted, two.ID)
		r.check("release", source.Release(t.Context()))
		four := r.sized()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), four.ID, three.ID)
	})
	rule(t, "what is deleted by hand makes room", func(t *testing.T, r *rig) {
		one, two := r.sized(), r.sized()
		r.delete(two.ID)
		three := r.sized()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), three.ID, one.ID)
	})
	rule(t, "the job's own limit comes before the server's, 0 is none", func(t *testing.T, r *rig) {
		more, all := r.in("more"), r.in("all")
		more.putJob(coordinator.JobSettings{MaxBytes: new(int64(3 * size))})
		all.putJob(coordinator.JobSettings{MaxBytes: new(int64(0))})
		for _, job := range []*rig{r, more, all} {
			for range 5 {
				job.sized()
			}
		}
		equal(t, "kept", len(r.list(coordinator.ListCall{})), 2)
		equal(t, "more kept", len(more.list(coordinator.ListCall{})), 3)
		equal(t, "all kept", len(all.list(coordinator.ListCall{})), 5)
	})
	rule(t, "number, age and bytes each take what is beyond them", func(t *testing.T, r *rig) {
		r.defaults.Keep, r.defaults.MaxAgeMs, r.defaults.MaxBytes = 3, 1000, 3*size
		r.sized()
		r.clock.Advance(600)
		two := r.sized()
		r.clock.Advance(401)
		three := r.sized()
		r.wantIDs("too old", r.list(coordinator.ListCall{}), three.ID, two.ID)
		four, five := r.sized(), r.completed()
		r.wantIDs("too many", r.list(coordinator.ListCall{}), five.ID, four.ID, three.ID)
		six := r.trigger()
		r.accept(six.ID, "task-1", with(bigPart("task-1", 2*size)))
		r.wantIDs("too large", r.list(coordinator.ListCall{}), six.ID, five.ID)
	})
}
