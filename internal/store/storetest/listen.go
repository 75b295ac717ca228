package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// wakeWithin bounds how long a wake may take on a busy machine.
const wakeWithin = 20 * time.Second

// listener notes which jobs a store woke it for.
type listener struct {
	mu    sync.Mutex
	woken map[string]bool
	news  chan struct{} // capacity 1
}

func (l *listener) wake(job string) {
	l.mu.Lock()
	l.woken[job] = true
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// forget takes the wakes of a job away, and those for any job.
func (l *listener) forget(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.woken, job)
	delete(l.woken, "")
}

// within tells whether a wake for the job came, or comes in time.
func (l *listener) within(job string, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		l.mu.Lock()
		woken := l.woken[job] || l.woken[""]
		l.mu.Unlock()
		if woken {
			return true
		}
		select {
		case <-l.news:
		case <-timer.C:
			return false
		}
	}
}

// listen listens until the test ends, and returns when a wake got through. It gives what
// waits for the listening to end.
func (r *rig) listen() (l *listener, end func()) {
	r.t.Helper()
	l = &listener{woken: map[string]bool{}, news: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(r.t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { r.store.Listen(ctx, l.wake) })
	end = func() {
		cancel()
		listening.Wait()
	}
	// What happens before it listens may be missed, so this is tried until it is not.
	first := r.in("first")
	for range 200 {
		first.completed()
		if l.within("first", wakeWithin/200) {
			return l, end
		}
	}
	end()
	r.t.Fatalf("no wake came within %v", wakeWithin)
	return nil, nil
}

// wakers are the changes of each kind: prepare gives the call that makes it.
func wakers() map[string]func(r *rig) func() {
	return map[string]func(r *rig) func(){
		"trigger": func(r *rig) func() { return func() { r.trigger() } },
		"trigger in an existing job": func(r *rig) func() {
			r.trigger()
			return func() { r.trigger() }
		},
		"trigger by schedule": func(r *rig) func() {
			r.putJob(coordinator.JobSettings{IntervalMs: new(int64(50))})
			return func() {
				r.clock.Advance(51)
				if r.tick().Triggered == nil {
					r.t.Error("the schedule did not trigger")
				}
			}
		},
		"last ack": func(r *rig) func() {
			c := r.trigger()
			return func() { r.accept(c.ID, "task-1") }
		},
		"upload with the last ack": func(r *rig) func() {
			c := r.trigger()
			return func() { r.uploadAndAck(c.ID, "task-1", part("task-1", "k", "1")) }
		},
		"completion by hand": func(r *rig) func() {
			c := r.trigger()
			return func() { r.complete(c.ID, true) }
		},
		"abort": func(r *rig) func() {
			c := r.trigger()
			return func() { r.abort(c.ID) }
		},
		"expiry by the sweeper": func(r *rig) func() {
			r.trigger(timeout(10_000))
			return func() {
				r.clock.Advance(10_001)
				r.sweep()
			}
		},
		"expiry by a late ack": func(r *rig) func() {
			c := r.trigger(timeout(20_000))
			return func() {
				r.clock.Advance(20_001)
				r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "task-1")
			}
		},
		"deletion": func(r *rig) func() {
			c := r.completed()
			return func() { r.delete(c.ID) }
		},
		"cleanup": func(r *rig) func() {
			r.completed()
			return func() { r.cleanup(0) }
		},
		"recovery": func(r *rig) func() {
			r.trigger()
			return func() { r.recover("") }
		},
		"retention by the sweeper": func(r *rig) func() {
			r.completedTimes(2)
			r.putJob(coordinator.JobSettings{Keep: new(1)})
			return r.sweep
		},
		"deletion of the job": func(r *rig) func() {
			r.completed()
			return func() { r.deleteJob(true) }
		},
	}
}

func testListen(t *testing.T, s suite) {
	for what, prepare := range wakers() {
		s.rule(t, "whoever listens is woken by a "+what, func(t *testing.T, r *rig) {
			job := r.in("orders")
			change := prepare(job)
			l, end := r.listen()
			defer end()
			l.forget("orders")
			change()
			if !l.within("orders", wakeWithin) {
				t.Errorf("no wake came within %v", wakeWithin)
			}
		})
	}
	s.rule(t, "listening ends when it is told to, also twice and while things happen", func(t *testing.T, r *rig) {
		for range 2 {
			_, end := r.listen()
			r.completed()
			end()
		}
	})
}
