package engine

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// trie is a hash map that is frozen in no time, however large it is: the frozen copy
// shares all nodes, and later writes copy the few on their way. Nodes made since the last
// freeze belong to the trie alone and are changed in place, so that a store that is
// seldom frozen pays little more than a map.
type trie[K comparable, V any] struct {
	root  *node[K, V]
	count int
	hash  func(key K) uint64
	// owner marks the nodes that no frozen copy shares.
	owner *owner
}

// owner is compared by address, so it must not be of size 0.
type owner struct{ _ byte }

// node has a slot for each set bit of its map, or, below the last bits of a hash, a list
// of slots whose hashes are equal.
type node[K comparable, V any] struct {
	owner *owner
	used  uint32
	slots []slot[K, V]
}

// slot is a node below, or else an entry.
type slot[K comparable, V any] struct {
	below *node[K, V]
	key   K
	value V
}

const (
	levelBits = 5
	hashBits  = 64
)

func newTrie[K comparable, V any]() trie[K, V] {
	seed := maphash.MakeSeed()
	return trie[K, V]{hash: func(key K) uint64 { return maphash.Comparable(seed, key) }, owner: new(owner)}
}

func (t *trie[K, V]) len() int { return t.count }

// freeze returns a copy that never changes.
func (t *trie[K, V]) freeze() trie[K, V] {
	frozen := *t
	frozen.owner = nil
	t.owner = new(owner)
	return frozen
}

// thaw returns a trie that begins as the frozen one and may be changed.
func (t *trie[K, V]) thaw() trie[K, V] {
	thawed := *t
	thawed.owner = new(owner)
	return thawed
}

// place is where a hash belongs in a node: its bit, and the index of its slot.
func (n *node[K, V]) place(hash uint64, shift uint) (bit uint32, index int) {
	bit = 1 << (hash >> shift & (1<<levelBits - 1))
	return bit, bits.OnesCount32(n.used & (bit - 1))
}

func (n *node[K, V]) find(key K) int {
	return slices.IndexFunc(n.slots, func(s slot[K, V]) bool { return s.key == key })
}

func (t *trie[K, V]) get(key K) (value V, ok bool) {
	hash := t.hash(key)
	n := t.root
	for shift := uint(0); n != nil; shift += levelBits {
		if shift >= hashBits {
			if i := n.find(key); i >= 0 {
				return n.slots[i].value, true
			}
			return value, false
		}
		bit, i := n.place(hash, shift)
		if n.used&bit == 0 {
			return value, false
		}
		s := &n.slots[i]
		if s.below == nil {
			if s.key == key {
				return s.value, true
			}
			return value, false
		}
		n = s.below
	}
	return value, false
}

func (t *trie[K, V]) set(key K, value V) {
	t.root = t.put(t.root, t.hash(key), 0, slot[K, V]{key: key, value: value})
}

// own returns the node itself, or a copy where a frozen trie shares it.
func (t *trie[K, V]) own(n *node[K, V]) *node[K, V] {
	switch {
	case n == nil:
		return &node[K, V]{owner: t.owner}
	case n.owner == t.owner:
		return n
	default:
		return &node[K, V]{owner: t.owner, used: n.used, slots: slices.Clone(n.slots)}
	}
}

func (t *trie[K, V]) put(n *node[K, V], hash uint64, shift uint, entry slot[K, V]) *node[K, V] {
	n = t.own(n)
	if shift >= hashBits {
		if i := n.find(entry.key); i >= 0 {
			n.slots[i] = entry
		} else {
			n.slots = append(n.slots, entry)
			t.count++
		}
		return n
	}
	bit, i := n.place(hash, shift)
	if n.used&bit == 0 {
		n.used |= bit
		n.slots = slices.Insert(n.slots, i, entry)
		t.count++
		return n
	}
	s := &n.slots[i]
	switch {
	case s.below != nil:
		s.below = t.put(s.below, hash, shift+levelBits, entry)
	case s.key == entry.key:
		*s = entry
	default: // two entries meet: both move one level down
		t.count--
		below := t.put(nil, t.hash(s.key), shift+levelBits, *s)
		*s = slot[K, V]{below: t.put(below, hash, shift+levelBits, entry)}
	}
	return n
}

func (t *trie[K, V]) remove(key K) {
	if _, ok := t.get(key); !ok {
		return
	}
	t.root = t.cut(t.root, t.hash(key), 0, key)
	t.count--
}

// cut removes a key that is there; a node that becomes empty goes with it.
func (t *trie[K, V]) cut(n *node[K, V], hash uint64, shift uint, key K) *node[K, V] {
	n = t.own(n)
	var bit uint32
	var i int
	if shift >= hashBits {
		i = n.find(key)
	} else {
		bit, i = n.place(hash, shift)
		if below := n.slots[i].below; below != nil {
			if below = t.cut(below, hash, shift+levelBits, key); below != nil {
				n.slots[i].below = below
				return n
			}
		}
	}
	if len(n.slots) == 1 {
		return nil
	}
	n.used &^= bit
	n.slots = slices.Delete(n.slots, i, i+1)
	return n
}

// all yields every entry, in no order. The trie must not change meanwhile.
func (t *trie[K, V]) all(yield func(K, V) bool) { t.root.each(yield) }

func (n *node[K, V]) each(yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	for i := range n.slots {
		s := &n.slots[i]
		if s.below != nil {
			if !s.below.each(yield) {
				return false
			}
		} else if !yield(s.key, s.value) {
			return false
		}
	}
	return true
}
