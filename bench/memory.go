package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/checkpointd/checkpointd/bench/load"
	"github.com/checkpointd/checkpointd/bench/report"
)

// mostMemoryRounds is enough: memory varies little, and a round takes long.
const mostMemoryRounds = 3

// memory measures how far the server's memory rises above that of an idle one, for
// a part of any size, on both stores.
func (b *bench) memory(ctx context.Context) error {
	lines := entries(b.bulkEntries)
	rises := map[string]report.Samples{}
	for round := range min(b.rounds, mostMemoryRounds) {
		worst := map[string]float64{}
		for _, store := range [][]step{{withRedis, onRedis()}, {onDisk()}} {
			if err := b.peaks(ctx, lines, worst, store...); err != nil {
				return err
			}
		}
		for what, rise := range worst {
			b.sayf("round %d  %-40s %7.1f MiB above idle", round+1, what, rise)
			rises[what] = append(rises[what], rise)
		}
	}
	for _, what := range []string{"upload", "restore", "restore to a slow reader"} {
		b.report.Add(report.Row{
			Goal: "B3", Metric: fmt.Sprintf("peak memory above idle, %s (%d MB), the worse of both stores", what, len(lines)/1e6), Unit: "MiB",
			AtMost: 32, Samples: rises[what],
		})
	}
	return nil
}

// slowPace is how fast a slow reader reads, in bytes a second, and slowFor how long it does.
const (
	slowPace = 20 << 20
	slowFor  = 2 * time.Second
)

// peaks puts into worst how far the memory of a fresh server rises, in MiB, where that is more.
func (b *bench) peaks(ctx context.Context, lines []byte, worst map[string]float64, store ...step) error {
	s, err := b.start(ctx, store...)
	if err != nil {
		return err
	}
	defer s.stop()
	server, address := s.process(serverName), s.addresses[serverName]
	move := func(lines []byte) (upload, restore func() error, err error) {
		id, err := b.trigger(ctx, s, 1)
		path := fmt.Sprintf("/checkpoints/%d", id)
		upload = func() error {
			_, _, err := put(ctx, address, path+"/tasks/task-1/state?ack=true", lines)
			return err
		}
		restore = func() error {
			_, err := get(ctx, address, path+"/restore", len(lines))
			return err
		}
		return upload, restore, err
	}
	// Idle is a server that has worked before: its code is in memory, and its pools are made.
	upload, restore, err := move(entries(100))
	if err != nil {
		return err
	}
	if err := inTurn(upload, restore); err != nil {
		return err
	}
	idle, err := server.Memory()
	if err != nil {
		return err
	}
	if upload, restore, err = move(lines); err != nil {
		return err
	}
	slow := func() error { return readSlowly(ctx, address) }
	for _, part := range []struct {
		what string
		run  func() error
	}{{"upload", upload}, {"restore", restore}, {"restore to a slow reader", slow}} {
		if err := inTurn(server.ForgetPeak, part.run); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
		now, err := server.Memory()
		if err != nil {
			return err
		}
		worst[part.what] = max(worst[part.what], float64(now.Peak-idle.Now)/(1<<20))
	}
	return nil
}

func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// readSlowly reads a part of the latest snapshot, at a slow pace, and goes away.
func readSlowly(ctx context.Context, address string) error {
	connection, err := open(ctx, address, []byte("GET /checkpoints/latest/restore HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	const pause = 50 * time.Millisecond
	buffer := make([]byte, slowPace/int(time.Second/pause))
	for range int(slowFor / pause) {
		if _, err := io.ReadFull(connection, buffer); err != nil {
			return fmt.Errorf("reading slowly: %w", err)
		}
		load.Wait(ctx, pause)
	}
	return nil
}
