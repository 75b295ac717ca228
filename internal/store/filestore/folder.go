package filestore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
)

// folder is parts/: one plain file for each large part, named by its upload. A file is
// written under its name and partial, then renamed, so that a file without that ending
// is whole.
type folder struct {
	path string

	// writing lets one large upload at a time send what it wrote to the disk: the committer's
	// few bytes wait behind everything that is on its way there.
	writing chan struct{}

	mu        sync.Mutex
	discarded []string // files that nobody names any more
}

const (
	partial = ".partial"

	// unlinkNow is how many files the call removes that gave them up, and unlinkSweep how
	// many each sweep removes of the rest: removing a file of gigabytes takes a file
	// system tenths of a second, and expiry must not wait for a hundred thousand.
	unlinkNow   = 16
	unlinkSweep = 1000
	unlinkAll   = math.MaxInt
)

// ours matches the names that this store makes. Anything else in the folder is somebody's
// and left alone.
var ours = regexp.MustCompile(`^[0-9a-f]{32}(\.partial)?$`)

// newName makes the name of an upload and its file.
func newName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}

func openFolder(path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o750); err != nil { //nolint:gosec // The operator says where data lies.
		return nil, fmt.Errorf("make the folder of parts: %w", err)
	}
	return &folder{path: path, writing: make(chan struct{}, 1)}, nil
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// list names all files of this store.
func (f *folder) list() ([]string, error) { return listParts(f.path) }

// listParts names all files of a store in a folder of parts.
func listParts(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("list the folder of parts: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if ours.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// create makes the file of an upload.
func (f *folder) create(name string) (*os.File, error) {
	file, err := os.OpenFile(f.file(name+partial), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // As in openFolder.
	if err != nil {
		return nil, fmt.Errorf("make the file of a part: %w", err)
	}
	return file, nil
}

// flushEvery is how many bytes of a file may gather before they go to the disk. The system
// would let gigabytes gather, and then no commit would get through for a while: each of its
// syncs waits for what is on its way.
const flushEvery = 1 << 20

// flush sends the bytes of a file from start to end to the disk, and waits until they are
// on their way. It makes nothing durable, and so its errors are for publish to find.
func (f *folder) flush(file *os.File, start, end int64) {
	f.writing <- struct{}{}
	defer func() { <-f.writing }()
	writeBack(file, start, end)
}

// publish makes a written file durable under its final name. The file stays open. Until
// syncFolder has run too, a crash may forget the name.
func (f *folder) publish(file *os.File, name string) error {
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync the file of a part: %w", err)
	}
	if err := os.Rename(f.file(name+partial), f.file(name)); err != nil { //nolint:gosec // As in openFolder.
		return fmt.Errorf("publish the file of a part: %w", err)
	}
	return nil
}

// write makes a file of content, whole and durable but for syncFolder.
func (f *folder) write(name string, content []byte) error {
	file, err := f.create(name)
	if err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return errors.Join(fmt.Errorf("write the file of a part: %w", err), file.Close())
	}
	if err := f.publish(file, name); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("close the file of a part: %w", err)
	}
	return nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	dir, err := os.Open(path) //nolint:gosec // As in openFolder.
	if err != nil {
		return fmt.Errorf("open a folder to sync it: %w", err)
	}
	if err := dir.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync folder %q: %w", path, err), dir.Close())
	}
	if err := dir.Close(); err != nil {
		return fmt.Errorf("close folder %q: %w", path, err)
	}
	return nil
}

// discard gives up files; unlink removes them.
func (f *folder) discard(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.discarded = append(f.discarded, names...)
}

// unlink removes at most limit of the discarded files. Those that it fails to remove
// stay discarded.
func (f *folder) unlink(limit int) error {
	f.mu.Lock()
	n := min(limit, len(f.discarded))
	names := slices.Clone(f.discarded[:n])
	f.discarded = slices.Delete(f.discarded, 0, n)
	f.mu.Unlock()

	var failed []error
	for _, name := range names {
		if err := os.Remove(f.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) { //nolint:gosec // As in openFolder.
			failed = append(failed, fmt.Errorf("remove the file of a part: %w", err))
			f.discard(name)
		}
	}
	return errors.Join(failed...)
}
