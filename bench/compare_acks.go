package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/checkpointd/checkpointd/bench/load"
	"github.com/checkpointd/checkpointd/bench/report"
)

// target is one of the things that are compared, under so many connections.
type target struct {
	name        string
	connections int
	run         func(ctx context.Context, connections int) (loaded, error)
}

// interleave runs every target once a round, in alternating order, and gives what each did
// by name and connections.
func (b *bench) interleave(ctx context.Context, targets []target) (map[string]rounds, error) {
	results := map[string]rounds{}
	for round := range b.rounds {
		order := slices.Clone(targets)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, t := range order {
			l, err := t.run(ctx, t.connections)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.key(), err)
			}
			b.sayf("round %d  %-28s %9.0f/s", round+1, t.key(), l.PerSecond())
			results[t.key()] = append(results[t.key()], l)
		}
	}
	for _, t := range targets {
		b.addLoad(t.name, t.connections, results[t.key()])
	}
	return results, nil
}

func (t target) key() string { return fmt.Sprintf("%s, %d", t.name, t.connections) }

// tasksPerCheckpoint is the most that a checkpoint may require.
const tasksPerCheckpoint = 100_000

// fastest is more than any single target is expected to do, in requests a second: so many
// tasks are kept ready.
const fastest = 250_000

// supply is how many checkpoints of so many tasks last for one load, in whole groups.
func (b *bench) supply(perSecond, group, tasks int) int {
	seconds := (b.warmUp + b.duration).Seconds() + 1
	perGroup := float64(group * tasks)
	return group * (1 + int(float64(perSecond)*seconds/perGroup))
}

// acks compares the acknowledgement of single tasks with webdis and with a server that
// does nothing.
func (b *bench) acks(ctx context.Context) error {
	targets := []target{
		{"no-op", 64, b.loadNoOp},
		{"server, one checkpoint", 64, b.loadAcks(1)},
		{"server, one checkpoint", 256, b.loadAcks(1)},
		{"server, 16 checkpoints", 64, b.loadAcks(16)},
	}
	if installed("webdis") {
		targets = append(targets,
			target{"webdis, one checkpoint", 64, b.loadWebdis(1)},
			target{"webdis, one checkpoint", 256, b.loadWebdis(1)},
			target{"webdis, 16 checkpoints", 64, b.loadWebdis(16)},
		)
	}
	results, err := b.interleave(ctx, targets)
	if err != nil {
		return err
	}
	rate := func(key string) report.Samples { return results[key].perSecond() }
	const ours, theirs = "server, one checkpoint, ", "webdis, one checkpoint, "
	if installed("webdis") {
		for _, connections := range []string{"64", "256"} {
			b.report.Add(report.Row{
				Goal: "A1", Metric: "ack req/s ÷ webdis, one checkpoint, " + connections + " connections", AtLeast: 1,
				Samples: report.Ratios(rate(ours+connections), rate(theirs+connections)),
			})
		}
		b.report.Add(report.Row{
			Goal: "A1m", Metric: "ack req/s ÷ webdis, 16 checkpoints, 64 connections", AtLeast: 0.85,
			Samples: report.Ratios(rate("server, 16 checkpoints, 64"), rate("webdis, 16 checkpoints, 64")),
		})
	} else {
		b.report.Missed = append(b.report.Missed, "A1, A1m, A4, A5: webdis is not installed")
	}
	b.report.Add(report.Row{
		Goal: "A2", Metric: "server CPU an ack ÷ net/http no-op, 64 connections", AtMost: 1.6,
		Samples: report.Ratios(results[ours+"64"].micros(serverName), results["no-op, 64"].micros(standInsName)),
	})
	return nil
}

func (b *bench) loadNoOp(ctx context.Context, connections int) (loaded, error) {
	s, err := b.standIns(ctx)
	if err != nil {
		return loaded{}, err
	}
	defer s.stop()
	return b.run(ctx, s, load.Options{Connections: connections, Next: noOpAcks().next})
}

// loadAcks acknowledges so many checkpoints at a time.
func (b *bench) loadAcks(group int) func(context.Context, int) (loaded, error) {
	return func(ctx context.Context, connections int) (loaded, error) {
		s, err := b.onRedis(ctx)
		if err != nil {
			return loaded{}, err
		}
		defer s.stop()
		a, err := b.singleAcks(ctx, s, group, b.supply(fastest, group, tasksPerCheckpoint), tasksPerCheckpoint)
		if err != nil {
			return loaded{}, err
		}
		return b.run(ctx, s, load.Options{Connections: connections, Next: a.next, Check: a.check})
	}
}

func (b *bench) loadWebdis(group int) func(context.Context, int) (loaded, error) {
	return func(ctx context.Context, connections int) (loaded, error) {
		s, err := b.webdis(ctx)
		if err != nil {
			return loaded{}, err
		}
		defer s.stop()
		a, err := webdisAcks(ctx, s, group, b.supply(fastest, group, tasksPerCheckpoint), tasksPerCheckpoint)
		if err != nil {
			return loaded{}, err
		}
		return b.run(ctx, s, load.Options{Connections: connections, Next: a.next, Check: checkWebdis})
	}
}
