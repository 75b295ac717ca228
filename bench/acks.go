package main

import (
	"context"

	"github.com/checkpointd/checkpointd/bench/load"
	"github.com/checkpointd/checkpointd/bench/report"
)

const (
	// tasksPerCheckpoint is the most that a checkpoint may require.
	tasksPerCheckpoint = 100_000
	// batchSize is how many tasks a bulk request acknowledges, and tasksPerBulk the most of
	// a checkpoint that it divides.
	batchSize    = 64
	tasksPerBulk = tasksPerCheckpoint / batchSize * batchSize
	// fastest and fastestBulk are more tasks a second than any target here is expected to
	// do: checkpoints for so many are made before each load.
	fastest     = 250_000
	fastestBulk = 3_000_000
)

// supply is how many checkpoints, in whole groups, last for one load.
func (b *bench) supply(tasksPerSecond, group, tasks int) int {
	seconds := (b.warmUp + b.duration).Seconds() + 1
	return group * (1 + int(float64(tasksPerSecond)*seconds/float64(group*tasks)))
}

// acks compares acknowledgements with webdis, with a server that does nothing and with
// what Redis itself can do.
func (b *bench) acks(ctx context.Context) error {
	targets := []target{
		{"no-op", 64, b.loadNoOp},
		{"Redis alone, 16 scripts a round trip", 64, b.loadScripts},
		{"server, one checkpoint", 64, b.loadAcks(1)},
		{"server, one checkpoint", 256, b.loadAcks(1)},
		{"server, 16 checkpoints", 64, b.loadAcks(16)},
		{"server, bulks of 64", 64, b.loadBulkAcks},
	}
	webdis := installed(webdisName)
	if webdis {
		targets = append(targets,
			target{"webdis, one checkpoint", 64, b.loadWebdis(1)},
			target{"webdis, one checkpoint", 256, b.loadWebdis(1)},
			target{"webdis, 16 checkpoints", 64, b.loadWebdis(16)},
		)
	} else {
		b.miss("A1, A1m, A4, A5: webdis is not installed")
	}
	results, err := b.interleave(ctx, targets)
	if err != nil {
		return err
	}
	ours, theirs := results["server, one checkpoint, 64"], results["webdis, one checkpoint, 64"]
	manyOurs, manyTheirs := results["server, one checkpoint, 256"], results["webdis, one checkpoint, 256"]
	if webdis {
		b.report.Add(report.Row{
			Goal: "A1", Metric: "ack req/s ÷ webdis, one checkpoint, 64 connections", AtLeast: 1,
			Samples: report.Ratios(ours.perSecond(), theirs.perSecond()),
		})
		b.report.Add(report.Row{
			Goal: "A1", Metric: "ack req/s ÷ webdis, one checkpoint, 256 connections", AtLeast: 1,
			Samples: report.Ratios(manyOurs.perSecond(), manyTheirs.perSecond()),
		})
		b.report.Add(report.Row{
			Goal: "A1m", Metric: "ack req/s ÷ webdis, 16 checkpoints, 64 connections", AtLeast: 0.85,
			Samples: report.Ratios(results["server, 16 checkpoints, 64"].perSecond(), results["webdis, 16 checkpoints, 64"].perSecond()),
		})
	}
	b.report.Add(report.Row{
		Goal: "A2", Metric: "server CPU an ack ÷ net/http no-op, 64 connections", AtMost: 1.6,
		Samples: report.Ratios(ours.micros(serverName), results["no-op, 64"].micros(standInsName)),
	})
	scripts := results["Redis alone, 16 scripts a round trip, 64"].micros(redisName)
	b.report.Add(report.Row{
		Goal: "A3", Metric: "Redis CPU an ack ÷ pipelined EVALSHA, 64 connections", AtMost: 0.5,
		Samples: report.Ratios(ours.micros(redisName), scripts),
	})
	b.report.Add(report.Row{
		Goal: "A3", Metric: "Redis CPU an ack ÷ pipelined EVALSHA, 256 connections", AtMost: 0.5,
		Samples: report.Ratios(manyOurs.micros(redisName), scripts),
	})
	if webdis {
		b.report.Add(report.Row{
			Goal: "A4", Metric: "ack p99 ÷ webdis p99, one checkpoint, 64 connections", AtMost: 1.2,
			Samples: report.Ratios(ours.p99(), theirs.p99()),
		})
		b.report.Add(report.Row{
			Goal: "A5", Metric: "acks/s in bulks of 64 ÷ webdis req/s, 64 connections", AtLeast: 15,
			Samples: report.Ratios(results["server, bulks of 64, 64"].perSecond().Times(batchSize), theirs.perSecond()),
		})
	}
	return nil
}

func (b *bench) loadNoOp(ctx context.Context, connections int) (loaded, error) {
	s, err := b.start(ctx, withRedis, withStandIns)
	if err != nil {
		return loaded{}, err
	}
	defer s.stop()
	return b.run(ctx, s, standInsName, load.Options{Connections: connections, Next: noOpAcks().next})
}

// loadAcks acknowledges so many checkpoints at a time.
func (b *bench) loadAcks(group int) func(context.Context, int) (loaded, error) {
	return func(ctx context.Context, connections int) (loaded, error) {
		s, err := b.start(ctx, withRedis, onRedis())
		if err != nil {
			return loaded{}, err
		}
		defer s.stop()
		return b.runAcks(ctx, s, group, connections)
	}
}

func (b *bench) runAcks(ctx context.Context, s *system, group, connections int) (loaded, error) {
	a, err := b.singleAcks(ctx, s, group, b.supply(fastest, group, tasksPerCheckpoint), tasksPerCheckpoint)
	if err != nil {
		return loaded{}, err
	}
	return b.run(ctx, s, serverName, load.Options{Connections: connections, Next: a.next, Check: a.check})
}

func (b *bench) loadBulkAcks(ctx context.Context, connections int) (loaded, error) {
	s, err := b.start(ctx, withRedis, onRedis())
	if err != nil {
		return loaded{}, err
	}
	defer s.stop()
	a, err := b.bulkAcks(ctx, s, b.supply(fastestBulk, 1, tasksPerBulk), tasksPerBulk, batchSize)
	if err != nil {
		return loaded{}, err
	}
	return b.run(ctx, s, serverName, load.Options{Connections: connections, Next: a.next, Check: a.check})
}

func (b *bench) loadWebdis(group int) func(context.Context, int) (loaded, error) {
	return func(ctx context.Context, connections int) (loaded, error) {
		s, err := b.start(ctx, withRedis, withWebdis)
		if err != nil {
			return loaded{}, err
		}
		defer s.stop()
		a, err := webdisAcks(ctx, s, group, b.supply(fastest, group, tasksPerCheckpoint), tasksPerCheckpoint)
		if err != nil {
			return loaded{}, err
		}
		return b.run(ctx, s, webdisName, load.Options{Connections: connections, Next: a.next, Check: checkWebdis})
	}
}
