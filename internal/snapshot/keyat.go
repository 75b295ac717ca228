package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// ReaderAtFunc is a function as an io.ReaderAt, for stores that read a part's
// bytes chunk by chunk.
type ReaderAtFunc func(p []byte, off int64) (int, error)

// ReadAt calls f.
func (f ReaderAtFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

const (
	// firstWindow is what keyAt reads at once, enough for most, and maxWindow
	// what the longest head of a line may take: two names of 1024 bytes, each
	// byte written as \u0000, and what stands around them.
	firstWindow = 512
	maxWindow   = 6*(coordinator.MaxKeyBytes+coordinator.MaxTaskIDBytes) + 64
)

var errNoEntry = errors.New("there is no entry")

// keyAt reads the key of the restore line that begins at offset of a part.
func keyAt(part io.ReaderAt, offset int64) (string, error) {
	for _, size := range []int{firstWindow, maxWindow} {
		window := make([]byte, size)
		n, err := part.ReadAt(window, offset)
		if err != nil && err != io.EOF {
			return "", fmt.Errorf("read back the entry at byte %d: %w", offset, err)
		}
		if key, ok := headKey(window[:n]); ok {
			return string(key), nil
		}
	}
	return "", fmt.Errorf("read back the entry at byte %d: %w", offset, errNoEntry)
}

// headKey finds the key in the front of a restore line, if all of it is there.
func headKey(line []byte) (key []byte, ok bool) {
	if rest, found := bytes.CutPrefix(line, []byte(`{"taskId":"`)); found {
		end, _, problem := scanString(rest, 0)
		if problem != "" {
			return nil, false
		}
		line = rest[end+1:]
	}
	if len(line) == 0 {
		return nil, false
	}
	rest, found := bytes.CutPrefix(line[1:], []byte(`"key":"`))
	if !found {
		return nil, false
	}
	end, _, problem := scanString(rest, 0)
	if problem != "" {
		return nil, false
	}
	return appendUnescaped(nil, rest[:end]), true
}
