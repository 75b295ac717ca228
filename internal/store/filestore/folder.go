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
	"sync/atomic"
)

// folder is parts/: one plain file for each large part, named by its upload. A file is
// written under its name and partial, then renamed, so that a file without that ending
// is whole.
type folder struct {
	disk  disk
	path  string
	place place

	// syncFailed is told that names may be missing on the disk although the next sync succeeds.
	syncFailed func(error)

	// failing tells that the last file could not be opened or made, see works.
	failing atomic.Bool
	// frozen keeps every file, see freeze.
	frozen atomic.Bool

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

func openFolder(d disk, path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o750); err != nil { //nolint:gosec // The operator says where data lies.
		return nil, fmt.Errorf("make the folder of parts: %w", err)
	}
	place, err := newPlace(d, path)
	if err != nil {
		return nil, err
	}
	return &folder{disk: d, path: path, place: place, writing: make(chan struct{}, 1)}, nil
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// list names all files of this store.
func (f *folder) list() ([]string, error) { return listParts(f.disk, f.path) }

// listParts names all files of a store in a folder of parts.
func listParts(d disk, path string) ([]string, error) {
	entries, err := d.List(path)
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
	file, err := f.disk.Open(f.file(name+partial), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	f.failing.Store(err != nil)
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
// sync has run too, a crash may forget the name. After an error the file is worth nothing: the next sync of
// it may succeed although bytes are missing.
func (f *folder) publish(file *os.File, name string) error {
	if err := f.disk.Sync(file); err != nil {
		return fmt.Errorf("sync the file of a part: %w", err)
	}
	if err := f.disk.Rename(f.file(name+partial), f.file(name)); err != nil {
		return fmt.Errorf("publish the file of a part: %w", err)
	}
	return nil
}

// write makes a file of content, whole and durable but for sync.
func (f *folder) write(name string, content []byte) error {
	file, err := f.create(name)
	if err != nil {
		return err
	}
	if _, err := f.disk.WriteAt(file, content, 0); err != nil {
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

// sync makes the names of the files durable.
func (f *folder) sync() error {
	failed, err := syncFolder(f.disk, f.path)
	if failed {
		f.syncFailed(err)
	}
	return err
}

// syncFolder makes the names in a folder durable. failed tells that the sync itself has failed.
func syncFolder(d disk, path string) (failed bool, err error) {
	dir, err := d.Open(path, os.O_RDONLY)
	if err != nil {
		return false, fmt.Errorf("open a folder to sync it: %w", err)
	}
	if err := d.Sync(dir); err != nil {
		return true, errors.Join(fmt.Errorf("sync folder %q: %w", path, err), dir.Close())
	}
	if err := dir.Close(); err != nil {
		return false, fmt.Errorf("close folder %q: %w", path, err)
	}
	return false, nil
}

// freeze keeps all files from now on. It is for a commit of which nobody knows whether the disk has it:
// what the records of the disk name is found out at the next start, and a file that was removed until then
// would be a completed checkpoint that is damaged.
func (f *folder) freeze() { f.frozen.Store(true) }

// discard gives up files; unlink removes them.
func (f *folder) discard(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.discarded = append(f.discarded, names...)
}

// unlink removes at most limit of the discarded files. Those that it fails to remove
// stay discarded.
func (f *folder) unlink(limit int) error {
	if f.frozen.Load() {
		return nil
	}
	f.mu.Lock()
	n := min(limit, len(f.discarded))
	if n == 0 {
		f.mu.Unlock()
		return nil
	}
	if err := f.place.check(f.disk); err != nil {
		f.mu.Unlock()
		return err // the names may be those of another server's files there
	}
	names := slices.Clone(f.discarded[:n])
	f.discarded = slices.Delete(f.discarded, 0, n)
	f.mu.Unlock()

	var failed []error
	for _, name := range names {
		if err := f.disk.Remove(f.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("remove the file of a part: %w", err))
			f.discard(name)
		}
	}
	return errors.Join(failed...)
}

// works is nil while files can be made in the folder. After a failure it tries whether that is over.
func (f *folder) works() error {
	if err := f.disk.Writable(f.path); err != nil || !f.failing.Load() {
		return err
	}
	name := newName()
	file, err := f.create(name)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), f.disk.Remove(f.file(name+partial)))
}
