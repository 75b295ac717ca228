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
			l, err := t.run(ctx, t.connections)
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

// alternate gives the order of a round: what comes first in one comes last in the next.
func alternate[T any](all []T, round int) []T {
	order := slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

func (t target) key() string { return fmt.Sprintf("%s, %d", t.name, t.connections) }
