package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestASeedGivesTheSameStormAndTheFleetAllItsSizesInTurn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		workers, servers int
		sizes, want      []int
	}{
		{50, 5, []int{3, 5, 2}, []int{3, 5, 2}},
		{2, 0, []int{3, 5, 2}, []int{5, 2}},
		{6, 1, []int{4}, []int{4}},
		{0, 3, []int{4}, []int{4}},
	} {
		s := forecast(7, test.workers, test.servers, test.sizes, time.Second)
		workers, servers := s.killed()
		if workers != test.workers || servers != test.servers {
			t.Errorf("%+v: %d workers and %d servers are killed", test, workers, servers)
		}
		var sizes []int
		for _, f := range s {
			sizes = append(sizes, f.workers)
			if f.server && f.victim < 0 || f.after < time.Second/2 || f.after >= 3*time.Second/2 {
				t.Errorf("%+v: %+v", test, f)
			}
		}
		if diff := cmp.Diff(test.want, slices.Compact(sizes)); diff != "" {
			t.Errorf("%+v: %s", test, diff)
		}
		same := cmp.AllowUnexported(fault{})
		if diff := cmp.Diff(s, forecast(7, test.workers, test.servers, test.sizes, time.Second), same); diff != "" {
			t.Errorf("%+v: %s", test, diff)
		}
		if len(s) > 3 && cmp.Equal(s, forecast(8, test.workers, test.servers, test.sizes, time.Second), same) {
			t.Errorf("%+v: another seed gives the same", test)
		}
	}
}
