package snapshot

import (
	"bytes"
	"hash/maphash"
)

// fewNames is up to how many members an object is searched for a repeated name
// by looking at each: below it that is cheaper than hashing.
const fewNames = 16

// escapedEnd ends an unescaped name in nameSet.unescaped. It occurs in no
// UTF-8.
const escapedEnd = 0xff

// nameRef is where a member name begins: an offset into the text, or, from the
// text's length on, into the names that had escapes. Four bytes a name are what
// keeps an object of two million members affordable.
type nameRef uint32

// nameSet finds repeated member names, of all open objects of one text. Its
// memory is at most about 12 bytes a member of the largest objects that are
// open at once, and it is reused from text to text.
type nameSet struct {
	src       []byte
	unescaped []byte
	refs      []nameRef
	seed      maphash.Seed
	seeded    bool
}

// nameScope is the part of a nameSet that belongs to one open object. Its names
// are refs[first:], or in a hash table once they are more than a few.
type nameScope struct {
	first, unescaped uint32
	count            uint32
	table            []nameRef
}

// emptySlot cannot be a reference: src[0] is never inside a string.
const emptySlot nameRef = 0

func (n *nameSet) reset(src []byte) {
	n.src, n.unescaped, n.refs = src, n.unescaped[:0], n.refs[:0]
}

// release forgets the last text and what memory only an unusual one needed.
func (n *nameSet) release() {
	n.src = nil
	const usual = 64 << 10
	if cap(n.unescaped) > usual {
		n.unescaped = nil
	}
	if cap(n.refs) > usual {
		n.refs = nil
	}
}

func (n *nameSet) open() nameScope {
	return nameScope{first: uint32(len(n.refs)), unescaped: uint32(len(n.unescaped))}
}

func (n *nameSet) close(s *nameScope) {
	n.refs, n.unescaped = n.refs[:s.first], n.unescaped[:s.unescaped]
	if s.table != nil {
		s.table = nil // it may be large, and the scope's memory stays for the next
	}
}

// add adds the name src[start:end] to an object, unless it is there already. The object
// must be the innermost one.
func (n *nameSet) add(s *nameScope, start, end int, escaped bool) (ref nameRef, fresh bool) {
	name := n.src[start:end]
	ref = nameRef(start)
	if escaped {
		at := len(n.unescaped)
		ref = nameRef(len(n.src) + at)
		n.unescaped = append(appendUnescaped(n.unescaped, name), escapedEnd)
		name = n.unescaped[at : len(n.unescaped)-1]
	}
	if s.table == nil {
		for _, other := range n.refs[s.first:] {
			// Most names differ in where they end, which is cheap to see.
			if end := int(other) + len(name); end >= len(n.src) || n.src[end] == '"' {
				if n.equal(other, name) {
					return ref, false
				}
			}
		}
		n.refs = append(n.refs, ref)
		s.count++
		if s.count > fewNames {
			n.grow(s, n.refs[s.first:], 4*fewNames)
			n.refs = n.refs[:s.first]
		}
		return ref, true
	}
	slot := n.find(s.table, name)
	if s.table[slot] != emptySlot {
		return ref, false
	}
	s.table[slot] = ref
	s.count++
	if int(s.count) > len(s.table)/4*3 {
		n.grow(s, s.table, 2*len(s.table))
	}
	return ref, true
}

// text is the unescaped name.
func (n *nameSet) text(ref nameRef) []byte {
	if int(ref) < len(n.src) {
		rest := n.src[ref:]
		return rest[:bytes.IndexByte(rest, '"')]
	}
	rest := n.unescaped[int(ref)-len(n.src):]
	return rest[:bytes.IndexByte(rest, escapedEnd)]
}

func (n *nameSet) equal(ref nameRef, name []byte) bool {
	from, end := n.src, byte('"')
	at := int(ref)
	if at >= len(n.src) {
		from, end = n.unescaped, escapedEnd
		at -= len(n.src)
	}
	from = from[at:]
	if len(from) <= len(name) || from[len(name)] != end || !bytes.Equal(from[:len(name)], name) {
		return false
	}
	// A name with the end in it would be compared with what is behind the other.
	return bytes.IndexByte(name, end) < 0
}

// find returns the slot of name, or the empty slot where it belongs.
func (n *nameSet) find(table []nameRef, name []byte) int {
	if !n.seeded {
		// The seed is random so that nobody can choose names that collide.
		n.seed, n.seeded = maphash.MakeSeed(), true
	}
	mask := len(table) - 1
	slot := int(maphash.Bytes(n.seed, name)) & mask
	for table[slot] != emptySlot && !n.equal(table[slot], name) {
		slot = (slot + 1) & mask
	}
	return slot
}

// grow moves the names of a scope into a new table of size slots, a power of
// two.
func (n *nameSet) grow(s *nameScope, refs []nameRef, size int) {
	table := make([]nameRef, size)
	for _, ref := range refs {
		if ref != emptySlot {
			table[n.find(table, n.text(ref))] = ref
		}
	}
	s.table = table
}
