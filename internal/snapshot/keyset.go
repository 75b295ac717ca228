package snapshot

import (
	"cmp"
	"errors"
	"hash/maphash"
	"io"
	"slices"
	"sync"
)

const (
	// keyMemory is how much a KeySet keeps in memory before it spills, in bytes.
	keyMemory = 4 << 20
	// mostRecords is how many keys fit into that, firstRecords how many a KeySet has room
	// for at first, and largeRecords from how many on it takes all the room.
	mostRecords  = keyMemory / recordSize
	firstRecords = 64
	largeRecords = 16 << 10
	// maxSuspects is how many pairs of equal fingerprints are gathered before
	// their keys are compared.
	maxSuspects = 1024
	// mostLarge is how many KeySets may take all their memory at a time, and together 64 MiB;
	// the others keep largeRecords and no filter, and sort what they spilled.
	mostLarge = 8
)

// large has a token for each KeySet that has taken all its memory.
var large = make(chan struct{}, mostLarge)

// KeySet finds keys that occur twice in one part, however many there are, in
// about 8 MiB of memory, or half a megabyte while many others take so much. It keeps a 64-bit fingerprint of each key and where
// its line is; what does not fit in memory is spilled to one temporary file of
// 24 bytes a key. A few keys are sorted by their fingerprints to find equal ones.
// Many go through a filter first, which leaves few to sort, unless there are so many,
// or so many repeat, that it cannot tell: then all are. Equal fingerprints only
// raise a suspicion: Finish reads the two lines back and compares the keys
// themselves.
type KeySet struct {
	seed       maphash.Seed
	maxRecords int
	records    []keyRecord
	room       *[mostRecords]keyRecord // where records lies when it is large, else nil
	modest     bool                    // there was no token for it to be large
	// filter has the keys that were spilled, and at the end all, unless they are few.
	filter *keyFilter
	bits   *[filterWords]uint64 // where the filter's words lie when it is large, else nil
	spill  spill
	err    error
}

var errFinishedKeys = errors.New("the keys are already finished")

// NewKeySet returns an empty set that spills to a file in tempDir, the
// system's folder for temporary files where that is empty. The file has no name
// from the moment it is there where the system allows it. Close the set.
func NewKeySet(tempDir string) *KeySet {
	return newKeySet(tempDir, mostRecords)
}

func newKeySet(tempDir string, maxRecords int) *KeySet {
	return &KeySet{seed: maphash.MakeSeed(), maxRecords: maxRecords, spill: spill{dir: tempDir}}
}

// Add adds the key of the entry whose rendered line begins at offset of the
// part, and came on the given line of the upload. The key is not kept. The
// error is that of the temporary file; the set is of no use any more then.
func (k *KeySet) Add(key []byte, offset int64, line int) error {
	return k.add(keyRecord{fingerprint: maphash.Bytes(k.seed, key), offset: offset, line: int64(line)})
}

func (k *KeySet) add(record keyRecord) error {
	if k.err != nil {
		return k.err
	}
	if len(k.records) == largeRecords && k.room == nil && k.maxRecords == mostRecords {
		k.enlarge()
	}
	if len(k.records) == k.maxRecords {
		k.filterRecords()
		if k.err = k.spill.write(k.records); k.err != nil {
			return k.err
		}
		k.records = k.records[:0]
	}
	if len(k.records) == cap(k.records) {
		k.grow()
	}
	k.records = append(k.records, record)
	return nil
}

// filterRecords adds the records to the filter. All at a time, since the processor then
// waits for the memory of many of them at once: one by one as they come takes several times
// as long.
func (k *KeySet) filterRecords() {
	if k.modest {
		return
	}
	if k.filter == nil {
		k.startFilter()
	}
	for i := range k.records {
		k.filter.add(k.records[i].fingerprint)
	}
}

func (k *KeySet) startFilter() {
	if k.maxRecords == mostRecords {
		k.bits = filterPool.Get().(*[filterWords]uint64) //nolint:forcetypeassert // The pool holds nothing else.
		clear(k.bits[:])
		k.filter = newKeyFilter(k.bits[:], maxRepeats)
	} else {
		k.filter = newKeyFilter(make([]uint64, smallFilter), smallRepeats)
	}
}

// grow makes room for more records. append would do so in small steps, all of them garbage.
func (k *KeySet) grow() {
	size := min(max(firstRecords, 2*len(k.records)), k.maxRecords)
	if k.maxRecords == mostRecords {
		size = min(size, largeRecords)
	}
	k.records = append(make([]keyRecord, 0, size), k.records...)
}

// enlarge takes all the memory that a KeySet may have, unless too many others have theirs. It
// is kept for the next, since many large uploads in a row would be nothing but garbage.
func (k *KeySet) enlarge() {
	select {
	case large <- struct{}{}:
		k.room = rooms.Get().(*[mostRecords]keyRecord) //nolint:forcetypeassert // The pool holds nothing else.
		k.records = append(k.room[:0], k.records...)
	default:
		k.modest, k.maxRecords = true, largeRecords
	}
}

