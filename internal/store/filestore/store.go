package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Options configure a [Store]. The zero value is a production store.
type Options struct {
	// Observer is told of checkpoints that end or go. Defaults to coordinator.Silence.
	Observer coordinator.Observer
	// Clock gives the time in Unix milliseconds and is the store's only clock. Defaults
	// to the process clock.
	Clock func() int64
	// LockTimeout is how long Open waits for another process to leave the directory, as
	// one that is just shutting down does. Defaults to one second.
	LockTimeout time.Duration

	// disk is for tests that have the file system fail. Defaults to the real one.
	disk disk
}

func (o Options) orDefaults() Options {
	if o.Observer == nil {
		o.Observer = coordinator.Silence{}
	}
	if o.Clock == nil {
		o.Clock = func() int64 { return time.Now().UnixMilli() }
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = time.Second
	}
	if o.disk == nil {
		o.disk = realDisk{}
	}
	return o
}

// Store is a [coordinator.Store] in one directory. It is safe for concurrent use.
type Store struct {
	db        *bolt.DB
	disk      disk
	guard     *guard
	committer *committer
	folder    *folder
	reserve   *reserve
	observer  coordinator.Observer
	clock     func() int64
	time      *timeline
	listeners listeners

	unreadable unreadable
	// copied tells that this start passed over what a copy may be behind.
	copied error
	// summed has the shared state, by sumOf, that was found as recorded.
	summed      sync.Map
	summedCount atomic.Int64

	uploadsMu sync.Mutex
	uploads   map[string]*upload // running ones by their id
}

var _ coordinator.Store = (*Store)(nil)

// schemaVersion is the version of the layout in buckets.go. A directory of a newer one
// is refused; records of a newer one do not exist.
const schemaVersion = 1

