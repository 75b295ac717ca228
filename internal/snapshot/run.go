package snapshot

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// run is a sorted run of records that is being read back.
type run struct {
	src  *bufio.Reader
	head keyRecord
	done bool
}

// advance reads the next record into head.
func (r *run) advance() error {
	b, err := r.src.Peek(recordSize)
	switch {
	case err == io.EOF && len(b) == 0:
		r.done = true
		return nil
	case err != nil:
		return fmt.Errorf("read spilled keys: %w", err)
	}
	r.head = keyRecord{
		fingerprint: binary.LittleEndian.Uint64(b[0:]),
		offset:      int64(binary.LittleEndian.Uint64(b[8:])),
		line:        int64(binary.LittleEndian.Uint64(b[16:])),
	}
	if _, err := r.src.Discard(recordSize); err != nil {
		return fmt.Errorf("read spilled keys: %w", err)
	}
	return nil
}

// runHeap merges runs: the run with the smallest head is at index 0. It is
// written out because container/heap makes two interface calls a comparison,
// which doubles the time of a merge.
type runHeap []*run

func (h runHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}

// next takes the smallest record, false after the last.
func (h *runHeap) next() (keyRecord, bool, error) {
	runs := *h
	if len(runs) == 0 {
		return keyRecord{}, false, nil
	}
	record := runs[0].head
	if err := runs[0].advance(); err != nil {
		return keyRecord{}, false, err
	}
	if runs[0].done {
		runs[0] = runs[len(runs)-1]
		*h = runs[:len(runs)-1]
	}
	h.sink(0)
	return record, true, nil
}

// sink restores the order below index i.
func (h runHeap) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h.less(right, child) {
			child = right
		}
		if !h.less(child, i) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

func (h runHeap) less(i, j int) bool {
	return compareRecords(h[i].head, h[j].head) < 0
}
