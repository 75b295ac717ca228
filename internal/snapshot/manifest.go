package snapshot

import (
	"crypto/sha256"
	"hash"
	"strconv"
	"strings"
)

// AppendManifestLine appends one line of a manifest,
// "<sha256 hex> <bytes> <entries> <taskId>\n". taskID is Shared for the shared
// state.
func AppendManifestLine(dst []byte, taskID string, part Part) []byte {
	dst = append(dst, strings.TrimPrefix(part.Digest, digestPrefix)...)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, part.Bytes, 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, part.Entries, 10)
	dst = append(dst, ' ')
	dst = append(dst, taskID...)
	return append(dst, '\n')
}

// Manifest computes the digest of a snapshot, which is the SHA-256 of its
// manifest, without keeping the text: a manifest may have 100 001 lines of a
// kilobyte. The zero value is not usable; call NewManifest.
type Manifest struct {
	sum   hash.Hash
	line  []byte
	total Part
}

// NewManifest returns an empty manifest.
func NewManifest() *Manifest {
	return &Manifest{sum: sha256.New()}
}

// Add appends the line of one part. Callers add in restore order: the shared
// state as Shared, then the tasks by the bytes of their ids. The returned line
// is valid until the next call.
func (m *Manifest) Add(taskID string, part Part) []byte {
	m.line = AppendManifestLine(m.line[:0], taskID, part)
	m.sum.Write(m.line)
	m.total.Entries += part.Entries
	m.total.Bytes += part.Bytes
	return m.line
}

// Total sums up the parts added so far; its Digest is the digest of the
// snapshot they make.
func (m *Manifest) Total() Part {
	total := m.total
	total.Digest = digestOf(m.sum)
	return total
}
