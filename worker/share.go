package worker

import "hash/fnv"

// Share is a worker's share of what a fleet of another size has handed in. Its zero value is no
// sharing: every task comes back to its own part.
type Share struct {
	// Index is this worker's place in the fleet, 0 to Of-1.
	Index int
	// Of is how many workers the fleet has now.
	Of int
	// Group names what must stay together: entries whose keys have the same group come back to
	// the same worker. A key is a group of its own when nil.
	Group func(key string) string
}

// Owns tells whether a group belongs to this worker: the 64-bit FNV-1a hash of its bytes modulo
// Of is Index. Workers in any language can follow that. Without a fleet (Of is 0) everything
// belongs to everybody.
func (s Share) Owns(group string) bool {
	if s.Of == 0 {
		return true
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(group))
	return hash.Sum64()%uint64(s.Of) == uint64(s.Index)
}
