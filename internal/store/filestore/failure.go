package filestore

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// isFull tells whether the disk, or the user's share of it, is full. bbolt drops the
// cause of a failed resize, so its text is looked at too.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error())
}

// storageError is the refusal for a failed operation on a file of parts/. Nothing was
// changed, since a record names a file only after it is whole.
func storageError(err error) error {
	if isFull(err) {
		return coordinator.ErrStoreFull(err)
	}
	if _, said := errors.AsType[*coordinator.Cause](err); said {
		return coordinator.ErrStoreUnavailable(err)
	}
	return coordinator.ErrStoreUnavailable(&coordinator.Cause{
		Says: "a file of parts/ in the data directory could not be opened, read or written: " + reasonOf(err), Err: err,
	})
}

// reasonOf is what the system says of a failure, without the names of files.
func reasonOf(err error) string {
	if errno, known := errors.AsType[syscall.Errno](err); known {
		return errno.Error()
	}
	return "the log has the cause"
}

// interrupted is for a call whose context has ended before anything was changed.
func interrupted(cause error) error {
	return coordinator.ErrStoreUnavailable(fmt.Errorf("the call was given up: %w", cause))
}
