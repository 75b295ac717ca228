package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/checkpointd/checkpointd/bench/report"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore"
)

// single measures what one caller waits for on a quiet service: whether what is made for the
// crowd costs those who are alone.
func (b *bench) single(ctx context.Context) error {
	s, err := b.start(ctx, withRedis, onRedis(), withStandIns)
	if err != nil {
		return err
	}
	defer s.stop()
	id, err := b.trigger(ctx, s, tasksPerCheckpoint)
	if err != nil {
		return err
	}
	command, err := b.captureAck(ctx, s, id)
	if err != nil {
		return err
	}
	store, err := redisstore.New(redisstore.Options{URL: "redis://" + s.addresses[redisName]})
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	defer func() { _ = store.Close() }()
	server, err := newCaller(ctx, s.addresses[serverName])
	if err != nil {
		return err
	}
	defer server.close()
	noOp, err := newCaller(ctx, s.addresses[standInsName])
	if err != nil {
		return err
	}
	defer noOp.close()

	path := fmt.Sprintf("/checkpoints/%d/acks", id)
	ways := []way{
		{"net/http no-op", func(_ context.Context, task string) (time.Duration, error) {
			_, took, err := noOp.call("POST", "/no-op", `{"taskId":"`+task+`"}`)
			return took, err
		}},
		{"EVALSHA through go-redis", func(ctx context.Context, task string) (time.Duration, error) {
			words := command.of(task)
			began := time.Now()
			err := s.redis.Do(ctx, words...).Err()
			return time.Since(began), err
		}},
		{"ack through the store", func(ctx context.Context, task string) (time.Duration, error) {
			began := time.Now()
			_, err := store.Acknowledge(ctx, coordinator.AckCall{
				Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{{TaskID: task}},
				Retention: coordinator.DefaultSettings().Retention,
			})
			return time.Since(began), err
		}},
		{"ack over HTTP", func(_ context.Context, task string) (time.Duration, error) {
			_, took, err := server.call("POST", path, `{"taskId":"`+task+`"}`)
			return took, err
		}},
	}
	medians, err := b.inTurns(ctx, ways)
	if err != nil {
		return err
	}
	for _, w := range ways {
		b.report.Add(report.Row{Metric: "one caller, " + w.name, Unit: "µs", Samples: medians[w.name]})
	}
	script := medians["EVALSHA through go-redis"]
	b.report.Add(report.Row{
		Goal: "idle", Metric: "one caller, ack through the store ÷ EVALSHA", AtMost: 1.5,
		Samples: report.Ratios(medians["ack through the store"], script),
	})
	b.report.Add(report.Row{
		Goal: "idle", Metric: "one caller, ack over HTTP ÷ (no-op + EVALSHA)", AtMost: 1.3,
		Samples: report.Ratios(medians["ack over HTTP"], report.Sums(medians["net/http no-op"], script)),
	})
	return nil
}

// way is one of the ways to do something for a task.
type way struct {
	name string
	do   func(ctx context.Context, task string) (time.Duration, error)
}

// inTurns does everything once, in turn, many times over, and gives the median in µs of each
// way and round.
func (b *bench) inTurns(ctx context.Context, ways []way) (map[string]report.Samples, error) {
	medians := map[string]report.Samples{}
	number := 0
	for round := range b.rounds {
		took := map[string][]time.Duration{}
		for turn := range b.turns {
			for _, w := range alternate(ways, turn) {
				number++
				once, err := w.do(ctx, fmt.Sprintf("task-%06d", number))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", w.name, err)
				}
				took[w.name] = append(took[w.name], once)
			}
		}
		for _, w := range ways {
			micros := float64(median(took[w.name])) / float64(time.Microsecond)
			b.sayf("round %d  %-40s %7.1f µs", round+1, w.name, micros)
			medians[w.name] = append(medians[w.name], micros)
		}
	}
	return medians, nil
}

func median(durations []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2]
}
