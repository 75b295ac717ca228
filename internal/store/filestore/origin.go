package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// A start on an older copy of the data directory would give ids, epochs and numbers of events again that
// workers know as something else. So each start notes which files it has worked on, in meta.db and in the
// file generation beside it, which no copy takes along: the time at which a file was last changed or made is
// the system's own. Where they do not fit together, everything that is counted is passed over, as far as
// copiesBehind. A start that takes the same files for a copy does no harm.

// copiesBehind is how many ids, and epochs, a copy may be behind, and eventsBehind how many events.
const (
	copiesBehind = 1000
	eventsBehind = 10 * copiesBehind
)

var (
	keyOrigin = []byte("origin")

	errCopied = errors.New("the data directory is a copy, or parts of it are")
)

// origin is what a start has worked on.
type origin struct {
	// Generation counts starts. The file has it, too.
	Generation int64 `json:"n"`
	// Changed is when that file was last changed, as the system says, and Meta and Parts are the inodes of
	// meta.db and of parts/; 0 is not known.
	Changed int64  `json:"changed,omitempty"`
	Meta    uint64 `json:"meta,omitempty"`
	Parts   uint64 `json:"parts,omitempty"`
}

// readOrigin gives what the last start has noted in the database; nil when none has.
func (s *Store) readOrigin() (noted *origin, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		text := tx.Bucket(bucketMeta).Get(keyOrigin)
		if text == nil {
			return nil
		}
		noted = new(origin)
		if decode(text, noted) != nil {
			noted = &origin{Generation: -1} // which fits nothing
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what the last start has worked on: %w", err)
	}
	return noted, nil
}

// findOrigin gives what is there now.
func (s *Store) findOrigin(dir string) (origin, error) {
	var found origin
	text, err := readGeneration(s.disk, dir)
	if err != nil {
		return found, err
	}
	if found.Generation, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64); err != nil && text != "" {
		found.Generation = -2 // which fits nothing
	}
	for path, note := range map[string]func(inode uint64, changed int64){
		"generation": func(_ uint64, changed int64) { found.Changed = changed },
		"meta.db":    func(inode uint64, _ int64) { found.Meta = inode },
		"parts":      func(inode uint64, _ int64) { found.Parts = inode },
	} {
		info, err := s.disk.Stat(filepath.Join(dir, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return found, fmt.Errorf("look at %s: %w", path, err)
		}
		if err == nil {
			note(inodeOf(info))
		}
	}
	return found, nil
}

func readGeneration(d disk, dir string) (string, error) {
	file, err := d.Open(filepath.Join(dir, "generation"), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open the file generation: %w", err)
	}
	text := make([]byte, 32)
	n, _ := d.ReadAt(file, text, 0) // what cannot be read fits nothing
	return string(text[:n]), file.Close()
}

// isCopy tells whether the files are others than those that the last start has noted.
func (noted *origin) isCopy(found origin) bool {
	if noted == nil {
		return found.Generation != 0 // the database is older than the file
	}
	return noted.Generation != found.Generation || noted.Changed != found.Changed || noted.Meta != found.Meta
}

// settleOrigin notes what this start works on, after it has passed over what a copy may be behind. A disk
// without room keeps only a copy from being opened.
func (s *Store) settleOrigin(dir string) error {
	noted, err := s.readOrigin()
	if err != nil {
		return err
	}
	found, err := s.findOrigin(dir)
	if err != nil {
		return err
	}
	copied := noted.isCopy(found)
	if err := s.noteOrigin(dir, noted, found, copied); err != nil {
		if !isFull(err) || copied {
			return err
		}
	}
	if copied {
		s.copied = errCopied
	}
	return nil
}

func (s *Store) noteOrigin(dir string, noted *origin, found origin, copied bool) error {
	next := max(0, found.Generation) + 1
	if noted != nil {
		next = max(next, noted.Generation+1)
	}
	if err := s.writeGeneration(dir, next); err != nil {
		return err
	}
	now, err := s.findOrigin(dir)
	if err != nil {
		return err
	}
	err = s.db.Update(func(tx *bolt.Tx) error {
		if copied {
			passOverLost(tx)
		}
		text, err := encode(now)
		if err != nil {
			return err
		}
		return tx.Bucket(bucketMeta).Put(keyOrigin, text)
	})
	if err != nil {
		return fmt.Errorf("note what this start works on: %w", err)
	}
	return nil
}

func (s *Store) writeGeneration(dir string, generation int64) error {
	path := filepath.Join(dir, "generation")
	file, err := s.disk.Open(path, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("open the file generation: %w", err)
	}
	// Of one length always, so that it is written over in place.
	_, err = s.disk.WriteAt(file, fmt.Appendf(nil, "%019d\n", generation), 0)
	if err = errors.Join(err, s.disk.Sync(file), file.Close()); err != nil {
		return fmt.Errorf("write the file generation: %w", err)
	}
	return nil
}

// passOverLost raises the counters of all jobs.
func passOverLost(tx *bolt.Tx) {
	l := newLedger(tx, nil)
	for _, j := range l.readableJobs() {
		if j.b == nil {
			continue // a job without a record has given nothing that is known
		}
		j.NextID += copiesBehind
		j.Epoch += copiesBehind
		j.Log.Seq += eventsBehind
		l.touchJob(j)
	}
	must(l.flush())
}

// checkParts is an error where records name files and parts/ is not the folder that they were put in: it is
// missing, or another one without any of them, as where its disk is not mounted. All checkpoints with large
// parts would else be damaged at their first restore.
func (s *Store) checkParts(dir string) error {
	noted, err := s.readOrigin()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "parts")
	names, err := listParts(s.disk, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	found, err := s.findOrigin(dir)
	if err != nil {
		return err
	}
	if noted != nil && found.Parts != 0 && found.Parts == noted.Parts {
		return nil
	}
	if _, err := s.disk.Stat(filepath.Join(path, "lost")); err == nil {
		return nil
	}
	named, there := 0, false
	err = s.db.View(func(tx *bolt.Tx) error {
		files := tx.Bucket(bucketFiles)
		for range ascend(files, nil) {
			named++
		}
		for _, name := range names {
			there = there || files.Get([]byte(name)) != nil
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for named files: %w", err)
	}
	if named == 0 || there {
		return nil
	}
	return fmt.Errorf("the data directory %q has records of %d files in parts/ and none of them is there: put parts/ back, or mount its disk; or, if they are lost for good, make an empty file parts/lost, and the checkpoints that need them are damaged; nothing was changed", dir, named)
}
