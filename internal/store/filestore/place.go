package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// place is a file or folder together with what it is: another one at the same path, or none, is what
// shows that a disk was unmounted, or the data directory moved, removed or replaced, under a running server.
type place struct {
	path string
	was  fs.FileInfo
}

// errMoved is that something else is there now, or nothing.
var errMoved = errors.New("it was moved, removed or replaced while the server ran")

func newPlace(d disk, path string) (place, error) {
	info, err := d.Stat(path)
	if err != nil {
		return place{}, fmt.Errorf("look at %q: %w", path, err)
	}
	return place{path, info}, nil
}

// check is nil while the same file or folder (device and inode) is at the path. errMoved is in the error
// where another one is, or none; any other error says that this could not be seen.
func (p place) check(d disk) error {
	now, err := d.Stat(p.path)
	switch {
	case err == nil && os.SameFile(p.was, now):
		return nil
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", p.path, errMoved)
	}
	return fmt.Errorf("look at %q: %w", p.path, err)
}
