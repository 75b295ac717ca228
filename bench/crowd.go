package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/checkpointd/checkpointd/bench/load"
	"github.com/checkpointd/checkpointd/bench/report"
)

// crowd lets the most tasks that there may be acknowledge one checkpoint at once, and sees
// that exactly one of them completes it.
func (b *bench) crowd(ctx context.Context) error {
	const connections = 256
	var seconds, redisSeconds report.Samples
	for round := range min(b.rounds, b.crowds) {
		l, err := b.crowdOnce(ctx, connections)
		if err != nil {
			return err
		}
		b.sayf("round %d  %d tasks in %.2f s", round+1, l.Requests, l.Elapsed.Seconds())
		seconds = append(seconds, l.Elapsed.Seconds())
		redisSeconds = append(redisSeconds, l.cpu[redisName].Seconds())
	}
	what := fmt.Sprintf("%s tasks acknowledge one checkpoint from %d connections, completed exactly once: ",
		report.Grouped(int64(b.crowdTasks)), connections)
	b.report.Add(report.Row{Metric: what + "total time", Unit: "s", Samples: seconds})
	b.report.Add(report.Row{Metric: what + "Redis CPU", Unit: "s", Samples: redisSeconds})
	return nil
}

func (b *bench) crowdOnce(ctx context.Context, connections int) (loaded, error) {
	s, err := b.start(ctx, withRedis, onRedis())
	if err != nil {
		return loaded{}, err
	}
	defer s.stop()
	a, err := b.singleAcks(ctx, s, 1, 1, b.crowdTasks)
	if err != nil {
		return loaded{}, err
	}
	l, err := b.run(ctx, s, serverName, load.Options{Connections: connections, Next: a.next, Check: a.check, Count: int64(b.crowdTasks)})
	if err != nil {
		return loaded{}, err
	}
	if ended := a.ended.Load(); ended != 1 {
		return loaded{}, fmt.Errorf("%d acknowledgements were told that they completed the checkpoint", ended)
	}
	answer, err := b.call(ctx, http.MethodGet, s.url(serverName, "/checkpoints/latest"), nil)
	if err != nil {
		return loaded{}, err
	}
	var checkpoint struct {
		AcknowledgedTasks int `json:"acknowledgedTasks"`
	}
	if err := json.Unmarshal(answer, &checkpoint); err != nil {
		return loaded{}, fmt.Errorf("reading the latest checkpoint: %w", err)
	}
	if checkpoint.AcknowledgedTasks != b.crowdTasks {
		return loaded{}, fmt.Errorf("not all acknowledged the latest checkpoint: %.300s", answer)
	}
	return l, nil
}
