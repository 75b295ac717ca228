package redisstore

import (
	"cmp"
	"math/rand/v2"
	"sync"
)

// sweepAgainMs is how long a job without a change is left alone by a process at most. It is for what
// a glance does not show: an upload or staged names that somebody left behind since, a part
// that was replaced, a value that somebody else wrote over.
const sweepAgainMs = 10_000

// sweeps keeps what this process learned when it last swept each job.
type sweeps struct {
	mu   sync.Mutex
	kept map[string]keptSweep
}

// keptSweep is the sweep of a job. The zero value is a job that is known and was never swept.
type keptSweep struct {
	// stamp is of the look before the sweep, limits are those it was called with.
	stamp, limits string
	// at is the store's clock then, next when the job is swept again at the latest.
	at, next int64
}

// candidate is a job that is to be swept.
type candidate struct {
	job, stamp string
	gone       bool
	// now is the clock of the job's server when it was looked at.
	now int64
	// at is when it was last swept, 0 is never; late whether a deadline has passed.
	at   int64
	late bool
}

// compare orders candidates, the most urgent one first.
func (c candidate) compare(other candidate) int {
	if c.late != other.late {
		if c.late {
			return -1
		}
		return 1
	}
	return cmp.Compare(c.at, other.at)
}

// wanted gives the jobs at which something happened since their last sweep, or was to happen by
// now. A clock that stepped back, and limits that changed, want all of them.
func (s *sweeps) wanted(names []string, seen []glance, limits string) []candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []candidate
	for i, name := range names {
		g, k := &seen[i], s.kept[name]
		if g.err == nil && !g.gone && k.next > g.now && k.at <= g.now && k.stamp == g.stamp && k.limits == limits {
			continue
		}
		found = append(found, candidate{job: name, stamp: g.stamp, gone: g.gone && !g.exists(name), now: g.now, at: k.at})
	}
	return found
}

// done notes a sweep that began after the look at its candidate.
func (s *sweeps) done(c candidate, limits string, result swept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := c.now + sweepAgainMs
	if c.at == 0 {
		// The jobs that a process has found at its start do not come back all at once.
		again = c.now + 1 + rand.Int64N(sweepAgainMs) //nolint:gosec // It only spreads load.
	}
	if !result.idle {
		again = min(again, result.wake)
	}
	s.kept[c.job] = keptSweep{stamp: c.stamp, limits: limits, at: c.now, next: again}
}

// know notes a job that may not be listed.
func (s *sweeps) know(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.kept[job]; !known {
		s.kept[job] = keptSweep{}
	}
}

// forget is for a job that is gone.
func (s *sweeps) forget(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, job)
}

// missing gives the jobs that are known and not among the names.
func (s *sweeps) missing(names []string) []string {
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for name := range s.kept {
		if !listed[name] {
			found = append(found, name)
		}
	}
	return found
}
