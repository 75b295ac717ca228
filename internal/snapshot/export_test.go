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