var rooms = sync.Pool{New: func() any { return new([mostRecords]keyRecord) }}

// Finish reports whether a key was added twice, as a *DuplicateKeyError. It
// reads suspected lines from part, the restore bytes whose offsets Add was
// given, which it does not do at all in an ordinary upload. Any other error is
// that of the temporary file or wraps part's. With up to 1024 repeated keys the
// one that repeats first is reported, otherwise any. The set is of no use any
// more afterwards, except to be closed.
func (k *KeySet) Finish(part io.ReaderAt) error {
	if k.err != nil {
		return k.err
	}
	k.err = errFinishedKeys
	next, err := k.sorted()
	if err != nil {
		return err
	}

	var suspects []suspicion
	var equal []keyRecord
	for {
		record, ok, err := next()
		if err != nil {
			return err
		}
		if !ok {
			return confirm(suspects, part)
		}
		if len(equal) > 0 && equal[0].fingerprint != record.fingerprint {
			equal = equal[:0]
		}
		for _, first := range equal {
			suspects = append(suspects, suspicion{first, record})
		}
		equal = append(equal, record)
		if len(suspects) >= maxSuspects {
			if err := confirm(suspects, part); err != nil {
				return err
			}
			suspects = suspects[:0]
		}
	}
}

// sorted returns a function that gives the records in order, then false; of records whose
// fingerprint does not repeat it may leave out any.
func (k *KeySet) sorted() (next func() (keyRecord, bool, error), err error) {
	if len(k.spill.runs) > 0 || len(k.records) > largeRecords {
		k.filterRecords()
	}
	if k.filter != nil && !k.filter.full {
		gathered, all, err := k.gather()
		if err != nil {
			return nil, err
		}
		if all {
			sortRecords(gathered, topByte)
			return inTurn(gathered), nil
		}
	}
	sortRecords(k.records, topByte)
	if len(k.spill.runs) == 0 {
		return inTurn(k.records), nil
	}
	if len(k.records) > 0 {
		if err := k.spill.write(k.records); err != nil {
			return nil, err
		}
	}
	if err := k.spill.sort(k.records[:0]); err != nil {
		return nil, err
	}
	return k.spill.merge(k.maxRecords)
}

// gather collects the records whose fingerprints maybe repeat. all is false where they are
// too many.
func (k *KeySet) gather() (gathered []keyRecord, all bool, err error) {
	repeats := k.filter.repeats
	if len(repeats) == 0 {
		return nil, true, nil
	}
	// Most records are told by a bit of this not to be wanted, and need no look into the map.
	var wanted [1 << 10]uint64
	for fingerprint := range repeats {
		wanted[fingerprint>>54] |= 1 << (fingerprint >> 48 & 63)
	}
	take := func(r keyRecord) bool {
		if wanted[r.fingerprint>>54]&(1<<(r.fingerprint>>48&63)) != 0 {
			if _, ok := repeats[r.fingerprint]; ok {
				gathered = append(gathered, r)
			}
		}
		return len(gathered) <= 2*k.filter.maxRepeats // a repeated fingerprint has two records at least
	}
	if all, err = k.spill.each(0, k.spill.size, take); err != nil || !all {
		return nil, false, err
	}
	for _, r := range k.records {
		if !take(r) {
			return nil, false, nil
		}
	}
	return gathered, true, nil
}

// inTurn returns a function that gives the records one by one, then false.
func inTurn(records []keyRecord) func() (keyRecord, bool, error) {
	return func() (record keyRecord, ok bool, err error) {
		if len(records) == 0 {
			return keyRecord{}, false, nil
		}
		record, records = records[0], records[1:]
		return record, true, nil
	}
}

// Close removes the temporary file.
func (k *KeySet) Close() error {
	k.records = nil
	if k.room != nil {
		rooms.Put(k.room)
		k.room = nil
		<-large
	}
	k.filter = nil
	if k.bits != nil {
		filterPool.Put(k.bits)
		k.bits = nil
	}
	return k.spill.close()
}

// suspicion is two places whose keys have the same fingerprint.
type suspicion struct{ first, second keyRecord }

// confirm compares the keys of suspicions in the order of the upload.
func confirm(suspects []suspicion, part io.ReaderAt) error {
	slices.SortFunc(suspects, func(a, b suspicion) int {
		return cmp.Or(cmp.Compare(a.second.offset, b.second.offset), cmp.Compare(a.first.offset, b.first.offset))
	})
	for _, s := range suspects {
		first, err := keyAt(part, s.first.offset)
		if err != nil {
			return err
		}
		second, err := keyAt(part, s.second.offset)
		if err != nil {
			return err
		}
		if first == second {
			return &DuplicateKeyError{Key: first, Line: int(s.second.line), FirstLine: int(s.first.line)}
		}
	}
	return nil
}
