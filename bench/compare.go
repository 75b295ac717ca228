package main

import (
	"context"
	"fmt"
	"slices"
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
		for _, t := range alternate(targets, round) {
			b.target = t.key()
			l, err := b.attempt(ctx, t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.key(), err)
			}
			b.sayf("round %d  %-28s %9.0f/s", round+1, t.key(), l.PerSecond())
			results[t.key()] = append(results[t.key()], l)
		}
	}
	for _, t := range targets {
		b.report.Loads = append(b.report.Loads, b.costs(t.name, t.connections, results[t.key()]))
	}
	return results, nil
}

// attempt runs a target, and once more when it failed: on a machine that others use as well, a
// server may be kept from answering in time.
func (b *bench) attempt(ctx context.Context, t target) (loaded, error) {
	l, err := t.run(ctx, t.connections)
	if err == nil || ctx.Err() != nil {
		return l, err
	}
	b.sayf("%s failed and is tried once more: %v", t.key(), err)
	return t.run(ctx, t.connections)
}

// alternate gives the order of a round: what comes first in one comes last in the next.
func alternate[T any](all []T, round int) []T {
	order := slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

func (t target) key() string { return fmt.Sprintf("%s, %d", t.name, t.connections) }
