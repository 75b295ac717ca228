package coordinator

import (
	"crypto/sha256"
	"strconv"
	"strings"
)

// ManifestPart is one part of a snapshot in restore order. The shared state comes first
// with Shared set, also when it is empty.
type ManifestPart struct {
	TaskID string
	Shared bool
	PartInfo
}

// AppendManifest appends one line a part, `<sha256 hex> <bytes> <entries> <taskId>`,
// with "-" for the shared state. Task ids have no control characters, so a line is a line.
func AppendManifest(dst []byte, parts []ManifestPart) []byte {
	for _, part := range parts {
		dst = append(dst, strings.TrimPrefix(part.Digest, digestPrefix)...)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, part.Bytes, 10)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, part.Entries, 10)
		dst = append(dst, ' ')
		if part.Shared {
			dst = append(dst, '-')
		} else {
			dst = append(dst, part.TaskID...)
		}
		dst = append(dst, '\n')
	}
	return dst
}

// ManifestDigest is the SHA-256 of the manifest of parts, as "sha256:<hex>": the digest
// of the snapshot, which the digests of all its parts go into.
func ManifestDigest(parts []ManifestPart) string {
	sum := sha256.New()
	var line []byte
	for i := range parts {
		line = AppendManifest(line[:0], parts[i:i+1])
		sum.Write(line)
	}
	return Digest(sum.Sum(nil))
}
