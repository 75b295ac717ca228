package filestore

import "sync"

// timeline is the order of changes and reads in time. A read derives expiry from the
// clock; were its clock ahead of a change that is not committed yet, it could see a
// checkpoint expired that this change, judged by an earlier clock, is about to complete.
// So while a batch of changes runs, time stands still for reads at the batch's beginning.
type timeline struct {
	clock func() int64

	mu      sync.Mutex
	running bool
	since   int64
}

// begin starts a batch: no change in it is judged by an earlier clock.
func (t *timeline) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running, t.since = true, t.clock()
}

// end is called when what the batch did shows to reads that begin now.
func (t *timeline) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
}

// read is the time of a read, to be asked for before its transaction is opened.
func (t *timeline) read() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	if t.running {
		now = min(now, t.since)
	}
	return now
}
