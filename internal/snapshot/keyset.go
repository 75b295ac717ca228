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
)

// KeySet finds keys that occur twice in one part, however many there are, in
// about 4 MiB of memory. It keeps a 64-bit fingerprint of each key and where
// its line is; what does not fit in memory is sorted and spilled to one
// temporary file of 24 bytes a key. Equal fingerprints only raise a suspicion:
// Finish reads the two lines back and compares the keys themselves.
type KeySet struct {
	seed       maphash.Seed
	maxRecords int
	records    []keyRecord
	room       *[mostRecords]keyRecord // where records lies when it is large, else nil
	spill      spill
	err        error
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
	if len(k.records) == k.maxRecords {
		sortRecords(k.records, topByte)
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

// grow makes room for more records. append would do so in small steps, all of them garbage;
// and the room of a large upload is kept for the next, since many of them in a row would
// otherwise be nothing but garbage.
func (k *KeySet) grow() {
	size := min(max(firstRecords, 2*len(k.records)), k.maxRecords)
	if size <= largeRecords || k.maxRecords != mostRecords {
		k.records = append(make([]keyRecord, 0, size), k.records...)
		return
	}
	k.room = rooms.Get().(*[mostRecords]keyRecord) //nolint:forcetypeassert // The pool holds nothing else.
	k.records = append(k.room[:0], k.records...)
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
	sortRecords(k.records, topByte)
	next, err := k.spill.merge(k.records, k.maxRecords)
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

// Close removes the temporary file.
func (k *KeySet) Close() error {
	k.records = nil
	if k.room != nil {
		rooms.Put(k.room)
		k.room = nil
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
