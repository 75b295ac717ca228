package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// report is a line by which a worker tells the driver how it fares.
type report struct {
	// Event is one of the constants below.
	Event string `json:"event"`
	// Checkpoint is what was restored or prepared.
	Checkpoint int64 `json:"checkpoint"`
	// Committed and RolledBack are the batches that the restore found in the sink.
	Committed  int `json:"committed,omitempty"`
	RolledBack int `json:"rolledBack,omitempty"`
	// Lines is how far each of the worker's partitions has been read.
	Lines map[string]int64 `json:"lines,omitempty"`
	// Transfer tells of a long upload or restore.
	Transfer string `json:"transfer,omitempty"`
}

// What a worker tells.
const (
	eventRestored = "restored"
	eventPrepared = "prepared"
	eventLines    = "lines"
	eventTransfer = "transfer"
	// eventFinished says that the worker only waits for its final checkpoint.
	eventFinished = "finished"
)

// What the driver tells a worker, a line each.
const (
	orderHurry  = "hurry"  // read on without a pace
	orderFinish = "finish" // the whole fleet has read everything: end with the next checkpoint
)

// reporter writes reports.
type reporter struct {
	lock sync.Mutex
	to   io.Writer
}

func (r *reporter) tell(report report) error {
	line, err := json.Marshal(report)
	if err != nil {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if _, err := r.to.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("the driver has gone: %w", err)
	}
	return nil
}

// readReports hands on what a worker tells until it ends.
func readReports(from io.Reader, hear func(report)) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // half a line is that of a worker that was killed
			return nil
		}
		if err != nil {
			return fmt.Errorf("listening to a worker: %w", err)
		}
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("a worker said %q: %w", line, err)
		}
		hear(r)
	}
}
