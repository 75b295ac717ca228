// Package load sends HTTP requests over many connections from few threads, as cheaply as
// it can, for the machine that it shares with what it measures is the same.
//
// Each thread waits for all of its connections in one epoll and reuses every buffer, so
// that a request costs about as much as in wrk. Each connection has one request under way:
// the next is sent when the answer is there (a closed loop).
//
// It differs from wrk in what it knows: requests are numbered over all connections, so that
// each can be another task's, and every answer is checked.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options describe a run.
type Options struct {
	// Address is the server's, 127.0.0.1:PORT.
	Address string
	// Connections is how many requests are under way at any time.
	Connections int
	// Threads is how many threads share the connections; 0 is 1.
	Threads int

	// Next appends request number n, a whole HTTP request, to buffer. Numbers rise from 0
	// and none is given twice. Several threads call it at once.
	Next func(buffer []byte, n int64) []byte
	// Check refuses an answer that is not what was asked for; nil wants any 200. It
	// must not keep body. Several threads call it at once.
	Check func(status int, body []byte) error

	// WarmUp is how long to run before measuring, Duration how long to measure.
	WarmUp, Duration time.Duration
	// Count ends the run after so many requests, all of them measured, in place of a
	// warm-up and a duration.
	Count int64

	// Began and Ended are called where measuring begins and ends; nil is fine.
	Began, Ended func()
}

// Result is what a run measured.
type Result struct {
	Requests int64
	Elapsed  time.Duration
	// Latencies are those of the measured requests, ascending.
	Latencies []time.Duration
}

// PerSecond is the rate of requests.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Percentile is the latency that the share p of the requests, 0 to 1, did not exceed.
func (r Result) Percentile(p float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(len(r.Latencies)-1, int(p*float64(len(r.Latencies))))]
}

// The phases of a run, in order.
const (
	warming int32 = iota
	measuring
	draining // answers that are under way are awaited, and nothing new is sent
)

// stuckAfter is how long a connection may be without an answer before the run fails.
const stuckAfter = 20 * time.Second

// run is what the threads of a run share.
type run struct {
	Options
	phase   atomic.Int32
	numbers atomic.Int64
}

// take gives the number of the next request, or false when there is none.
func (r *run) take() (int64, bool) {
	if r.phase.Load() == draining {
		return 0, false
	}
	n := r.numbers.Add(1) - 1
	return n, r.Count == 0 || n < r.Count
}

// Run runs the load until its time or count is over, and every answer is there. The first
// connection that breaks and the first answer that Check refuses end it with an error.
func Run(ctx context.Context, options Options) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Options: options}
	if r.Count > 0 {
		r.phase.Store(measuring)
	}
	threads, err := r.connect(max(1, r.Threads))
	defer closeAll(threads)
	if err != nil {
		return Result{}, err
	}

	var running sync.WaitGroup
	start := func() {
		for _, t := range threads {
			running.Go(func() {
				if err := t.work(ctx); err != nil {
					cancel(err)
				}
			})
		}
	}
	var began time.Time
	begin := func() {
		call(r.Began)
		began = time.Now()
	}
	if r.Count > 0 {
		begin()
		start()
	} else {
		start()
		Wait(ctx, r.WarmUp)
		begin()
		r.phase.Store(measuring)
		Wait(ctx, r.Duration)
		r.phase.Store(draining)
	}
	elapsed := time.Since(began)
	if r.Count == 0 {
		call(r.Ended)
	}
	running.Wait()
	if r.Count > 0 {
		elapsed = time.Since(began)
		call(r.Ended)
	}
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	result := Result{Elapsed: elapsed}
	for _, t := range threads {
		result.Latencies = append(result.Latencies, t.latencies...)
	}
	slices.SortFunc(result.Latencies, cmp.Compare[time.Duration])
	result.Requests = int64(len(result.Latencies))
	if result.Requests == 0 {
		return Result{}, errors.New("no request was answered")
	}
	return result, nil
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// Wait returns after d, or when ctx ends.
func Wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// connect opens all connections and deals them out to the threads.
func (r *run) connect(threads int) ([]*thread, error) {
	var all []*thread
	for range threads {
		epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return all, fmt.Errorf("making an epoll: %w", err)
		}
		all = append(all, &thread{run: r, epoll: epoll, latencies: make([]time.Duration, 0, 1<<20)})
	}
	for n := range r.Connections {
		c, err := dial(r.Address)
		if err != nil {
			return all, err
		}
		t := all[n%threads]
		t.connections = append(t.connections, c)
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(len(t.connections) - 1)}
		if err := unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, c.socket, &event); err != nil {
			return all, fmt.Errorf("watching a connection: %w", err)
		}
	}
	return all, nil
}

func closeAll(threads []*thread) {
	for _, t := range threads {
		for _, c := range t.connections {
			_ = unix.Close(c.socket)
		}
		_ = unix.Close(t.epoll)
	}
}
