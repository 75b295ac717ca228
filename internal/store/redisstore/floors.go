package redisstore

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var raiseFloorScript = newScript("raise_floor", append(slices.Clip(endPreludes), "prelude_floor"))

// floor is the highest that was seen of a job: what follows must be above it.
type floor struct {
	// id is -1 when none was seen.
	id, epoch int64
	// seq is the number of the newest event.
	seq int64
}

// text is a floor as lua/prelude_floor.lua reads it.
func (f floor) text() string {
	return strconv.FormatInt(f.id, 10) + "|" + strconv.FormatInt(f.epoch, 10) + "|" + strconv.FormatInt(f.seq, 10)
}

// raisedBy is the higher of two floors in each respect.
func (f floor) raisedBy(other floor) floor {
	return floor{id: max(f.id, other.id), epoch: max(f.epoch, other.epoch), seq: max(f.seq, other.seq)}
}

// floors remembers what this process has seen of each job. A Redis that lost what it had
// confirmed is thereby kept from giving an id or an epoch twice.
type floors struct {
	mu   sync.Mutex
	seen map[string]floor
	// settled are jobs that were deleted: they are not missed where no list has them.
	settled map[string]bool
}

// see raises the floor of a job.
func (f *floors) see(job string, seen floor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.seen[job]
	if after := before.raisedBy(seen); !known {
		f.seen[job] = seen
	} else if after != before {
		f.seen[job] = after
	}
}

// of is the floor of a job.
func (f *floors) of(job string) floor {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seen, known := f.seen[job]; known {
		return seen
	}
	return floor{id: -1}
}

// settle notes whether a job is gone because it was deleted.
func (f *floors) settle(job string, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if gone {
		if f.settled == nil {
			f.settled = make(map[string]bool)
		}
		f.settled[job] = true
	} else {
		delete(f.settled, job)
	}
}

// missed gives the jobs that are not listed, which is in order, although they were seen and not deleted.
func (f *floors) missed(listed []string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var missed []string
	for job := range f.seen {
		if _, is := slices.BinarySearch(listed, job); !is && !f.settled[job] {
			missed = append(missed, job)
		}
	}
	return missed
}

// expect gives the floors of jobs as they are now: Redis, looked at later, knows as much unless it has lost some.
func (f *floors) expect(jobs []string) []floor {
	expected := make([]floor, len(jobs))
	for i, job := range jobs {
		expected[i] = f.of(job)
	}
	return expected
}

// raise raises the counters in Redis of those jobs that are behind what was expected before
// the look. Until then a server that has just started would not know what must not come twice.
func (s *Store) raise(ctx context.Context, jobs []string, expected []floor, seen []glance) error {
	for i, job := range jobs {
		g := &seen[i]
		if g.err != nil {
			continue
		}
		if expected[i].id >= g.next || expected[i].epoch > g.epoch {
			if err := s.register(ctx, job); err != nil {
				return err
			}
		} else if !s.toRebuild(job, g) {
			continue
		}
		r, err := s.run(ctx, raiseFloorScript, reads, job, expected[i].text())
		if err != nil {
			return err
		}
		if r.word != wordOK {
			return refusal(raiseFloorScript.verb, job, coordinator.Latest, r)
		}
	}
	return nil
}

// toRebuild tells whether the counters of a job are to be looked for in what else it has. Without its hash a job would be
// nobody's until somebody triggers. Of one that nobody has used there is nothing to find, so each process looks once.
func (s *Store) toRebuild(job string, g *glance) bool {
	if !g.cut {
		return false
	}
	_, before := s.rebuilt.LoadOrStore(job, true)
	return !before
}
