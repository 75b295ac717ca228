package worker

import "time"

// Progress is how far a restore or an upload has come.
type Progress struct {
	// CheckpointID is the checkpoint that is restored or handed in.
	CheckpointID int64
	// Restoring tells a restore from an upload.
	Restoring bool
	// Bytes have been transferred, of Total, which is -1 where it is not known: an upload is
	// encoded while it is sent. An upload that has to be repeated begins again at 0.
	Bytes, Total int64
	// Entries have been transferred. With a Share these are those of all tasks.
	Entries int64
	// Done tells that this is the last word on this transfer, whether it succeeded or not.
	Done bool
}

// progressEvery is the time between two words on a transfer, at least.
const progressEvery = 100 * time.Millisecond

// meter tells how far one transfer has come. It is used by one goroutine at a time; a nil meter
// is for a transfer of which nobody wants to hear.
type meter struct {
	tell func(Progress)
	Progress

	last time.Time
}

// meter begins one; what takes less than progressEvery has only its last word.
func (r *run) meter(id int64, restoring bool, total int64) *meter {
	if r.OnProgress == nil {
		return nil
	}
	return &meter{
		tell: r.OnProgress, last: time.Now(),
		Progress: Progress{CheckpointID: id, Restoring: restoring, Total: total},
	}
}

// bytes notes that some have been transferred.
func (m *meter) bytes(n int) {
	if m == nil {
		return
	}
	m.Bytes += int64(n)
	if now := time.Now(); now.Sub(m.last) >= progressEvery {
		m.last = now
		m.tell(m.Progress)
	}
}

// entry notes that one more has been transferred.
func (m *meter) entry() {
	if m != nil {
		m.Entries++
	}
}

// again begins from the start.
func (m *meter) again() {
	if m != nil {
		m.Bytes, m.Entries = 0, 0
	}
}

// done says the last word.
func (m *meter) done() {
	if m != nil {
		m.Done = true
		m.tell(m.Progress)
	}
}
