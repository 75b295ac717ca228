package coordinator

import (
	"encoding/hex"
	"strings"
)

const digestPrefix = "sha256:"

// Digest is a SHA-256 as the contract writes it: "sha256:" and 64 lower-case hexadecimal digits.
func Digest(sum []byte) string { return digestPrefix + hex.EncodeToString(sum) }

// CheckDigest tells whether digest is "sha256:" and 64 lower-case hexadecimal digits,
// as an upload answers it; its error is a [ViolationError].
func CheckDigest(digest string) error {
	hexDigits, found := strings.CutPrefix(digest, digestPrefix)
	if !found || len(hexDigits) != 64 || strings.Trim(hexDigits, "0123456789abcdef") != "" {
		return ViolationError(`A digest is "sha256:" and 64 lower-case hexadecimal digits, as the upload answers it.`)
	}
	return nil
}
