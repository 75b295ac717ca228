package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/checkpointd/checkpointd/bench/load"
	"github.com/checkpointd/checkpointd/bench/process"
	"github.com/checkpointd/checkpointd/bench/report"
)

// reading is what all clocks of a system show.
type reading struct {
	cpu     map[string]time.Duration
	own     time.Duration
	machine process.Ticks
	err     error
}

func read(s *system) reading {
	r := reading{cpu: map[string]time.Duration{}}
	for _, p := range s.processes {
		used, err := p.CPU()
		if err != nil {
			r.err = err
			return r
		}
		r.cpu[p.Name] = used
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		r.err = fmt.Errorf("reading the own CPU time: %w", err)
		return r
	}
	r.own = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	r.machine, r.err = process.MachineTicks()
	return r
}

// loaded is a load with what it cost.
type loaded struct {
	load.Result
	cpu map[string]time.Duration // by process
	own time.Duration            // of the load generator
	// repeats is how many transfers it was; 0 for requests.
	repeats int
}

// micros is the CPU time in µs that a process used for each request.
func (l loaded) micros(name string) float64 {
	return float64(l.cpu[name].Microseconds()) / float64(l.Requests)
}

// run puts a load on a process of a system.
func (b *bench) run(ctx context.Context, s *system, name string, options load.Options) (loaded, error) {
	options.Address, options.Threads = s.addresses[name], b.loadThreads
	if options.Count == 0 {
		options.WarmUp, options.Duration = b.warmUp, b.duration
	}
	var before, after reading
	profiled := func() error { return nil }
	options.Began = func() {
		before = read(s)
		if name == serverName {
			profiled = b.profile(ctx, s, b.target)
		}
	}
	options.Ended = func() { after = read(s) }
	result, err := load.Run(ctx, options)
	if err != nil {
		return loaded{}, err
	}
	if err := profiled(); err != nil {
		return loaded{}, err
	}
	return b.between(before, after, result)
}

// between makes a load's costs of what the clocks showed before and after.
func (b *bench) between(before, after reading, result load.Result) (loaded, error) {
	if err := errors.Join(before.err, after.err); err != nil {
		return loaded{}, err
	}
	l := loaded{Result: result, cpu: map[string]time.Duration{}, own: after.own - before.own}
	used := l.own
	for name := range after.cpu {
		l.cpu[name] = after.cpu[name] - before.cpu[name]
		used += l.cpu[name]
	}
	share := after.machine.Since(before.machine)
	b.report.Idle = append(b.report.Idle, share.Idle)
	b.report.Steal = append(b.report.Steal, share.Steal)
	// What neither this run nor nobody used was used by others.
	own := used.Seconds() / (result.Elapsed.Seconds() * float64(runtime.NumCPU()))
	b.report.Foreign = append(b.report.Foreign, max(0, 1-share.Idle-share.Steal-own))
	return l, nil
}

// rounds are the loads of one target, one a round.
type rounds []loaded

func (r rounds) perSecond() report.Samples {
	return r.each(func(l loaded) float64 { return l.PerSecond() })
}

func (r rounds) micros(name string) report.Samples {
	return r.each(func(l loaded) float64 { return l.micros(name) })
}

func (r rounds) p99() report.Samples {
	return r.latency(0.99)
}

// latency is that in ms which the share p of the requests did not exceed. Not every target
// is measured request by request.
func (r rounds) latency(p float64) report.Samples {
	if len(r) == 0 || len(r[0].Latencies) == 0 {
		return nil
	}
	return r.each(func(l loaded) float64 { return milliseconds(l.Percentile(p)) })
}

func (r rounds) each(value func(loaded) float64) report.Samples {
	samples := make(report.Samples, 0, len(r))
	for _, l := range r {
		samples = append(samples, value(l))
	}
	return samples
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// costs is a line of the second table.
func (b *bench) costs(target string, connections int, r rounds) report.Load {
	l := report.Load{
		Target: target, Connections: connections, PerSecond: r.perSecond(), P50: r.latency(0.50), P99: r.latency(0.99),
		CPU:    map[string]report.Samples{},
		Loader: r.each(func(l loaded) float64 { return float64(l.own.Microseconds()) / float64(l.Requests) }),
	}
	for name := range r[0].cpu {
		l.CPU[name] = r.micros(name)
	}
	return l
}
