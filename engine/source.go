package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// source is one contributor to checkpoints.
type source struct {
	name     string
	codec    codec
	snapshot func(ctx context.Context) (any, error)
	restore  func(ctx context.Context, payload any) error
}

// Register adds a snapshot source: state of any kind that belongs into checkpoints, such
// as the offsets of a reader. Both functions run inside the fence, with a context that
// carries it, and must be quick and never block.
//
//   - snapshot returns the state. It must never change afterwards: return a copy of what
//     is changed in place. If the checkpoint is to be stored elsewhere, it must have a
//     JSON form that P can be read back from.
//   - restore makes a payload the state again. It must not change it either. When it fails
//     the whole restore is undone, see [Coordinator.Restore].
//
// If the checkpoint that was restored last has state of this name, restore is called with
// it before Register returns, so that it does not matter which of the two comes first.
// Names are unique: a second registration fails with [ErrDuplicate]. Without a coordinator
// (nil) nothing is registered.
func Register[P any](
	ctx context.Context, c *Coordinator, name string,
	snapshot func(ctx context.Context) (P, error),
	restore func(ctx context.Context, payload P) error,
) error {
	if snapshot == nil || restore == nil {
		return fmt.Errorf("register %q: snapshot and restore must not be nil", name)
	}
	if c == nil {
		return nil
	}
	return c.register(ctx, newSource(name, valueCodec[P]{}, snapshot, restore))
}

// newSource forgets the type of the payload, behind functions that know it.
func newSource[P any](
	name string, codec codec,
	snapshot func(ctx context.Context) (P, error),
	restore func(ctx context.Context, payload P) error,
) *source {
	return &source{
		name:     name,
		codec:    codec,
		snapshot: func(ctx context.Context) (any, error) { return snapshot(ctx) },
		restore: func(ctx context.Context, payload any) error {
			// A nil interface is a P too, where P is an interface.
			typed, ok := payload.(P)
			if !ok && payload != nil {
				return fmt.Errorf("it is a %T, not a %T", payload, typed)
			}
			return restore(ctx, typed)
		},
	}
}

// take restores a part, decoding it first if it came from elsewhere, and returns it as it
// is then.
func (s *source) take(ctx context.Context, p part) (part, error) {
	p, err := s.decoded(p)
	if err == nil {
		err = s.restore(ctx, p.value)
	}
	if err != nil {
		return p, fmt.Errorf("restore %q: %w", s.name, err)
	}
	return p, nil
}

func (s *source) decoded(p part) (part, error) {
	entries, ok := p.value.(stored)
	if !ok {
		return p, nil
	}
	value, err := decode(s.codec, entries)
	return part{name: p.name, value: value, codec: s.codec}, err
}

func (c *Coordinator) register(ctx context.Context, s *source) error {
	if s.name == "" {
		return errors.New("register: a snapshot source needs a name")
	}
	err := c.exclusively(ctx, func(ctx context.Context) error { return c.add(ctx, s) })
	if err != nil {
		return fmt.Errorf("register %q: %w", s.name, err)
	}
	return nil
}

// registerNumbered registers under the first of prefix-1, prefix-2, … that is free.
func (c *Coordinator) registerNumbered(ctx context.Context, prefix string, s *source) error {
	err := c.exclusively(ctx, func(ctx context.Context) error {
		for n := 1; s.name == "" || c.index(s.name) >= 0; n++ {
			s.name = prefix + "-" + strconv.Itoa(n)
		}
		return c.add(ctx, s)
	})
	if err != nil {
		return fmt.Errorf("register a %s: %w", prefix, err)
	}
	return nil
}

// add needs the fence.
func (c *Coordinator) add(ctx context.Context, s *source) error {
	if c.index(s.name) >= 0 {
		return ErrDuplicate
	}
	restored := c.restored
	if restored != nil {
		if p, ok := restored.part(s.name); ok {
			taken, err := s.take(ctx, p)
			if err != nil {
				return err
			}
			restored = restored.with(taken)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources, c.restored = append(c.sources, s), restored
	return nil
}

func (c *Coordinator) index(name string) int {
	return slices.IndexFunc(c.sources, func(s *source) bool { return s.name == name })
}

// Unregister removes a source from the checkpoints to come; those that were taken keep
// its state, and its name is free again. It fails with [ErrNoSource] when the name is not
// registered.
func (c *Coordinator) Unregister(ctx context.Context, name string) error {
	if c == nil {
		return nil
	}
	err := c.exclusively(ctx, func(context.Context) error {
		i := c.index(name)
		if i < 0 {
			return ErrNoSource
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sources = slices.Delete(c.sources, i, i+1)
		return nil
	})
	if err != nil {
		return fmt.Errorf("unregister %q: %w", name, err)
	}
	return nil
}
