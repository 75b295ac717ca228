package doors

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Files keep what some files say, as they were when they were last valid, while others
// change them.
type Files[T any] struct {
	paths   []string
	parse   Parse[T]
	current atomic.Pointer[T]
	broken  atomic.Pointer[error] // what is wrong with what was read last
	// mu is held while the files are read, which may take as long as a file system that is away:
	// only who reads them waits for it.
	mu sync.Mutex
	// read is the sum of what was read last, valid or not; unread while a file is not there.
	read [sha256.Size]byte
}

// Parse makes something of the texts of files. old is what held before, nil at first; then,
// which may be nil, is called when next holds. Errors name what is wrong and quote nothing:
// the files may have secrets.
type Parse[T any] func(texts [][]byte, old *T) (next *T, then func(), err error)

// OpenFiles reads files for the first time; their texts come in the order of the paths.
func OpenFiles[T any](parse Parse[T], paths ...string) (*Files[T], error) {
	f := &Files[T]{paths: paths, parse: parse}
	if _, err := f.Reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Current is what the files said when they were last valid.
func (f *Files[T]) Current() *T { return f.current.Load() }

// Broken is what is wrong with the files as they were read last, nil for valid ones.
func (f *Files[T]) Broken() error {
	if broken := f.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// Reload reads the files again and tells whether they were others than before, or cannot be
// read any more. Wrong ones change nothing but Broken.
func (f *Files[T]) Reload() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	texts, sum, err := f.texts()
	if err != nil {
		before := f.Broken()
		f.read = [sha256.Size]byte{}
		f.broken.Store(&err)
		return before == nil || before.Error() != err.Error(), err
	}
	if sum == f.read {
		return false, f.Broken()
	}
	f.read = sum
	next, then, err := f.parse(texts, f.current.Load())
	if err != nil {
		f.broken.Store(&err)
		return true, err
	}
	f.broken.Store(nil)
	f.current.Store(next)
	if then != nil {
		then()
	}
	return true, nil
}

// texts reads all files, and gives a sum that tells them from others.
func (f *Files[T]) texts() (texts [][]byte, sum [sha256.Size]byte, err error) {
	var sums []byte
	for _, path := range f.paths {
		text, err := readFile(path)
		if err != nil {
			if cause, ok := errors.AsType[*os.PathError](err); ok {
				err = cause.Err
			}
			return nil, sum, fmt.Errorf("%s cannot be read: %w", path, err)
		}
		one := sha256.Sum256(text)
		texts, sums = append(texts, text), append(sums, one[:]...)
	}
	return texts, sha256.Sum256(sums), nil
}

// errNotRegular is that a path leads to something that may never end, or never begin: a pipe, a device.
var errNotRegular = errors.New("it is no regular file")

// readFile reads a regular file, or one that a symbolic link leads to. It waits for nobody to write it.
func readFile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err //nolint:wrapcheck // texts says what.
	} else if !info.Mode().IsRegular() {
		return nil, errNotRegular // opening it may do something already
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err //nolint:wrapcheck // As above.
	}
	defer func() { _ = file.Close() }() // it was only read
	if info, err := file.Stat(); err != nil {
		return nil, err //nolint:wrapcheck // As above.
	} else if !info.Mode().IsRegular() {
		return nil, errNotRegular // it was put there just now
	}
	return io.ReadAll(file) //nolint:wrapcheck // As above.
}
