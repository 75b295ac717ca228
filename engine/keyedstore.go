package engine

import (
	"context"
	"iter"
)

// KeyedStore is state of type V for each key. Its methods work on the current key of
// their context: that of the record a stream is working on, or the one that [WithKey]
// set. Without one they fail with [ErrNoKey].
//
// A checkpoint freezes a store in no time, however many keys it has: later writes leave
// what is frozen alone. Reads and writes take the fence, and from inside a record or a
// [Fence.Do] they enter it again. They fail only without a key, or when ctx is done
// before they come in.
type KeyedStore[K comparable, V any] struct {
	fence   *Fence
	initial V
	clone   func(V) V
	// entries is guarded by the fence.
	entries trie[K, V]
}

// StoreOptions are the settings of a [KeyedStore]; the zero value is ready for use.
type StoreOptions[V any] struct {
	// Default is the value of a key that has none. Defaults to the zero value.
	Default V
	// Clone returns a copy that shares nothing changeable with the original. Without it
	// values are kept as they are: one that is changed in place (an element of a slice,
	// a field behind a pointer) changes in the checkpoints too. With it the store copies
	// what it takes and what it hands out; Clone sees the zero value as well. Leave it nil for values that are never changed
	// in place: numbers, strings, structs of such.
	Clone func(V) V
}

// frozen is the payload of a store.
type frozen[K comparable, V any] struct {
	entries trie[K, V]
	clone   func(V) V
}

// plain is what [Read] returns of it.
func (f frozen[K, V]) plain() any {
	m := make(map[K]V, f.entries.len())
	for key, value := range f.entries.all {
		m[key] = f.clone(value)
	}
	return m
}

// NewKeyedStore returns a store that is part of the checkpoints of c under this name; it
// begins with what the checkpoint that was restored last has of it, or empty. It fails as
// [Register] does. Without a coordinator (nil) the store is on its own. Nil options are
// valid.
func NewKeyedStore[K comparable, V any](
	ctx context.Context, c *Coordinator, name string, options *StoreOptions[V],
) (*KeyedStore[K, V], error) {
	s := &KeyedStore[K, V]{
		fence:   fenceOf(c),
		clone:   func(value V) V { return value },
		entries: newTrie[K, V](),
	}
	if options != nil {
		s.initial = options.Default
		if options.Clone != nil {
			s.clone = options.Clone
		}
	}
	if c == nil {
		return s, nil
	}
	err := c.register(ctx, newSource(name, keyedCodec[K, V]{s.clone},
		func(context.Context) (frozen[K, V], error) {
			return frozen[K, V]{entries: s.entries.freeze(), clone: s.clone}, nil
		},
		func(_ context.Context, payload frozen[K, V]) error {
			s.entries = payload.entries.thaw()
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fenceOf is the coordinator's fence, or a new one where there is no coordinator.
func fenceOf(c *Coordinator) *Fence {
	if c == nil {
		return NewFence()
	}
	return c.fence
}

// Value returns the value of the current key, or the default.
func (s *KeyedStore[K, V]) Value(ctx context.Context) (V, error) {
	var value V
	err := s.with(ctx, func(key K) { value = s.read(key) })
	return value, err
}

// Set sets the value of the current key.
func (s *KeyedStore[K, V]) Set(ctx context.Context, value V) error {
	return s.with(ctx, func(key K) { s.entries.set(key, s.clone(value)) })
}

// Update sets the value of the current key to what change makes of it, or of the default.
// Nothing else happens between the reading and the writing; change therefore must not use
// a store, stream or coordinator itself, or it waits for its own end. For more than one
// step use [Fence.Do].
func (s *KeyedStore[K, V]) Update(ctx context.Context, change func(value V) V) error {
	return s.with(ctx, func(key K) { s.entries.set(key, s.clone(change(s.read(key)))) })
}

// Clear removes the current key.
func (s *KeyedStore[K, V]) Clear(ctx context.Context) error {
	return s.with(ctx, func(key K) { s.entries.remove(key) })
}

// Len is how many keys have a value.
func (s *KeyedStore[K, V]) Len(ctx context.Context) (int, error) {
	h, err := s.fence.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer h.leave()
	return s.entries.len(), nil
}

// All yields every key with its value as they are right now, in no order. The caller may
// take its time, and may write to the store: what it sees does not change.
func (s *KeyedStore[K, V]) All(ctx context.Context) (iter.Seq2[K, V], error) {
	h, err := s.fence.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer h.leave()
	all := s.entries.freeze()
	return func(yield func(K, V) bool) {
		for key, value := range all.all {
			if !yield(key, s.clone(value)) {
				return
			}
		}
	}, nil
}

// read needs the fence.
func (s *KeyedStore[K, V]) read(key K) V {
	if value, ok := s.entries.get(key); ok {
		return s.clone(value)
	}
	return s.clone(s.initial)
}

func (s *KeyedStore[K, V]) with(ctx context.Context, do func(key K)) error {
	key, err := CurrentKey[K](ctx)
	if err != nil {
		return err
	}
	h, err := s.fence.enter(ctx)
	if err != nil {
		return err
	}
	defer h.leave()
	do(key)
	return nil
}
