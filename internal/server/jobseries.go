package server

import "sync"

// otherJobs is the job that the series of all jobs without series of their own are summed in. A job
// that is called so is among them.
const otherJobs = "other"

// jobSeries gives each job the name that its series have. Each has some dozens, so that the first
// jobs that this process meets have their own, up to a bound, and all others have one together. A job
// that is deleted gives its place to the next that is met.
type jobSeries struct {
	most int

	mu  sync.RWMutex
	own map[string]bool
}

// nameOf is the value of the label job.
func (s *jobSeries) nameOf(job string) string {
	s.mu.RLock()
	own, full := s.own[job], len(s.own) >= s.most
	s.mu.RUnlock()
	switch {
	case own:
		return job
	case full || job == otherJobs:
		return otherJobs
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.own) >= s.most {
		return otherJobs
	}
	if s.own == nil {
		s.own = map[string]bool{}
	}
	s.own[job] = true
	return job
}

// forget frees the place of a job and tells whether it had one.
func (s *jobSeries) forget(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.own[job]
	delete(s.own, job)
	return had
}
