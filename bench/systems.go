package main

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/bench/process"
)

// system is a set of processes that are measured together, and where they are reached.
// Each measurement starts its own: nothing is left of what was measured before.
type system struct {
	group     *process.Group
	processes []*process.Process
	addresses map[string]string // by the name of the process, HOST:PORT
	redis     *redis.Client     // nil without one
	folders   []string          // of what is kept on disk
}

// step adds a program to a system.
type step func(ctx context.Context, b *bench, s *system) error

// start takes the steps in turn; one that fails stops what those before it started.
func (b *bench) start(ctx context.Context, steps ...step) (*system, error) {
	s := &system{group: &b.group, addresses: map[string]string{}}
	for _, step := range steps {
		if err := step(ctx, b, s); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

// stop ends the processes and removes what they kept.
func (s *system) stop() {
	if s.redis != nil {
		_ = s.redis.Close()
	}
	s.group.Stop(s.processes...)
	for _, folder := range s.folders {
		_ = os.RemoveAll(folder)
	}
}

// process gives the one of that name.
func (s *system) process(name string) *process.Process {
	for _, p := range s.processes {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// url is that of a path on a process.
func (s *system) url(name, path string) string { return "http://" + s.addresses[name] + path }
