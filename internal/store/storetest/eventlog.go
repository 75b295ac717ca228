package storetest

import (
	"fmt"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// trimmedAfter is how many events are written after the last one that a log of a few
// events would have to keep, so that a store surely has trimmed: it may do so in blocks.
const trimmedAfter = 300

// testEventLog is about a job's log as a sequence: ids, reading on, and what is not there.
func testEventLog(t *testing.T, s suite) {
	s.rule(t, "a log is empty in the beginning, and its end is the zero id", func(t *testing.T, r *rig) {
		equal(t, "position", r.position(), coordinator.EventID{})
		equal(t, "position as the job tells it", r.jobState().LastEvent, coordinator.EventID{})
		page := r.events(coordinator.EventID{}, 10)
		equal(t, "gap", page.Gap, false)
		equal(t, "events", len(page.Events), 0)
	})
	s.rule(t, "events are counted from 1, without gaps, through all epochs, each in the epoch of its moment", func(t *testing.T, r *rig) {
		for range 3 {
			r.completed()
			r.trigger()
			r.recover("")
		}
		epoch := int64(0)
		for i, e := range r.eventsAfter(coordinator.EventID{}) {
			if e.Type == coordinator.EventRecovered {
				epoch++
			}
			equal(t, fmt.Sprintf("id of event %d, %s", i, e.Type), e.ID, coordinator.EventID{Epoch: epoch, Seq: int64(i) + 1})
		}
		equal(t, "epoch of the last", epoch, 3)
	})
	s.rule(t, "the position is the newest event, from the job, from all jobs and from the log", func(t *testing.T, r *rig) {
		for range 2 {
			r.completed()
			r.recover("")
			all := r.eventsAfter(coordinator.EventID{})
			last := all[len(all)-1].ID
			equal(t, "position", r.position(), last)
			equal(t, "position of the job", r.jobState().LastEvent, last)
			equal(t, "position among all jobs", r.state().LastEvent, last)
		}
	})
	s.rule(t, "each job has a log of its own", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		mine, theirs := r.completed(), orders.trigger()
		r.wantKinds(coordinator.EventID{}, kind(coordinator.EventTriggered, mine.ID), kind(coordinator.EventCompleted, mine.ID))
		orders.wantKinds(coordinator.EventID{}, kind(coordinator.EventTriggered, theirs.ID))
		equal(t, "job of an event", orders.eventsAfter(coordinator.EventID{})[0].Job, "orders")
	})
	s.rule(t, "after each event follows exactly the rest, also after a restart", func(t *testing.T, r *rig) {
		for i := range 6 {
			r.completed()
			r.aborted()
			if i%2 == 1 {
				r.recover("")
			}
		}
		all := r.eventsAfter(coordinator.EventID{})
		equal(t, "events", len(all), 27)
		r.reopen()
		for i, e := range all {
			if diff := diffEvents(all[i+1:], r.eventsAfter(e.ID)); diff != "" {
				t.Errorf("after event %d (-want +got):\n%s", i, diff)
			}
		}
	})
	s.rule(t, "a page has at most as many events as asked for, the oldest first, and the next goes on behind it", func(t *testing.T, r *rig) {
		r.completedTimes(5)
		r.recover("")
		all := r.eventsAfter(coordinator.EventID{})
		for _, limit := range []int{1, 2, 3, 10, 11, 12, coordinator.MaxEvents} {
			var place coordinator.EventID
			var read []coordinator.Event
			for {
				page := r.events(place, limit)
				equal(t, "gap", page.Gap, false)
				equal(t, "position", page.Position, all[len(all)-1].ID)
				if len(page.Events) == 0 {
					break
				}
				equal(t, fmt.Sprintf("events of a page of %d", limit), len(page.Events), min(limit, len(all)-len(read)))
				read = append(read, page.Events...)
				place = read[len(read)-1].ID
				if len(read) > len(all) {
					t.Fatalf("pages of %d do not end", limit)
				}
			}
			if diff := diffEvents(all, read); diff != "" {
				t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
			}
		}
	})
	s.rule(t, "more events than a page may have are read page by page", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		n := coordinator.MaxEvents/3 + 10 // triggered, completed, and one deleted
		r.completedAtOnce(n)
		page := r.events(coordinator.EventID{}, coordinator.MaxEvents)
		equal(t, "events of a full page", len(page.Events), coordinator.MaxEvents)
		equal(t, "all events", len(r.eventsAfter(coordinator.EventID{})), 3*n-1)
	})
	s.rule(t, "an id that is not in the log gives a gap, with the end of the log and the pendings, oldest first", func(t *testing.T, r *rig) {
		r.completed()
		r.trigger()
		r.recover("")
		three, four := r.trigger(named("a", "b")), r.trigger(timeout(0))
		r.trigger(timeout(10))
		r.accept(three.ID, "a")
		r.clock.Advance(11)
		last := r.position()
		for what, place := range map[string]coordinator.EventID{
			"ahead of the log":                   {Epoch: last.Epoch, Seq: last.Seq + 1},
			"of an epoch that never was":         {Epoch: 7, Seq: 1},
			"of an old epoch with a new number":  {Epoch: 0, Seq: last.Seq},
			"of the new epoch with an old one":   {Epoch: 1, Seq: 1},
			"number 0 of an epoch":               {Epoch: 1, Seq: 0},
			"the highest that can be":            {Epoch: coordinator.MaxID, Seq: coordinator.MaxID},
			"of an old epoch, far ahead in that": {Epoch: 0, Seq: 1000},
		} {
			page := r.events(place, 10)
			if !page.Gap || len(page.Events) > 0 {
				t.Errorf("an id %s: gap %v and %d events, want a gap", what, page.Gap, len(page.Events))
			}
			equal(t, "position after an id "+what, page.Position, last)
			ids := []int64{}
			for _, c := range page.Pending {
				ids = append(ids, c.ID)
			}
			r.wantIDs("pending", ids, three.ID, four.ID)
			if len(page.Pending) == 2 {
				wantSame(t, r.get(three.ID).Checkpoint, page.Pending[0])
			}
		}
	})
	s.rule(t, "a gap in a job where nothing is pending has no pendings", func(t *testing.T, r *rig) {
		page := r.events(coordinator.EventID{Epoch: 0, Seq: 5}, 10)
		equal(t, "gap", page.Gap, true)
		equal(t, "pendings", len(page.Pending), 0)
		equal(t, "position", page.Position, coordinator.EventID{})
	})
	s.rule(t, "the log keeps at least as many events as it must, and not for ever", func(t *testing.T, r *rig) {
		r.defaults.EventsToKeep, r.defaults.Keep = 7, 1
		r.completedTimes(2)
		old := r.eventsAfter(coordinator.EventID{})
		if len(old) != 5 {
			t.Fatalf("two completions that keep one checkpoint have %d events", len(old))
		}
		for range trimmedAfter / 3 {
			mark := old[len(old)-1].ID
			c := r.completed()
			old = append(old, r.eventsAfter(mark)...)
			recent := old[max(0, len(old)-7):]
			if diff := diffEvents(recent[1:], r.eventsAfter(recent[0].ID)); diff != "" {
				t.Fatalf("the last 7 events at %d (-want +got):\n%s", c.ID, diff)
			}
		}
		r.reopen()
		open := r.trigger()
		for what, place := range map[string]coordinator.EventID{"the zero id": {}, "the first event": old[0].ID} {
			page := r.events(place, coordinator.MaxEvents)
			if !page.Gap || len(page.Events) > 0 || len(page.Pending) != 1 || page.Pending[0].ID != open.ID {
				t.Errorf("after %s: gap %v, %d events, pending %+v; want a gap with %d pending", what, page.Gap, len(page.Events), page.Pending, open.ID)
			}
			equal(t, "position", page.Position, r.position())
		}
	})
	s.rule(t, "before a server has said how many events are kept, the documented number is", func(t *testing.T, r *rig) {
		for range trimmedAfter {
			r.recover("")
		}
		equal(t, "events", len(r.eventsAfter(coordinator.EventID{})), trimmedAfter)
	})
	s.rule(t, "a log that was trimmed counts on", func(t *testing.T, r *rig) {
		r.defaults.EventsToKeep, r.defaults.Keep = 2, 1 // the last one and the one to ask for
		for range trimmedAfter / 3 {
			r.completed()
		}
		mark := r.position()
		r.recover("")
		got := r.wantKinds(mark, kind(coordinator.EventRecovered, r.get(coordinator.Latest).ID))
		equal(t, "the next id", got[0].ID, coordinator.EventID{Epoch: 1, Seq: mark.Seq + 1})
		r.reopen()
		equal(t, "position after a restart", r.position(), got[0].ID)
	})
	s.rule(t, "events that the sweeper writes count towards what the last trigger said is kept", func(t *testing.T, r *rig) {
		r.defaults.EventsToKeep = 500
		for range 6 {
			for range 50 {
				r.trigger(timeout(10), atMostPending(100))
			}
			r.clock.Advance(11)
			r.sweep()
		}
		// 300 triggered, 300 expired, 1 failing, 280 deleted: none of the last 500 may be gone.
		last := r.position()
		page := r.events(coordinator.EventID{Epoch: 0, Seq: last.Seq - 499}, coordinator.MaxEvents)
		equal(t, "gap", page.Gap, false)
		equal(t, "events", len(page.Events), 499)
	})
}