// Open opens the store in dir and makes the directory where there is none. The error
// says what to do; most often another process has the directory.
func Open(dir string, options Options) (*Store, error) {
	options = options.orDefaults()
	if err := os.MkdirAll(dir, 0o750); err != nil { //nolint:gosec // The operator says where data lies.
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	if isNew(filepath.Join(dir, "meta.db")) { // looked at before there is one, so that a refusal leaves all as it was
		if err := refuseOrphans(options.disk, dir); err != nil {
			return nil, err
		}
	} else if err := checkDatabase(dir, options); err != nil {
		return nil, err
	}
	return openChecked(dir, options)
}

// openChecked opens a database whose pages are in order. Should it be damaged in a way that was not
// looked for, or its disk fail, that is an error too and no panic; what was opened until then
// stays open, for it is not known in which state.
func openChecked(dir string, options Options) (s *Store, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // the database is mapped into memory
	defer func() {
		if cause := recover(); cause != nil {
			s, err = nil, damagedRecords(dir, fmt.Errorf("%v", cause))
		}
	}()
	db, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, &bolt.Options{
		Timeout: options.LockTimeout,
		// The list of free pages is rebuilt at start, which saves writing it with every
		// commit; a map of it stays fast where deletions have left many holes.
		NoFreelistSync: true,
		FreelistType:   bolt.FreelistMapType,
		NoStatistics:   true,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, inUse(dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", filepath.Join(dir, "meta.db"), err)
	}
	s = &Store{
		db: db, disk: options.disk, observer: options.Observer, clock: options.Clock, uploads: map[string]*upload{},
		reserve: &reserve{disk: options.disk, path: filepath.Join(dir, "reserve")}, time: &timeline{clock: options.Clock},
		listeners: listeners{wakes: map[*listener]struct{}{}},
	}
	s.unreadable = unreadable{all: map[sick]error{}, tell: func(err error) { s.observer.BackgroundFailed("unreadable_record", err) }}
	if err := s.prepare(dir); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.reserve.take(s.clock())
	s.committer = &committer{
		db: db, disk: s.disk, guard: s.guard, time: s.time, reserve: s.reserve, breaks: s.folder.freeze, unreadable: s.unreadable.note,
	}
	s.committer.start()
	s.folder.syncFailed = func(err error) {
		s.committer.stop(&coordinator.Cause{Says: "writing to the data directory has failed: " + reasonOf(err), Restart: true, Err: err})
	}
	return s, nil
}

// prepare brings the directory into the state that everything else relies on. It writes
// only what is missing, so that a store opens on a full disk.
func (s *Store) prepare(dir string) error {
	found, err := s.layout(dir)
	if err != nil {
		return err
	}
	if found != schemaVersion {
		if found >= 0 {
			return fmt.Errorf("the data directory %q has layout %d and this server knows %d: use the server that wrote it, or a newer one", dir, found, schemaVersion)
		}
		// A crash may have come between making meta.db and laying it out.
		if err := refuseOrphans(s.disk, dir); err != nil {
			return err
		}
		if err := s.layOut(); err != nil {
			return err
		}
	}
	if err := s.checkParts(dir); err != nil {
		return err
	}
	if s.folder, err = openFolder(s.disk, filepath.Join(dir, "parts")); err != nil {
		return err
	}
	if err := s.watch(dir); err != nil {
		return err
	}
	if err := s.settleOrigin(dir); err != nil {
		return err
	}
	if err := s.sweepOrphans(); err != nil {
		return err
	}
	// A crash must not take meta.db and parts/ out of the directory again.
	_, err = syncFolder(s.disk, dir)
	return err
}

// watch notes what is in the directory now, so that another one in its place is noticed.
func (s *Store) watch(dir string) error {
	s.guard = &guard{disk: s.disk, places: []place{s.folder.place}}
	for _, path := range []string{dir, filepath.Join(dir, "meta.db")} {
		p, err := newPlace(s.disk, path)
		if err != nil {
			return err
		}
		s.guard.places = append(s.guard.places, p)
	}
	return nil
}

// isNew tells whether there is no database yet, or only its name.
func isNew(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // The operator says where data lies.
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// refuseOrphans is an error if a directory without records has files of parts: its meta.db was
// lost, and to go on would be to sweep all of them away.
func refuseOrphans(d disk, dir string) error {
	names, err := listParts(d, filepath.Join(dir, "parts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("the data directory %q has files of checkpoints in parts/ (%d of them) and no records in meta.db, which is missing or empty: restore meta.db from a backup, or move parts/ away to begin with nothing; nothing was deleted", dir, len(names))
}

// layout reads the version of the database's layout, negative for a new one.
func (s *Store) layout(dir string) (version int64, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if first, _ := tx.Cursor().First(); first == nil {
			version = -1
			return nil
		}
		for _, name := range [][]byte{bucketMeta, bucketFiles, bucketJobs} {
			if tx.Bucket(name) == nil {
				return damagedRecords(dir, fmt.Errorf("there is no bucket %s", name))
			}
		}
		if version = idOf(get(tx.Bucket(bucketMeta), keySchema)); version < 0 {
			return damagedRecords(dir, errors.New("there is no version of its layout"))
		}
		// Files that it does not name are removed, so its names must be names.
		for name := range ascend(tx.Bucket(bucketFiles), nil) {
			if !ours.Match(name) {
				return damagedRecords(dir, errors.New("it names a file that is none"))
			}
		}
		return nil
	})
	return version, err
}

// layOut writes the layout of a new database.
func (s *Store) layOut() error {
	err := s.db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketFiles, bucketJobs} {
			if _, err := tx.CreateBucket(name); err != nil {
				return fmt.Errorf("make bucket %s: %w", name, err)
			}
		}
		return tx.Bucket(bucketMeta).Put(keySchema, idKey(schemaVersion))
	})
	if err != nil {
		return fmt.Errorf("lay out meta.db: %w", err)
	}
	return nil
}

