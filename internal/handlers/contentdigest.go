package handlers

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// sha256Of finds the sha-256 digest in a Content-Digest header (RFC 9530); nil is none.
// Other algorithms are ignored, as the RFC allows.
func sha256Of(header *string) ([]byte, error) {
	if header == nil {
		return nil, nil
	}
	for member := range strings.SplitSeq(*header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(member), "=")
		if name != "sha-256" {
			continue
		}
		value, _, _ = strings.Cut(value, ";")
		digest, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
		if err != nil || len(digest) != sha256.Size || len(value) < 2 || value[0] != ':' || value[len(value)-1] != ':' {
			return nil, invalidParameter("Content-Digest", "A sha-256 digest is written sha-256=:<base64 of its 32 bytes>:.")
		}
		return digest, nil
	}
	return nil, nil
}

// checkContentDigest compares what arrived with what was announced.
func checkContentDigest(announced, arrived []byte) error {
	if announced == nil || bytes.Equal(announced, arrived) {
		return nil
	}
	return &coordinator.Error{
		Code:   coordinator.CodeInvalidParameter,
		Detail: "The body is not what Content-Digest announced; nothing was stored. Send the upload again.",
		Fields: []coordinator.FieldError{{
			Parameter: "Content-Digest",
			Detail:    "The body that arrived has sha-256=:" + base64.StdEncoding.EncodeToString(arrived) + ":.",
		}},
	}
}
