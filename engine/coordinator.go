package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// DefaultRetain is how many checkpoints a coordinator keeps unless told otherwise.
const DefaultRetain = 10

// Options are the settings of a coordinator; the zero value is ready for use.
type Options struct {
	// Retain is how many checkpoints are kept for Get and Restore, the newest ones.
	// Defaults to DefaultRetain; so does anything below 1.
	Retain int
}

// Coordinator takes checkpoints of everything that is registered with it, and restores
// them. All of it happens behind one [Fence]: between two records of a stream, never
// inside one. Its methods may be called by any number of goroutines.
//
// A nil coordinator is none: nothing is registered with it or taken from it, it has no
// checkpoint to look at, and Trigger, Restore and Adopt fail.
type Coordinator struct {
	fence  *Fence
	retain int

	// busy is true while snapshot and restore functions run. It is guarded by the fence.
	busy bool

	// mu is held for a few instructions only, so that looking never waits for a record.
	// What it guards is changed by holders of the fence only, who may read it without mu.
	mu       sync.RWMutex
	lastID   int64
	kept     []*Checkpoint // oldest first
	sources  []*source
	restored *Checkpoint
}

// NewCoordinator returns a coordinator with nothing registered. Nil options are valid.
func NewCoordinator(options *Options) *Coordinator {
	c := &Coordinator{fence: NewFence(), retain: DefaultRetain}
	if options != nil && options.Retain > 0 {
		c.retain = options.Retain
	}
	return c
}

// Fence is the snapshot lock: whoever holds it keeps every checkpoint, restore and store
// write of others waiting. Hold it for bounded work in memory only. Several writes within
// one [Fence.Do] are in a checkpoint together or not at all. That of a nil coordinator is a
// new one with each call, which keeps nobody waiting.
func (c *Coordinator) Fence() *Fence { return fenceOf(c) }

// Trigger takes a checkpoint and returns it: complete, retained and the latest. The
// snapshot functions run one after the other, in one hold of the fence. When one fails
// there is no checkpoint, and its id goes to the next one.
//
// From inside a record it does not wait, and has what the record has written so far.
func (c *Coordinator) Trigger(ctx context.Context) (*Checkpoint, error) {
	var cp *Checkpoint
	err := c.exclusively(ctx, func(ctx context.Context) error {
		parts, err := snapshots(ctx, c.sources)
		if err != nil {
			return err
		}
		cp = c.keep(parts)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("trigger: %w", err)
	}
	return cp, nil
}

// exclusively runs body inside the fence, and refuses when a snapshot or restore function
// asks for it.
func (c *Coordinator) exclusively(ctx context.Context, body func(ctx context.Context) error) error {
	if c == nil {
		return errNoCoordinator
	}
	return c.fence.Do(ctx, func(ctx context.Context) error {
		if c.busy {
			return ErrInCut
		}
		c.busy = true
		defer func() { c.busy = false }()
		return body(ctx)
	})
}

func snapshots(ctx context.Context, sources []*source) ([]part, error) {
	parts := make([]part, len(sources))
	for i, s := range sources {
		value, err := s.snapshot(ctx)
		if err != nil {
			return nil, fmt.Errorf("snapshot of %q: %w", s.name, err)
		}
		parts[i] = part{name: s.name, value: value, codec: s.codec}
	}
	return parts, nil
}

func (c *Coordinator) keep(parts []part) *Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	cp := &Checkpoint{id: c.lastID, at: time.Now(), parts: parts}
	c.kept = append(c.kept, cp)
	if len(c.kept) > c.retain {
		// Delete clears what it frees, so that dropped state can be collected.
		c.kept = slices.Delete(c.kept, 0, len(c.kept)-c.retain)
	}
	return cp
}

// Acknowledge does nothing: checkpoints are complete when Trigger returns. It is there
// for code that is written against a coordinator of many processes as well.
func (c *Coordinator) Acknowledge(id int64, task string) { _, _ = id, task }

// Complete does nothing, as Acknowledge.
func (c *Coordinator) Complete(id int64) { _ = id }

// Latest returns the newest checkpoint, nil before the first.
func (c *Coordinator) Latest() *Checkpoint {
	if c == nil {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.kept) == 0 {
		return nil
	}
	return c.kept[len(c.kept)-1]
}

// Get returns a checkpoint, nil when there is none of this id or it is no longer retained.
func (c *Coordinator) Get(id int64) *Checkpoint {
	if c == nil {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, cp := range c.kept {
		if cp.id == id {
			return cp
		}
	}
	return nil
}

// Sources returns the names that are registered, in the order of their registration. The
// slice is the caller's own.
func (c *Coordinator) Sources() []string {
	if c == nil {
		return []string{}
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	names := make([]string, len(c.sources))
	for i, s := range c.sources {
		names[i] = s.name
	}
	return names
}
