package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/bench/report"
)

// tasks measures an acknowledgement beside many others of the same checkpoint.
func (b *bench) tasks(ctx context.Context, s *scene) error {
	if err := b.startServer(ctx, s); err != nil {
		return err
	}
	sizes := []int{10, 1000, 100_000}
	took := make([]report.Samples, len(sizes))
	ongoing := make([]crowded, len(sizes))
	for i, size := range sizes {
		ongoing[i] = crowded{size: size, most: min(size-2, b.rounds*b.growthTurns)}
	}
	for round := range b.rounds {
		all := make([][]time.Duration, len(sizes))
		for turn := range b.growthTurns {
			for _, i := range alternate([]int{0, 1, 2}, turn) {
				once, err := ongoing[i].ack(ctx, b, s)
				if err != nil {
					return err
				}
				all[i] = append(all[i], once)
			}
		}
		for i := range sizes {
			took[i] = append(took[i], milliseconds(median(all[i])))
		}
		b.sayf("round %d  ack beside 10 tasks %.2f ms, beside 100 000 %.2f ms", round+1, took[0][round], took[2][round])
	}
	b.report.Add(report.Row{
		Goal: "G2", Metric: "ack of a checkpoint of 100 000 tasks ÷ of 10 tasks", AtMost: 1.3,
		Samples: report.Ratios(took[2], took[0]),
	})
	for i, size := range sizes {
		b.report.Plot("tasks", "ack", float64(size), took[i])
	}
	return nil
}

// crowded is a checkpoint that almost all of its tasks have acknowledged.
type crowded struct {
	size, most int // tasks, and how many of them acknowledge one by one
	id         int64
	left       int
}

// ack measures one acknowledgement, of another checkpoint when this one is about to complete.
func (c *crowded) ack(ctx context.Context, b *bench, s *scene) (time.Duration, error) {
	if c.left == 0 {
		id, err := b.trigger(ctx, s.system, c.size)
		if err != nil {
			return 0, err
		}
		c.id, c.left = id, c.most
		const step = 1000
		for first, all := 0, c.size-c.most-1; first < all; first += step {
			items := make([]string, 0, step)
			for n := range min(step, all-first) {
				items = append(items, fmt.Sprintf(`{"taskId":"early-%06d"}`, first+n))
			}
			body := `{"acks":[` + strings.Join(items, ",") + `]}`
			if _, _, err := s.caller.call(http.MethodPost, fmt.Sprintf("/checkpoints/%d/acks", id), body); err != nil {
				return 0, err
			}
		}
	}
	c.left--
	_, took, err := s.caller.call(http.MethodPost, fmt.Sprintf("/checkpoints/%d/acks", c.id), fmt.Sprintf(`{"taskId":"task-%06d"}`, c.left))
	return took, err
}
