package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/bench/load"
	"github.com/checkpointd/checkpointd/bench/report"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore"
)

// scene is a server on a Redis that holds so much already.
type scene struct {
	checkpoints int // completed ones of the default job
	foreign     int // keys of somebody else in the same Redis
	jobs        int // the default job among them

	*system
	caller *caller
	store  *redisstore.Store
}

// few is how many checkpoints there are at least: enough for a list of 20 to be full, so that
// the same is compared.
const few = 25

// growth measures how long single calls take beside much that exists already. The scenes
// take turns call by call, so that what disturbs one disturbs all.
func (b *bench) growth(ctx context.Context) error {
	scenes := []*scene{
		{checkpoints: few, foreign: 0, jobs: 1},
		{checkpoints: 1000, foreign: b.foreignKeys, jobs: 1},
		{checkpoints: b.manyCheckpoints, foreign: b.foreignKeys, jobs: 1},
		{checkpoints: few, foreign: 0, jobs: 32},
		{checkpoints: few, foreign: 0, jobs: 1000},
	}
	defer func() {
		for _, s := range scenes {
			s.close()
		}
	}()
	for _, s := range scenes {
		b.sayf("preparing %d checkpoints, %d foreign keys, %d jobs", s.checkpoints, s.foreign, s.jobs)
		if err := b.furnish(ctx, s); err != nil {
			return err
		}
	}
	// Not before: the server closes connections that are idle for long.
	for _, s := range scenes {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	names, took, err := b.calls(ctx, scenes)
	if err != nil {
		return err
	}
	small, large, jobs := 0, 2, 4
	beside := report.Grouped(int64(scenes[large].checkpoints)) + " checkpoints and " + report.Grouped(int64(scenes[large].foreign)) + " foreign keys"
	for _, name := range names {
		b.report.Add(report.Row{
			Goal: "G1", Metric: name + " beside " + beside + fmt.Sprintf(" ÷ beside %d and none", few), AtMost: 1.3,
			Samples: report.Ratios(took[name][large], took[name][small]),
		})
	}
	for _, name := range names {
		b.report.Add(report.Row{
			Metric:  name + " beside " + report.Grouped(int64(scenes[jobs].jobs)) + " jobs ÷ beside 1",
			Samples: report.Ratios(took[name][jobs], took[name][small]),
		})
	}
	for _, name := range names {
		for i, s := range scenes {
			if s.jobs == 1 {
				b.report.Plot("checkpoints", name, float64(s.checkpoints), took[name][i])
			}
			if s.foreign == 0 {
				b.report.Plot("jobs", name, float64(s.jobs), took[name][i])
			}
		}
	}
	return b.tasks(ctx, scenes[0])
}

// furnish starts the scene and fills it.
func (b *bench) furnish(ctx context.Context, s *scene) error {
	var err error
	if s.system, err = b.start(ctx, withRedis, onRedis("--checkpoints-to-keep", "0")); err != nil {
		return err
	}
	if s.store, err = redisstore.New(redisstore.Options{URL: "redis://" + s.addresses[redisName]}); err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	const step = 10_000
	for first := 0; first < s.foreign; first += step {
		pipeline := s.redis.Pipeline()
		for n := range step {
			pipeline.Set(ctx, fmt.Sprintf("foreign:%d", first+n), "somebody else's value", 0)
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			return fmt.Errorf("writing foreign keys: %w", err)
		}
	}
	if err := b.fill(ctx, s); err != nil {
		return err
	}
	for n := range s.jobs - 1 {
		for _, c := range []struct{ path, body string }{
			{"/checkpoints?job=job-%d", `{"requiredTaskAcks":1}`},
			{"/checkpoints/0/acks?job=job-%d", `{"taskId":"task-1"}`},
		} {
			if _, err := b.call(ctx, http.MethodPost, s.url(serverName, fmt.Sprintf(c.path, n)), strings.NewReader(c.body)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill triggers and completes the scene's checkpoints, which get the ids from 0 on.
func (b *bench) fill(ctx context.Context, s *scene) error {
	const step = 500 // below the number that may be pending at once
	for first := 0; first < s.checkpoints; first += step {
		count := int64(min(step, s.checkpoints-first))
		created := func(status int, body []byte) error {
			if status != http.StatusCreated {
				return fmt.Errorf("a trigger was answered %d: %.300s", status, body)
			}
			return nil
		}
		_, err := load.Run(ctx, load.Options{
			Address: s.addresses[serverName], Connections: 16, Count: count, Check: created,
			Next: func(buffer []byte, _ int64) []byte {
				return appendPost(buffer, "/checkpoints", `{"requiredTaskAcks":1}`)
			},
		})
		if err != nil {
			return err
		}
		_, err = load.Run(ctx, load.Options{
			Address: s.addresses[serverName], Connections: 16, Count: count,
			Next: func(buffer []byte, n int64) []byte {
				return appendPost(buffer, fmt.Sprintf("/checkpoints/%d/acks", int64(first)+n), `{"taskId":"task-1"}`)
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func appendPost(buffer []byte, path, body string) []byte {
	return fmt.Appendf(buffer, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func (s *scene) close() {
	if s.store != nil {
		_ = s.store.Close()
	}
	if s.caller != nil {
		s.caller.close()
	}
	if s.system != nil {
		s.stop()
	}
}

// calls measures every call in every scene, and gives their names in order and the medians in
// ms by name and scene. Each turn leaves a scene as it found it.
func (b *bench) calls(ctx context.Context, scenes []*scene) (names []string, took map[string][]report.Samples, err error) {
	names = []string{"trigger", "ack", "completing ack", "latest", "list of 20", "cleanup of one", "expiry sweep of one"}
	requests, sweeps := names[:6], names[6:]
	took = map[string][]report.Samples{}
	if err := b.collect(ctx, scenes, requests, callTurn, took); err != nil {
		return nil, nil, err
	}
	// A server sweeps by itself and would come first.
	for _, s := range scenes {
		s.stopServer()
	}
	err = b.collect(ctx, scenes, sweeps, sweepTurn, took)
	return names, took, err
}

// collect puts the median of each round, scene and name into took. A turn gives a time for
// each of the names.
func (b *bench) collect(
	ctx context.Context, scenes []*scene, names []string, turn func(context.Context, *scene) ([]time.Duration, error), took map[string][]report.Samples,
) error {
	for _, name := range names {
		took[name] = make([]report.Samples, len(scenes))
	}
	for round := range b.rounds {
		all := map[*scene][][]time.Duration{} // by turn
		for turns := range b.growthTurns {
			for _, s := range alternate(scenes, turns) {
				each, err := turn(ctx, s)
				if err != nil {
					return err
				}
				all[s] = append(all[s], each)
			}
		}
		for call, name := range names {
			for i, s := range scenes {
				took[name][i] = append(took[name][i], milliseconds(median(column(all[s], call))))
			}
			b.sayf("round %d  %-20s %.2f ms, %.2f ms beside the most", round+1, name, took[name][0][round], took[name][2][round])
		}
	}
	return nil
}

// column gives what stands at a place in every row.
func column(rows [][]time.Duration, place int) []time.Duration {
	cells := make([]time.Duration, 0, len(rows))
	for _, row := range rows {
		cells = append(cells, row[place])
	}
	return cells
}

// callTurn makes a checkpoint, asks for it, and removes the oldest one.
func callTurn(_ context.Context, s *scene) ([]time.Duration, error) {
	var took []time.Duration
	call := func(method, path, body string) ([]byte, error) {
		answer, once, err := s.caller.call(method, path, body)
		took = append(took, once)
		return answer, err
	}
	answer, err := call(http.MethodPost, "/checkpoints", `{"requiredTaskAcks":2}`)
	if err != nil {
		return nil, err
	}
	var checkpoint struct {
		CheckpointID int64 `json:"checkpointId"`
	}
	if err := json.Unmarshal(answer, &checkpoint); err != nil {
		return nil, fmt.Errorf("reading the answer of a trigger: %w", err)
	}
	acks := fmt.Sprintf("/checkpoints/%d/acks", checkpoint.CheckpointID)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, acks, `{"taskId":"task-1"}`},
		{http.MethodPost, acks, `{"taskId":"task-2"}`},
		{http.MethodGet, "/checkpoints/latest", ""},
		{http.MethodGet, "/checkpoints?limit=20", ""},
	} {
		if _, err := call(c.method, c.path, c.body); err != nil {
			return nil, err
		}
	}
	if answer, err = call(http.MethodPost, "/checkpoints/cleanup", fmt.Sprintf(`{"keep":%d}`, s.checkpoints)); err != nil {
		return nil, err
	}
	if strings.Contains(string(answer), `"deleted":[]`) {
		return nil, fmt.Errorf("the cleanup removed nothing: %s", answer)
	}
	return took, nil
}

// sweepTurn lets a checkpoint expire and sweeps it up.
func sweepTurn(ctx context.Context, s *scene) ([]time.Duration, error) {
	settings := coordinator.DefaultSettings()
	result, err := s.store.Trigger(ctx, coordinator.TriggerCall{
		Job: coordinator.DefaultJob, RequiredTaskAcks: 1, TimeoutMs: new(int64(1)), Defaults: settings,
	})
	if err != nil {
		return nil, err
	}
	load.Wait(ctx, 3*time.Millisecond)
	began := time.Now()
	if err := s.store.Sweep(ctx, coordinator.SweepCall{}); err != nil {
		return nil, err
	}
	took := time.Since(began)
	// A read would derive that it expired; the record says whether it was written.
	status, err := s.redis.HGet(ctx, fmt.Sprintf("checkpoint:%d", result.Checkpoint.ID), "status").Result()
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint's record: %w", err)
	}
	if status != string(coordinator.StatusExpired) {
		return nil, fmt.Errorf("the sweep left the checkpoint %q", status)
	}
	return []time.Duration{took}, nil
}

// stopServer ends the server of a scene; its Redis goes on.
func (s *scene) stopServer() {
	for i, p := range s.processes {
		if p.Name == serverName {
			s.group.Stop(p)
			s.processes = append(s.processes[:i:i], s.processes[i+1:]...)
		}
	}
}

func (b *bench) startServer(ctx context.Context, s *scene) error {
	if err := onRedis()(ctx, b, s.system); err != nil {
		return err
	}
	return s.connect(ctx)
}

// connect makes the caller anew.
func (s *scene) connect(ctx context.Context) error {
	if s.caller != nil {
		s.caller.close()
	}
	var err error
	s.caller, err = newCaller(ctx, s.addresses[serverName])
	return err
}
