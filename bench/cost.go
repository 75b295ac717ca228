package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/bench/report"
)

// What costs are counted for.
const (
	costTasks       = 100
	costCheckpoints = 50
)

// cost counts what a checkpoint of 100 tasks costs in Redis: memory, round trips of the
// server, and commands within its scripts.
func (b *bench) cost(ctx context.Context) error {
	for _, way := range []struct {
		name string
		acks func(id int64) []string // bodies
	}{
		{"an ack each", func(int64) []string { return ackBodies(1) }},
		{"one bulk ack", func(int64) []string { return ackBodies(costTasks) }},
	} {
		s, err := b.start(ctx, withRedis, onRedis("--checkpoints-to-keep", "0"))
		if err != nil {
			return err
		}
		counted, err := b.count(ctx, s, way.acks)
		s.stop()
		if err != nil {
			return err
		}
		of := fmt.Sprintf("a completed checkpoint of %d tasks, %s: ", costTasks, way.name)
		b.report.Add(report.Row{Metric: of + "memory in Redis", Unit: "B", Samples: report.Samples{counted.bytes}})
		b.report.Add(report.Row{Metric: of + "scripts sent to Redis", Samples: report.Samples{counted.scripts}})
		b.report.Add(report.Row{Metric: of + "commands that they ran", Samples: report.Samples{counted.commands}})
	}
	return nil
}

// ackBodies acknowledges for all tasks, so many in each request.
func ackBodies(batch int) []string {
	var bodies []string
	for first := 0; first < costTasks; first += batch {
		items := make([]string, 0, batch)
		for n := range batch {
			items = append(items, fmt.Sprintf(`{"taskId":"task-%06d"}`, first+n))
		}
		body := items[0]
		if batch > 1 {
			body = `{"acks":[` + strings.Join(items, ",") + `]}`
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// counts are totals, or those of one checkpoint.
type counts struct {
	bytes, scripts, commands float64
}

// count makes checkpoints and gives what one of them costs. The first ones make the job, and
// load the scripts.
func (b *bench) count(ctx context.Context, s *system, acks func(id int64) []string) (counts, error) {
	if err := b.complete(ctx, s, 5, acks); err != nil {
		return counts{}, err
	}
	before, err := totals(ctx, s.redis)
	if err != nil {
		return counts{}, err
	}
	if err := b.complete(ctx, s, costCheckpoints, acks); err != nil {
		return counts{}, err
	}
	after, err := totals(ctx, s.redis)
	if err != nil {
		return counts{}, err
	}
	each := func(before, after float64) float64 { return (after - before) / costCheckpoints }
	return counts{each(before.bytes, after.bytes), each(before.scripts, after.scripts), each(before.commands, after.commands)}, nil
}

// complete makes so many checkpoints and acknowledges them.
func (b *bench) complete(ctx context.Context, s *system, n int, acks func(id int64) []string) error {
	for range n {
		id, err := b.trigger(ctx, s, costTasks)
		if err != nil {
			return err
		}
		for _, body := range acks(id) {
			if _, err := b.call(ctx, http.MethodPost, s.url(serverName, fmt.Sprintf("/checkpoints/%d/acks", id)), strings.NewReader(body)); err != nil {
				return err
			}
		}
	}
	return nil
}

// totals reads what Redis holds and has done. What this reading itself does is left out.
func totals(ctx context.Context, client *redis.Client) (counts, error) {
	stats, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return counts{}, fmt.Errorf("reading what Redis did: %w", err)
	}
	var total counts
	for _, match := range calls.FindAllStringSubmatch(stats, -1) {
		n, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return counts{}, fmt.Errorf("reading what Redis did: %w", err)
		}
		switch match[1] {
		case "evalsha", "eval":
			total.scripts += n
		case "info", "scan", "memory|usage", "ping", "hello", "client|setinfo", "publish":
		default:
			total.commands += n
		}
	}
	keys := client.Scan(ctx, 0, "", 1000).Iterator()
	for keys.Next(ctx) {
		size, err := client.MemoryUsage(ctx, keys.Val(), 0).Result()
		if err != nil {
			return counts{}, fmt.Errorf("reading how large %s is: %w", keys.Val(), err)
		}
		total.bytes += float64(size)
	}
	if err := keys.Err(); err != nil {
		return counts{}, fmt.Errorf("listing keys: %w", err)
	}
	return total, nil
}

var calls = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)
