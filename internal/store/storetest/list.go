package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testList(t *testing.T, s suite) {
	s.rule(t, "the newest id comes first, whatever the clock said", func(t *testing.T, r *rig) {
		var want []int64
		for i := range 15 {
			want = append(want, r.trigger().ID)
			r.clock.Advance(int64(1000 * (i%3 - 1)))
		}
		slices.Reverse(want)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), want...)
	})
	for _, limit := range []int{1, 2, 7, 24, 25, 26, coordinator.MaxListLimit} {
		s.rule(t, fmt.Sprintf("pages of %d give everything once", limit), func(t *testing.T, r *rig) {
			ids := r.completedTimes(25)
			slices.Reverse(ids)
			r.wantIDs("the list", r.list(coordinator.ListCall{Limit: limit}), ids...)
		})
	}
	s.rule(t, "a page of large items ends early and says what comes next", func(t *testing.T, r *rig) {
		const value, names = coordinator.MaxLabelValueBytes, coordinator.MaxLabels
		labels := map[string]string{}
		for i := range names {
			labels[fmt.Sprintf("label-%d", i)] = strings.Repeat("x", value)
		}
		var want []int64
		for range coordinator.PageBytes/(names*value) + 3 {
			want = append(want, r.trigger(func(call *coordinator.TriggerCall) { call.Labels, call.Defaults.MaxConcurrent = labels, 100 }).ID)
		}
		slices.Reverse(want)
		page, err := r.store.List(t.Context(), coordinator.ListCall{Job: r.job, Before: -1, Limit: coordinator.MaxListLimit})
		r.check("list", err)
		size := 0
		for i := range page.Checkpoints {
			size += page.Checkpoints[i].Size()
		}
		if n := len(page.Checkpoints); n == 0 || n >= len(want) || size > coordinator.PageBytes || page.Next != want[n-1] {
			t.Errorf("the page has %d checkpoints of %d in %d bytes, and the next is below %d", n, len(want), size, page.Next)
		}
		r.wantIDs("all pages", r.list(coordinator.ListCall{Limit: coordinator.MaxListLimit}), want...)
	})
	s.rule(t, "a page begins below the id given", func(t *testing.T, r *rig) {
		ids := r.completedTimes(4)
		page, err := r.store.List(t.Context(), coordinator.ListCall{Job: r.job, Before: ids[2], Limit: 10})
		r.check("list", err)
		if len(page.Checkpoints) != 2 || page.Checkpoints[0].ID != ids[1] {
			t.Errorf("page = %+v", page)
		}
		page, err = r.store.List(t.Context(), coordinator.ListCall{Job: r.job, Before: ids[0], Limit: 10})
		r.check("list", err)
		equal(t, "checkpoints below the first", len(page.Checkpoints), 0)
		equal(t, "next", page.Next < 0, true)
	})
	s.rule(t, "a status selects what is in it now", func(t *testing.T, r *rig) {
		want := map[coordinator.Status][]int64{}
		var late []int64
		for range 3 {
			want[coordinator.StatusCompleted] = append(want[coordinator.StatusCompleted], r.completed().ID)
			late = append(late, r.trigger(timeout(10)).ID)
			want[coordinator.StatusAborted] = append(want[coordinator.StatusAborted], r.aborted().ID)
			want[coordinator.StatusPending] = append(want[coordinator.StatusPending], r.trigger().ID)
		}
		r.clock.Advance(11)
		want[coordinator.StatusExpired] = late
		for _, written := range []bool{false, true} {
			if written {
				r.sweep()
			}
			for status, ids := range want {
				for _, limit := range []int{1, 2, 20} {
					newest := slices.Clone(ids)
					slices.Reverse(newest)
					r.wantIDs(fmt.Sprintf("%s ones, written %v", status, written), r.list(coordinator.ListCall{Status: status, Limit: limit}), newest...)
				}
			}
		}
	})
	s.rule(t, "a worker is shown what it has not acknowledged and may", func(t *testing.T, r *rig) {
		anyone := r.trigger(requires(3))
		mine := r.trigger(named("me", "you"))
		r.trigger(named("you", "they"))
		acked := r.trigger(requires(3))
		r.accept(acked.ID, "me")
		gone := r.aborted()
		open := coordinator.ListCall{Status: coordinator.StatusPending, NotAckedBy: "me"}
		r.wantIDs("what there is for me to do", r.list(open), mine.ID, anyone.ID)
		open.Limit = 1
		r.wantIDs("the same page by page", r.list(open), mine.ID, anyone.ID)
		r.accept(mine.ID, "me")
		r.wantIDs("after my ack", r.list(open), anyone.ID)
		r.wantIDs("in any status", r.list(coordinator.ListCall{NotAckedBy: "me"}), gone.ID, anyone.ID)
	})
	s.rule(t, "an entry of the list is what get answers", func(t *testing.T, r *rig) {
		r.completed(pinned())
		c := r.trigger(named(names(30)...))
		r.accept(c.ID, "task-00003")
		page, err := r.store.List(t.Context(), coordinator.ListCall{Job: r.job, Before: -1, Limit: 10})
		r.check("list", err)
		for _, got := range page.Checkpoints {
			wantSame(t, r.get(got.ID).Checkpoint, got)
		}
	})
	s.rule(t, "the default job is there from the start and empty", func(t *testing.T, r *rig) {
		r.wantIDs("the list", r.list(coordinator.ListCall{}))
	})
}
