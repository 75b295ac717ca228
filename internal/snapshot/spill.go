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

// spill is a temporary file of runs of records, one behind the other.
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
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.size), 64<<10)
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

// each calls take with every record that lies from start to end, in the order of writing,
// until it returns false; all tells that it never did.
func (s *spill) each(start, end int64, take func(keyRecord) bool) (all bool, err error) {
	if start == end {
		return true, nil
	}
	r := s.open(start, end, runBuffer)
	for {
		if err := r.advance(); err != nil {
			return false, err
		}
		if r.done {
			return true, nil
		}
		if !take(r.head) {
			return false, nil
		}
	}
}

// sort sorts each run in its place. room is where, and is grown if it is too small.
func (s *spill) sort(room []keyRecord) error {
	runs := s.runs
	s.runs, s.size = nil, 0
	start := int64(0)
	for _, end := range runs {
		room = room[:0]
		_, err := s.each(start, end, func(r keyRecord) bool {
			room = append(room, r)
			return true
		})
		if err != nil {
			return err
		}
		sortRecords(room, topByte)
		if err := s.write(room); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// open reads the records from start to end through a buffer.
func (s *spill) open(start, end int64, buffer int) *run {
	return &run{src: bufio.NewReaderSize(io.NewSectionReader(s.file, start, end-start), buffer)}
}

// merge returns a function that gives all spilled records of sorted runs, in order,
// then false. It reads through about as much memory as maxRecords take.
func (s *spill) merge(maxRecords int) (next func() (keyRecord, bool, error), err error) {
	buffer := max(minRunBuffer, min(runBuffer, maxRecords*recordSize/len(s.runs)))
	heap := make(runHeap, 0, len(s.runs))
	start := int64(0)
	for _, end := range s.runs {
		r := s.open(start, end, buffer)
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
