package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	bolt "go.etcd.io/bbolt"
)

// disk is all that the store asks of the file system while it runs, in one place, so that tests can have
// any of it fail: a limit of open files that is used up, a disk with bad blocks, a sync that fails.
type disk interface {
	// Open opens a file, or a folder, for what flag says.
	Open(path string, flag int) (*os.File, error)
	// Stat describes what is at path. The error is fs.ErrNotExist only where nothing is there.
	Stat(path string) (fs.FileInfo, error)
	// Writable is nil where files can be made in a folder, as far as its rights tell.
	Writable(folder string) error
	// List names what is in a folder.
	List(path string) ([]fs.DirEntry, error)
	Rename(from, to string) error
	Remove(path string) error
	ReadAt(file *os.File, p []byte, off int64) (int, error)
	WriteAt(file *os.File, p []byte, off int64) (int, error)
	Sync(file *os.File) error
	// Commit commits a transaction of the database.
	Commit(tx *bolt.Tx) error
}

// realDisk is the file system itself. Its errors say what they are about; the store wraps them.
type realDisk struct{}

var _ disk = realDisk{}

func (realDisk) Open(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, flag, 0o600) //nolint:wrapcheck // as said above
}

func (realDisk) Stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, linked := os.Lstat(path); linked == nil {
			return nil, fmt.Errorf("%s is a link that leads nowhere now", path)
		}
	}
	return info, err //nolint:wrapcheck // as said above
}

func (realDisk) List(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) } //nolint:wrapcheck // as said above

//nolint:gosec // as in Open
func (realDisk) Rename(from, to string) error { return os.Rename(from, to) } //nolint:wrapcheck // as said above

func (realDisk) Remove(path string) error { return os.Remove(path) } //nolint:wrapcheck // as said above

func (realDisk) ReadAt(file *os.File, p []byte, off int64) (int, error) { return file.ReadAt(p, off) } //nolint:wrapcheck // as said above

func (realDisk) WriteAt(file *os.File, p []byte, off int64) (int, error) {
	return file.WriteAt(p, off) //nolint:wrapcheck // as said above
}

func (realDisk) Sync(file *os.File) error { return file.Sync() } //nolint:wrapcheck // as said above

func (realDisk) Commit(tx *bolt.Tx) error { return tx.Commit() } //nolint:wrapcheck // as said above

// onDisk reads a file through the disk.
type onDisk struct {
	disk disk
	file *os.File
}

func (f onDisk) ReadAt(p []byte, off int64) (int, error) { return f.disk.ReadAt(f.file, p, off) }
