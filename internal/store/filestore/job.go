package filestore

import (
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// jobRecord is what is kept of a job itself.
type jobRecord struct {
	Schema int `json:"v"`
	// NextID is the id of the next checkpoint; ids below it were given.
	NextID int64 `json:"next"`
	Epoch  int64 `json:"epoch"`
	// Timestamp is the highest display timestamp that was given.
	Timestamp int64 `json:"ts"`
	// Clock is an upper bound of the start of everything pending, so that a step back of
	// the clock shows without reading any record.
	Clock int64 `json:"clock"`
	// Pending, Retained and Remains count the members of their sets; Remains counts
	// those of ended that are not pinned.
	Pending  int `json:"pending"`
	Retained int `json:"retained"`
	Remains  int `json:"remains"`

	// Derived tells that the record has what follows. Servers before this one did not
	// write it, see derive.
	Derived bool `json:"derived,omitempty"`
	// Pinned counts all that are pinned, and RetainedBytes sums up the retained ones.
	Pinned        int      `json:"pinned,omitempty"`
	RetainedBytes int64    `json:"retainedBytes,omitempty"`
	Outcomes      outcomes `json:"outcomes"`
	Log           eventLog `json:"log"`
	Counts        counts   `json:"counts,omitzero"`
	Schedule      schedule `json:"schedule"`
	// Ticked is the token of the last call that moved the schedule on.
	Ticked string `json:"ticked,omitempty"`

	// Settings are nil for a job that is not configured. Revision counts their changes.
	Settings *settings `json:"settings,omitempty"`
	Revision int64     `json:"rev,omitempty"`
	Noted    handed    `json:"noted,omitzero"`
	// Gone marks what stays of a deleted job, so that nothing is given twice.
	Gone bool `json:"gone,omitempty"`
}

// job is a job within one transaction.
type job struct {
	jobRecord
	name string
	// b is nil for the default job until something was triggered in it.
	b    *bolt.Bucket
	read map[int64]*checkpoint // nil for an id that has no record
	// unread are the errors of those that cannot be read.
	unread map[int64]error
	// unreadable is that of the ledger.
	unreadable func(job string, id int64, err error)
	// importing are those under import that were read.
	importing map[int64]*checkpoint
	changed   bool
	derived   bool // parts of the record are not written yet
	// noAttempts tells that no attempt above 0 was ever heard, which is worth knowing: every
	// message asks.
	noAttempts bool
}

// newJob is a job without a record.
func newJob(name string) *job {
	return &job{name: name, read: map[int64]*checkpoint{}, unread: map[int64]error{}, importing: map[int64]*checkpoint{}, jobRecord: jobRecord{
		Schema: schemaVersion, Derived: true, Outcomes: outcomes{Highest: noCheckpoint}, Schedule: never(),
	}}
}

// job finds a job; nil when there is none of that name. The default job always exists.
func (l *ledger) job(name string) *job {
	if j := l.remains(name); j != nil && !j.Gone {
		return j
	}
	return nil
}

// remains finds a job, also one that was deleted. A job whose record cannot be read is out
// of order: without its counter it could give an id again.
func (l *ledger) remains(name string) *job {
	j, err := l.readJob(name)
	must(err)
	return j
}

func (l *ledger) readJob(name string) (*job, error) {
	if j, known := l.jobs[name]; known {
		return j, nil
	}
	j := newJob(name)
	j.unreadable = l.unreadable
	j.b = child(l.tx.Bucket(bucketJobs), []byte(name))
	if j.b == nil {
		if name != coordinator.DefaultJob {
			return nil, nil //nolint:nilnil // No job is no error.
		}
		l.jobs[name] = j
		return j, nil
	}
	j.Schema, j.Derived = 0, false
	err := decode(j.b.Get(keyRecord), &j.jobRecord)
	if err == nil && j.Schema != schemaVersion {
		err = fmt.Errorf("it has version %d and this server reads %d", j.Schema, schemaVersion)
	}
	if err != nil {
		err = fmt.Errorf("read the record of job %q: %w", name, err)
		l.unreadable(name, noCheckpoint, err)
		return nil, err
	}
	l.jobs[name] = j
	if !j.Derived {
		l.derive(j)
	}
	return j, nil
}

// makeJob finds a job or makes it, ready to be written.
func (s *step) makeJob(name string) *job {
	j := s.remains(name)
	if j == nil {
		j = newJob(name)
		j.unreadable = s.unreadable
		s.jobs[name] = j
	}
	if j.b == nil {
		j.b = s.bucket(s.tx.Bucket(bucketJobs), []byte(name))
		s.touchJob(j)
	}
	if j.Gone {
		j.Gone = false
		s.touchJob(j)
	}
	return j
}

// readableJobs gives all jobs, the default one and deleted ones among them, by name. One
// that is out of order is left out, so that it does not disturb those who look at all; it is noted.
func (l *ledger) readableJobs() []*job {
	names := map[string]bool{coordinator.DefaultJob: true}
	for name := range ascend(l.tx.Bucket(bucketJobs), nil) {
		names[string(name)] = true
	}
	var jobs []*job
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if j, err := l.readJob(name); err == nil {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// touchJob marks the job's record as changed.
func (l *ledger) touchJob(j *job) { j.changed, l.dirty = true, true }

// join puts an id into one of the job's sets and leave takes it out; n is the set's
// counter, nil where it has none.
func (l *ledger) join(j *job, set []byte, id int64, n *int) {
	b := l.bucket(j.b, set)
	if b.Get(idKey(id)) != nil {
		return
	}
	l.put(b, idKey(id), present)
	if n != nil {
		*n++
		l.touchJob(j)
	}
}

func (l *ledger) leave(j *job, set []byte, id int64, n *int) {
	b := child(j.b, set)
	if get(b, idKey(id)) == nil {
		return
	}
	l.delete(b, idKey(id))
	if n != nil {
		*n--
		l.touchJob(j)
	}
}

// latest finds the latest completed checkpoint; nil when there is none.
func (j *job) latest() *checkpoint {
	c, _ := j.latestWhole()
	return c
}

// latestWhole finds the latest completed checkpoint that can be restored: neither damaged, nor set aside, nor of a version that this
// server does not read. Where there is none but such ones, the refusal names the latest of these. One without a
// whole record is not passed over: nobody has decided anything about it, and a fleet would go back behind it unawares.
func (j *job) latestWhole() (*checkpoint, error) {
	refusal := coordinator.ErrNoCompletedCheckpoint(j.name)
	for k := range descend(child(j.b, bucketCompleted), nil) {
		c, err := j.listedCheckpoint(idOf(k))
		switch {
		case err != nil:
			return nil, err
		case c.usable() && c.Version <= coordinator.SnapshotVersion:
			return c, j.checkUnlisted(c.id)
		case refusal.Code != coordinator.CodeNoCompletedCheckpoint:
		case c.Damage != "":
			refusal = coordinator.ErrSnapshotDamaged(c.id, c.Damage, nil)
		case c.SetAside:
			refusal = coordinator.ErrAllSetAside(c.id)
		default:
			refusal = coordinator.ErrUnsupportedVersion(c.id, c.Version)
		}
	}
	if err := j.checkUnlisted(noCheckpoint); err != nil {
		return nil, err
	}
	return nil, refusal
}

// checkUnlisted is an error if the list of completed checkpoints has lost one above an id: the job's record
// knows the highest that ever completed, which is there still.
func (j *job) checkUnlisted(above int64) error {
	highest := j.Outcomes.Highest
	if highest <= above || get(child(j.b, bucketCompleted), idKey(highest)) != nil {
		return nil
	}
	_, err := j.checkpoint(highest)
	return err
}

// listedCheckpoint is checkpoint for an id that an index has.
func (j *job) listedCheckpoint(id int64) (*checkpoint, error) {
	c, err := j.checkpoint(id)
	if err == nil && c == nil {
		err = j.inconsistent(id, "the record", errNoRecord)
	}
	return c, err
}

// current finds the newest checkpoint that can still be acknowledged; nil when there is none.
func (j *job) current(now int64) *checkpoint {
	for k := range descend(child(j.b, bucketPending), nil) {
		// One without a whole record takes no acknowledgement, so it is not where to go on.
		if c, err := j.checkpoint(idOf(k)); err == nil && c != nil && !c.overdue(now) {
			return c
		}
	}
	return nil
}

// find gives the checkpoint that a call names. late adds to a refusal for a deleted one
// where its sender can go on.
func (s *step) find(ref coordinator.Ref, late bool) (*checkpoint, error) {
	j := s.job(ref.Job)
	if j == nil {
		return nil, coordinator.ErrJobNotFound(ref.Job)
	}
	if ref.ID == coordinator.Latest {
		return j.latestWhole()
	}
	c, err := j.checkpoint(ref.ID)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, s.absent(j, ref.ID, late)
	}
	return c, nil
}

// absent is the refusal for an id that has no record; late adds to one for a deleted checkpoint
// where its sender can go on.
func (s *step) absent(j *job, id int64, late bool) *coordinator.Error {
	refusal := coordinator.ErrCheckpointNotFound(j.name, id)
	if id < j.NextID {
		refusal = coordinator.ErrCheckpointDeleted(j.name, id)
	}
	if late {
		return s.nextSteps(j, refusal)
	}
	return refusal
}

// findToChange is find for a change: what time has done to the checkpoint is written first.
func (s *step) findToChange(job string, id int64, late bool) (*checkpoint, error) {
	c, err := s.find(coordinator.Ref{Job: job, ID: id}, late)
	if err == nil {
		s.settle(c)
	}
	return c, err
}

// nextSteps tells a late sender where to go on.
func (s *step) nextSteps(j *job, refusal *coordinator.Error) *coordinator.Error {
	idOrNil := func(c *checkpoint) *int64 {
		if c == nil {
			return nil
		}
		return &c.id
	}
	return refusal.WithNextSteps(idOrNil(j.current(s.now)), idOrNil(j.latest()))
}

// highestAttempt is the highest attempt of a task that the job has heard from.
func (j *job) highestAttempt(task string) int64 {
	if j.noAttempts {
		return 0
	}
	attempts := child(j.b, bucketAttempts)
	if j.noAttempts = attempts == nil; j.noAttempts {
		return 0
	}
	if v := attempts.Get([]byte(task)); v != nil {
		return idOf(v)
	}
	return 0
}

// hearAttempt keeps the attempt of an accepted message.
func (s *step) hearAttempt(j *job, task string, attempt int64) {
	if attempt > 0 && attempt > j.highestAttempt(task) {
		j.noAttempts = false
		s.put(s.bucket(j.b, bucketAttempts), []byte(task), idKey(attempt))
	}
}
