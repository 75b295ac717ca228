package filestore

import (
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// unsettled tells whether settle would write something.
func (r *record) unsettled(now int64) bool {
	return r.Status == coordinator.StatusPending && (now < r.Start || r.overdue(now))
}

// settle writes what time has done to a pending checkpoint, before anything else is
// judged of it.
func (s *step) settle(c *checkpoint) {
	switch {
	case c.Status != coordinator.StatusPending:
	case s.now < c.Start:
		s.rebase(c)
	case c.overdue(s.now):
		s.expire(c)
	}
}

// rebase is for a clock that stepped back behind the checkpoint's start.
func (s *step) rebase(c *checkpoint) {
	s.moveDeadline(c, coordinator.Rebase(c.Start, s.now), c.TimeoutMs)
}

// moveDeadline changes what the deadline is made of, together with its index entry.
func (s *step) moveDeadline(c *checkpoint, start, timeoutMs int64) {
	s.leaveDeadlines(c)
	c.Start, c.TimeoutMs = start, timeoutMs
	s.touch(c)
	s.joinDeadlines(c)
}

func (s *step) joinDeadlines(c *checkpoint) {
	if c.TimeoutMs > 0 {
		s.put(s.bucket(c.job.b, bucketDeadlines), timeKey(c.Start+c.TimeoutMs, idKey(c.id)), present)
	}
}

func (s *step) leaveDeadlines(c *checkpoint) {
	if c.TimeoutMs > 0 {
		s.delete(child(c.job.b, bucketDeadlines), timeKey(c.Start+c.TimeoutMs, idKey(c.id)))
	}
}

// expire writes the end of an overdue checkpoint.
func (s *step) expire(c *checkpoint) {
	s.leavePending(c)
	c.expire()
	s.endedUncompleted(c)
}

// abort ends a pending checkpoint that is not overdue.
func (s *step) abort(c *checkpoint, why failure) {
	s.leavePending(c)
	c.Status, c.EndedAt, c.Failure = coordinator.StatusAborted, s.now, &why
	c.Revision++
	s.endedUncompleted(c)
}

func (s *step) leavePending(c *checkpoint) {
	s.leave(c.job, bucketPending, c.id, &c.job.Pending)
	s.leaveDeadlines(c)
}

// endedUncompleted follows every end but completion: what the checkpoint holds goes at
// once, its record and its list of acknowledgements stay for a while.
func (s *step) endedUncompleted(c *checkpoint) {
	s.dropFiles(c, func(string) bool { return true })
	for _, held := range [][]byte{bucketParts, bucketContent, bucketState} {
		s.drop(c.b, held)
	}
	c.Staged = 0
	s.touch(c)
	s.join(c.job, bucketEnded, c.id, nil)
	if !c.Pinned {
		c.job.Remains++
		s.touchJob(c.job)
	}
	s.ended(c)
	s.crowded = append(s.crowded, c.job)
}

// finish does what has to follow at the end of a change: records that the change itself
// may still look at must not go earlier.
func (s *step) finish() {
	for _, j := range s.crowded {
		s.trimEnded(j)
	}
	s.trimLogs()
}

// complete ends a pending checkpoint as completed; lastTask is the one whose
// acknowledgement did it, "" for none. Parts without an acknowledgement are not part of
// the snapshot. The caller applies retention.
func (s *step) complete(c *checkpoint, lastTask string) {
	s.leavePending(c)
	s.dropStaged(c)
	if c.Shared.Bytes <= InlineBytes {
		// The first restore would have to write it; much state would hold up everybody here.
		if sum, err := c.sumShared(); err == nil { // checkTotals has seen that it is whole
			c.Shared.Digest = sum.Digest
		}
	}
	c.Status, c.EndedAt = coordinator.StatusCompleted, s.now
	s.bump(c)
	s.join(c.job, bucketCompleted, c.id, nil)
	if !c.Pinned {
		s.joinRetained(c)
	}
	s.ended(c)
	s.addSample(c, lastTask)
}

func (s *step) reportEnd(c *checkpoint) {
	end := coordinator.Transition{
		Job: c.job.name, ID: c.id, Status: c.Status,
		DurationMs: max(0, c.EndedAt-c.Start), AcknowledgedTasks: c.Acked,
	}
	if c.Failure != nil {
		end.Reason = c.Failure.Reason
	}
	s.report(func(o coordinator.Observer) { o.Ended(end) })
}

// dropStaged removes the parts without an acknowledgement.
func (s *step) dropStaged(c *checkpoint) {
	if c.Staged == 0 {
		return
	}
	acks, parts := child(c.b, bucketAcks), child(c.b, bucketParts)
	staged := func(task string) bool { return get(acks, []byte(task)) == nil }
	s.dropFiles(c, staged)
	var tasks [][]byte
	for task := range ascend(parts, nil) {
		if staged(string(task)) {
			tasks = append(tasks, task)
		}
	}
	for _, task := range tasks {
		s.delete(parts, task)
		s.delete(child(c.b, bucketContent), task)
	}
	c.Staged = 0
	s.touch(c)
}

// dropFiles gives up the files of parts of those tasks that gone chooses.
func (s *step) dropFiles(c *checkpoint, gone func(task string) bool) {
	if c.Files == 0 {
		return
	}
	for task, text := range ascend(child(c.b, bucketParts), nil) {
		if file := fileOf(text); file != "" && gone(string(task)) {
			s.dropFile(file)
			c.Files--
		}
	}
	s.touch(c)
}
