package filestore

import (
	"context"
	"sync"
)

// listeners are those who are told of new events.
type listeners struct {
	// mu is held for reading while wake runs, so that nobody is woken after Listen returned.
	mu    sync.RWMutex
	wakes map[*listener]struct{}
}

type listener struct{ wake func(job string) }

// Listen calls wake with the name of each job that has a new event, once that is durable
// and shows to reads, until ctx ends.
func (s *Store) Listen(ctx context.Context, wake func(job string)) {
	l := &listener{wake: wake}
	s.listeners.mu.Lock()
	s.listeners.wakes[l] = struct{}{}
	s.listeners.mu.Unlock()
	<-ctx.Done()
	s.listeners.mu.Lock()
	delete(s.listeners.wakes, l)
	s.listeners.mu.Unlock()
}

func (l *listeners) wake(job string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for listener := range l.wakes {
		listener.wake(job)
	}
}
