package snapshot

import (
	"strconv"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// keyProblem says why a key that is known to be UTF-8 is none, "" where it is one. It is
// coordinator.CheckKey for bytes, without a sentence of its own end.
func keyProblem(key []byte) string {
	switch {
	case len(key) == 0:
		return "a key must not be empty"
	case len(key) > coordinator.MaxKeyBytes:
		return "a key must not be longer than " + strconv.Itoa(coordinator.MaxKeyBytes) + " bytes"
	}
	return ""
}
