package worker

import "sync"

// link is how the worker hears of what happens: by the stream while it is up, else by polls.
type link struct {
	lock sync.Mutex
	up   bool
	// anew counts the times at which the stream began without all that happened before.
	anew    int
	changed chan struct{}
}

func newLink() *link { return &link{changed: make(chan struct{})} }

// state also gives a channel that is closed with the next change.
func (l *link) state() (up bool, anew int, changed <-chan struct{}) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.up, l.anew, l.changed
}

// set notes a change. With anew, something may have been missed.
func (l *link) set(up, anew bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.up == up && !anew {
		return
	}
	if l.up = up; anew {
		l.anew++
	}
	close(l.changed)
	l.changed = make(chan struct{})
}
