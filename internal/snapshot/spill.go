package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// A run is read through minRunBuffer bytes at least, and through runBuffer where there are
// not so many runs that all of them together would take more than the records did.
const (
	minRunBuffer = 4 << 10
	runBuffer    = 64 << 10
)

// spill is a temporary file of sorted runs of records, one behind the other.
// The file is made at the first run.
type spill struct {
	dir  string
	file *os.File
	// leftover is the file's path where it could not be unlinked while open.
	leftover string
	size     int64
	runs     []int64 // where each run ends
}

// write appends a run.
func (s *spill) write(records []keyRecord) error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "checkpointd-keys-*")
		if err != nil {
			return fmt.Errorf("spill keys: %w", err)
		}
		s.file = file
		// Without a name the file goes with the process, however that ends.
		if os.Remove(file.Name()) != nil {
			s.leftover = file.Name()
		}
	}
	w := bufio.NewWriterSize(s.file, 64<<10)
	var b [recordSize]byte
	for _, r := range records {
		binary.LittleEndian.PutUint64(b[0:], r.fingerprint)
		binary.LittleEndian.PutUint64(b[8:], uint64(r.offset))
		binary.LittleEndian.PutUint64(b[16:], uint64(r.line))
		if _, err := w.Write(b[:]); err != nil {
			return fmt.Errorf("spill keys: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("spill keys: %w", err)
	}
	s.size += int64(len(records)) * recordSize
	s.runs = append(s.runs, s.size)
	return nil
}

// merge returns a function that gives all spilled records and those of the
// sorted last run, in order, then false. It reads through about as much memory
// as maxRecords take.
func (s *spill) merge(last []keyRecord, maxRecords int) (next func() (keyRecord, bool, error), err error) {
	if len(s.runs) == 0 {
		return func() (record keyRecord, ok bool, err error) {
			if len(last) == 0 {
				return keyRecord{}, false, nil
			}
			record, last = last[0], last[1:]
			return record, true, nil
		}, nil
	}
	if len(last) > 0 {
		if err := s.write(last); err != nil {
			return nil, err
		}
	}
	buffer := max(minRunBuffer, min(runBuffer, maxRecords*recordSize/len(s.runs)))
	heap := make(runHeap, 0, len(s.runs))
	start := int64(0)
	for _, end := range s.runs {
		r := &run{src: bufio.NewReaderSize(io.NewSectionReader(s.file, start, end-start), buffer)}
		if err := r.advance(); err != nil {
			return nil, err
		}
		heap = append(heap, r)
		start = end
	}
	heap.init()
	return heap.next, nil
}

func (s *spill) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.leftover != "" {
		err = errors.Join(err, os.Remove(s.leftover))
	}
	s.file = nil
	return err
}
