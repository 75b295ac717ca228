package snapshot

// NewSmallKeySet returns a KeySet that spills from maxRecords keys on.
func NewSmallKeySet(tempDir string, maxRecords int) *KeySet {
	return newKeySet(tempDir, maxRecords)
}

// AddFingerprint is Add with a fingerprint of the caller's choice.
func (k *KeySet) AddFingerprint(fingerprint uint64, offset int64, line int) error {
	return k.add(keyRecord{fingerprint: fingerprint, offset: offset, line: int64(line)})
}

// Runs is how many runs were spilled.
func (k *KeySet) Runs() int { return len(k.spill.runs) }

// QuickValue scans the value at the front of text the quick way.
func QuickValue(text []byte) (end int, spaced, ok bool) {
	var q quickScanner
	return q.value(text, 0)
}

// CarefulValue scans the value at the front of text as the scanner does.
func CarefulValue(text []byte) (end int, spaced bool, err error) {
	s := scanner{maxDepth: MaxDepth}
	end, err = s.value(text, 0)
	return end, s.lastSpace >= 0, err
}

// MostLarge is how many sets may be large at a time.
const MostLarge = mostLarge