// sweepOrphans removes files that no record names: of uploads that a crash cut short, and
// of checkpoints that a crash removed before their files.
func (s *Store) sweepOrphans() error {
	names, err := s.folder.list()
	if err != nil {
		return err
	}
	err = s.db.View(func(tx *bolt.Tx) error {
		named := tx.Bucket(bucketFiles)
		names = slices.DeleteFunc(names, func(name string) bool { return named.Get([]byte(name)) != nil })
		whole := func(name string) bool { return !strings.HasSuffix(name, partial) }
		if slices.ContainsFunc(names, whole) { // which a crash leaves, or the index has lost
			inRecords := filesOfParts(tx)
			names = slices.DeleteFunc(names, func(name string) bool { return inRecords[name] })
		}
		s.folder.discard(names...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	return s.folder.unlink(len(names))
}

// filesOfParts gives all files that the records of parts name.
func filesOfParts(tx *bolt.Tx) map[string]bool {
	files := map[string]bool{}
	for job := range ascend(tx.Bucket(bucketJobs), nil) {
		checkpoints := child(child(tx.Bucket(bucketJobs), job), bucketCheckpoints)
		for id := range ascend(checkpoints, nil) {
			for _, text := range ascend(child(child(checkpoints, id), bucketParts), nil) {
				files[fileOf(text)] = true
			}
		}
	}
	return files
}

// Close waits for the running changes and closes the directory. Later calls are refused
// with CodeStoreUnavailable.
func (s *Store) Close() error {
	s.committer.close()
	s.endUploads()
	return errors.Join(s.folder.unlink(unlinkAll), s.db.Close())
}

// mutate applies a change, durable when it returns, and then does what had to wait for
// that: waking who listens, reports, and removing files. A refused change may have
// written as well: the expiry of what it refused for.
func mutate[T any](ctx context.Context, s *Store, apply func(*step) (T, error)) (T, error) {
	return commit(ctx, s, false, apply)
}

// free is mutate for what must work on a full disk too: changes that free room, and
// leases, since reading goes on.
func free[T any](ctx context.Context, s *Store, apply func(*step) (T, error)) (T, error) {
	return commit(ctx, s, true, apply)
}

func commit[T any](ctx context.Context, s *Store, frees bool, apply func(*step) (T, error)) (T, error) {
	var result T
	done, err := s.committer.do(ctx, frees, func(st *step) error {
		var err error
		result, err = apply(st)
		st.finish()
		return err
	})
	if done != nil {
		for j := range done.logged {
			s.listeners.wake(j.name)
		}
		for _, report := range done.reports {
			report(s.observer)
		}
		s.folder.discard(done.dropped...)
		// Failing to remove a file fails nobody; the next sweep tries again and says so.
		_ = s.folder.unlink(unlinkNow)
	}
	if err != nil {
		var none T
		return none, err
	}
	return result, nil
}

// read runs f over what is stored now. f must not keep what it was handed, nor wait for
// anything: an open transaction holds up the committer where the file grows.
func read[T any](ctx context.Context, s *Store, f func(*step) (T, error)) (T, error) {
	var result T
	if cause := context.Cause(ctx); cause != nil {
		return result, interrupted(cause)
	}
	if err := s.guard.check(); err != nil {
		return result, coordinator.ErrStoreUnavailable(err)
	}
	now := s.time.read()
	err := s.db.View(func(tx *bolt.Tx) (err error) {
		defer func() {
			// A record of a newer server, say: it must not end those who read in the background.
			if cause := recover(); cause != nil {
				err = fmt.Errorf("a read panicked: %v\n%s", cause, debug.Stack())
			}
		}()
		result, err = f(&step{ledger: newLedger(tx, s.unreadable.note), now: now})
		return err
	})
	if err == nil {
		return result, nil
	}
	var none T
	if _, refusal := errors.AsType[*coordinator.Error](err); refusal {
		return none, err
	}
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) || errors.Is(err, fs.ErrClosed) {
		return none, coordinator.ErrStoreUnavailable(errClosed)
	}
	return none, coordinator.ErrInternal(err)
}
