package snapshot

import "sync"

const (
	// filterWords is how many words a keyFilter of a large upload has: 4 MiB.
	filterWords = 512 << 10
	// maxRepeats is how many fingerprints a keyFilter remembers as maybe repeated. A few
	// hundred of a million keys are, and so many of about four million.
	maxRepeats = 32 << 10

	// smallFilter and smallRepeats are the same for a KeySet with room for few records.
	smallFilter  = 64
	smallRepeats = 8
)

// keyFilter tells fingerprints that were surely not there before from those that maybe
// were, at a memory access a key. It is a Bloom filter of one word a key: the word is chosen
// by the highest bits of the fingerprint, the four bits in it by the lowest.
type keyFilter struct {
	words []uint64
	shift int // of the highest bits
	// repeats are the fingerprints that maybe were there before. All that were are among
	// them unless full is set, and then there were too many to remember.
	repeats    map[uint64]struct{}
	maxRepeats int
	full       bool
}

var filterPool = sync.Pool{New: func() any { return new([filterWords]uint64) }}

// newKeyFilter returns a filter in the given words, a power of two of them and all zero.
func newKeyFilter(words []uint64, maxRepeats int) *keyFilter {
	f := &keyFilter{words: words, shift: 64, repeats: map[uint64]struct{}{}, maxRepeats: maxRepeats}
	for n := len(words); n > 1; n /= 2 {
		f.shift--
	}
	return f
}

func (f *keyFilter) add(fingerprint uint64) {
	word := &f.words[fingerprint>>f.shift]
	bits := uint64(1)<<(fingerprint&63) | 1<<(fingerprint>>6&63) | 1<<(fingerprint>>12&63) | 1<<(fingerprint>>18&63)
	if *word&bits == bits && !f.full {
		if f.repeats[fingerprint] = struct{}{}; len(f.repeats) > f.maxRepeats {
			f.full, f.repeats = true, nil
		}
	}
	*word |= bits
}
