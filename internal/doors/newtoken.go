package doors

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// NewToken makes a token of 32 random bytes, and the line with which a tokens file knows it.
// jobs and tasks are patterns, nil for all. The error names each member that is wrong.
func NewToken(name string, roles []Role, jobs, tasks []string) (token string, line []byte, err error) {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	token = "cpd_" + base64.RawURLEncoding.EncodeToString(secret)
	hash := sha256.Sum256([]byte(token))
	e := entry{Name: name, SHA256: hex.EncodeToString(hash[:]), Roles: roles, Jobs: jobs, Tasks: tasks}
	var faults []error
	e.check(func(member, detail string) { faults = append(faults, fmt.Errorf("%s: %s", member, detail)) })
	if err := errors.Join(faults...); err != nil {
		return "", nil, err
	}
	if line, err = json.Marshal(&e); err != nil {
		return "", nil, fmt.Errorf("writing the entry: %w", err)
	}
	return token, line, nil
}
