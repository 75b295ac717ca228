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
	// tables are those of the open objects that have one, outermost first.
	tables [][]nameRef
	seed   maphash.Seed
	seeded bool
}

// nameScope is the part of a nameSet that belongs to one open object. Its names
// are refs[first:], or in a hash table once they are more than a few. It has no
// pointers, since one is written for every array and object.
type nameScope struct {
	// seen has a bit for each name, see nameBit: a name whose bit is not there is
	// a new one.
	seen             uint64
	first, unescaped uint32
	count            uint32
	// table is the number of the scope's table in tables, from 1; 0 for none.
	table uint32
}

// nameBit is one of 64 bits, by what tells the names of one object apart best.
func nameBit(name []byte) uint64 {
	if len(name) == 0 {
		return 1
	}
	return 1 << ((uint(name[0]) + 5*uint(name[len(name)-1]) + 11*uint(len(name))) % 64)
}

// emptySlot cannot be a reference: src[0] is never inside a string.
const emptySlot nameRef = 0

func (n *nameSet) reset(src []byte) {
	n.src, n.unescaped, n.refs = src, n.unescaped[:0], n.refs[:0]
	n.closeTables(0)
}

// release forgets the last text and what memory only an unusual one needed.
func (n *nameSet) release() {
	n.src = nil
	n.closeTables(0) // after an error objects are still open, maybe large ones
	const usual = 64 << 10
	if cap(n.unescaped) > usual {
		n.unescaped = nil
	}
	if cap(n.refs) > usual {
		n.refs = nil
	}
}

func (n *nameSet) open(s *nameScope) {
	s.seen, s.count, s.table = 0, 0, 0
	s.first, s.unescaped = uint32(len(n.refs)), uint32(len(n.unescaped))
}

func (n *nameSet) close(s *nameScope) {
	n.refs, n.unescaped = n.refs[:s.first], n.unescaped[:s.unescaped]
	if s.table > 0 {
		n.closeTables(s.table - 1)
	}
}

// closeTables lets go of all tables but the first ones.
func (n *nameSet) closeTables(rest uint32) {
	if len(n.tables) > int(rest) {
		clear(n.tables[rest:])
		n.tables = n.tables[:rest]
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
	if s.table > 0 {
		return ref, n.addToTable(s, ref, name)
	}
	bit := nameBit(name)
	if s.seen&bit != 0 && n.isAmong(n.refs[s.first:], name) {
		return ref, false
	}
	s.seen |= bit
	n.refs = append(n.refs, ref)
	s.count++
	if s.count > fewNames {
		n.tables = append(n.tables, n.table(n.refs[s.first:], 4*fewNames))
		s.table = uint32(len(n.tables))
		n.refs = n.refs[:s.first]
	}
	return ref, true
}

// isAmong looks at each name.
func (n *nameSet) isAmong(refs []nameRef, name []byte) bool {
	for _, other := range refs {
		// Most names differ in where they end, which is cheap to see.
		if end := int(other) + len(name); end >= len(n.src) || n.src[end] == '"' {
			if n.equal(other, name) {
				return true
			}
		}
	}
	return false
}

// addToTable adds a name to the table of a scope, unless it is there already.
func (n *nameSet) addToTable(s *nameScope, ref nameRef, name []byte) (fresh bool) {
	table := n.tables[s.table-1]
	slot := n.find(table, name)
	if table[slot] != emptySlot {
		return false
	}
	table[slot] = ref
	s.count++
	if int(s.count) > len(table)/4*3 {
		n.tables[s.table-1] = n.table(table, 2*len(table))
	}
	return true
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

// table makes a table of size slots, a power of two, with names in it.
func (n *nameSet) table(refs []nameRef, size int) []nameRef {
	table := make([]nameRef, size)
	for _, ref := range refs {
		if ref != emptySlot {
			table[n.find(table, n.text(ref))] = ref
		}
	}
	return table
}
