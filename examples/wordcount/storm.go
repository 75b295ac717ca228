package main

import (
	"math/rand/v2"
	"time"
)

// fault is something that is killed.
type fault struct {
	// server tells that it is the server and not a worker.
	server bool
	// after is how long the fleet is left alone before.
	after time.Duration
	// aimed waits for the next worker that has prepared its sinks, and strikes so much later:
	// about between the two phases, where a mistake would show.
	aimed bool
	later time.Duration
	// victim picks the worker, from 0 to 1.
	victim float64
	// notice is the time until somebody starts again what was killed. The rest of the fleet
	// goes on meanwhile.
	notice time.Duration
	// workers is the size of the fleet after that.
	workers int
}

// storm is what goes wrong in a trial, in order.
type storm []fault

// laterMax is about how long it takes from the first phase to the second.
const laterMax = 150 * time.Millisecond

// forecast draws the faults of a seed: so many workers and servers in any order, and the sizes
// of the fleet one after another.
func forecast(seed uint64, workers, servers int, sizes []int, gap time.Duration) storm {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It is to be repeatable.
	s := make(storm, workers+servers)
	for i, place := range random.Perm(len(s)) {
		s[place].server = i < servers
	}
	killed := 0
	for i := range s {
		f := &s[i]
		f.after = gap/2 + time.Duration(random.Int64N(int64(gap)))
		f.aimed = random.IntN(3) == 0
		f.later = time.Duration(random.Int64N(int64(laterMax)))
		f.victim = random.Float64()
		f.notice = time.Duration(random.Int64N(int64(300 * time.Millisecond)))
		if !f.server {
			killed++
		}
		f.workers = sizes[killed*len(sizes)/(workers+1)]
	}
	return s
}

// busy is about how long the fleet can work while the storm lasts: not while it starts.
func (s storm) busy() (d time.Duration) {
	for _, f := range s {
		d += f.after + f.notice + slack
		if f.aimed {
			d += aim / 2
		}
	}
	return d
}

// slack is for timers that are late.
const slack = 300 * time.Millisecond

// killed counts the workers and the servers among the faults.
func (s storm) killed() (workers, servers int) {
	for _, f := range s {
		if f.server {
			servers++
		} else {
			workers++
		}
	}
	return workers, servers
}
