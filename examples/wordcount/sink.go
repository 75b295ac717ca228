package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sink takes the records of a partition in two phases. What was written since the last cut
// becomes the file ID.prepared when a checkpoint is taken, and ID.committed, which is
// all that a reader of the output looks at, once the checkpoint has completed.
type sink struct {
	folder string
	// written since the last cut; guarded by the lock of the state, of which it is a part.
	written []byte
	// early commits what is only prepared: the mistake that two phases are there to avoid.
	early bool
}

// Suffixes of the files, behind the checkpoint's ID with leading zeros.
const (
	prepared  = ".prepared"
	committed = ".committed"
)

func openSink(folder string) (*sink, error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, fmt.Errorf("opening the sink: %w", err)
	}
	return &sink{folder: folder}, nil
}

func (s *sink) write(record string) { s.written = append(s.written, record...) }

// cut gives what was written since the last cut.
func (s *sink) cut() []byte {
	batch := s.written
	s.written = nil
	return batch
}

// prepare makes a batch durable. When it fails, the life of the worker must end: what is half
// prepared is rolled back by the next one.
func (s *sink) prepare(id int64, batch []byte) error {
	if len(batch) == 0 {
		return nil
	}
	err := writeDurably(s.file(id, prepared), batch)
	if err == nil {
		err = syncFolder(s.folder)
	}
	if err == nil && s.early {
		_, err = s.commit(id)
	}
	if err != nil {
		return fmt.Errorf("preparing for checkpoint %d: %w", id, err)
	}
	return nil
}

// commit makes everything visible that was prepared under this ID or a lower one.
func (s *sink) commit(upTo int64) (batches int, _ error) {
	ids, err := list(s.folder, prepared)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if id > upTo {
			break
		}
		if err := os.Rename(s.file(id, prepared), s.file(id, committed)); err != nil {
			return batches, fmt.Errorf("committing checkpoint %d: %w", id, err)
		}
		batches++
	}
	if batches > 0 {
		err = syncFolder(s.folder)
	}
	return batches, err
}

// settle ends what a former life has left: the state goes on from this checkpoint.
func (s *sink) settle(from int64) (done, undone int, _ error) {
	visible, err := list(s.folder, committed)
	if err != nil {
		return 0, 0, err
	}
	if ahead := len(visible) - 1; !s.early && ahead >= 0 && visible[ahead] > from {
		return 0, 0, fmt.Errorf("%s has committed checkpoint %d, but the state is that of %d", s.folder, visible[ahead], from)
	}
	if done, err = s.commit(from); err != nil {
		return done, 0, err
	}
	ids, err := list(s.folder, prepared)
	if err != nil {
		return done, 0, err
	}
	for _, id := range ids {
		if err := os.Remove(s.file(id, prepared)); err != nil {
			return done, undone, fmt.Errorf("rolling checkpoint %d back: %w", id, err)
		}
		undone++
	}
	return done, undone, nil
}

func (s *sink) file(id int64, suffix string) string {
	return filepath.Join(s.folder, fmt.Sprintf("%016d%s", id, suffix))
}

// list gives the IDs of the files in a folder with this suffix, in order.
func list(folder, suffix string) ([]int64, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("listing the sink: %w", err)
	}
	var ids []int64
	for _, file := range files {
		name, is := strings.CutSuffix(file.Name(), suffix)
		if !is {
			continue
		}
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a foreign file is in the sink: %w", err)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

// output is what a reader of the sink sees, and how many batches are still waiting to be
// committed.
func output(folder string) (_ []byte, waiting int, _ error) {
	ids, err := list(folder, committed)
	if err != nil {
		return nil, 0, err
	}
	s := sink{folder: folder}
	var all bytes.Buffer
	for _, id := range ids {
		batch, err := os.ReadFile(s.file(id, committed))
		if err != nil {
			return nil, 0, fmt.Errorf("reading the sink: %w", err)
		}
		all.Write(batch)
	}
	left, err := list(folder, prepared)
	return all.Bytes(), len(left), err
}

// writeDurably returns when the file's content is on the disk.
func writeDurably(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err //nolint:wrapcheck // It names what and where.
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder returns when the names in a folder are on the disk.
func syncFolder(folder string) error {
	directory, err := os.Open(folder)
	if err != nil {
		return err //nolint:wrapcheck // It names what and where.
	}
	return errors.Join(directory.Sync(), directory.Close())
}
