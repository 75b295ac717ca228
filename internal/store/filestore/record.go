package filestore

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// record is what is kept of a checkpoint itself. A reader ignores members it does not
// know; what it must not ignore comes with a new Schema.
type record struct {
	Schema    int                `json:"v"`
	Status    coordinator.Status `json:"status"`
	Epoch     int64              `json:"epoch"`
	Revision  int64              `json:"rev"`
	Timestamp int64              `json:"ts"`
	Start     int64              `json:"start"`
	TimeoutMs int64              `json:"timeout,omitempty"`
	// Triggered is the timeout of the trigger, where extensions have changed it since.
	Triggered int64 `json:"triggered,omitempty"`
	Required  int   `json:"required"`
	Acked     int   `json:"acked,omitempty"`
	// Staged counts parts that are not acknowledged, Files those of all parts that lie in
	// parts/: what ends quickly need not look for what it does not have.
	Staged      int               `json:"staged,omitempty"`
	Files       int               `json:"files,omitempty"`
	Named       bool              `json:"named,omitempty"`
	EndedAt     int64             `json:"ended,omitempty"`
	Failure     *failure          `json:"failure,omitempty"`
	Pinned      bool              `json:"pinned,omitempty"`
	SetAside    bool              `json:"aside,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Description string            `json:"desc,omitempty"`
	// Version is that of the snapshot.
	Version int `json:"version"`
	// Entries and Bytes sum up the acknowledged parts and the shared state.
	Entries int64  `json:"entries,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Damage is what a restore found missing.
	Damage string `json:"damage,omitempty"`
	Shared shared `json:"shared,omitzero"`
	// Import is the token of the import that has begun the checkpoint, and Lease when the sweep removes it, while
	// Schema is importSchema.
	Import string `json:"import,omitempty"`
	Lease  int64  `json:"lease,omitempty"`
}

// importSchema marks what an import has begun and not finished. No server takes it for a checkpoint.
const importSchema = -1

type failure struct {
	Reason  coordinator.FailureReason `json:"reason"`
	TaskID  string                    `json:"task,omitempty"`
	Message string                    `json:"msg,omitempty"`
}

// shared sums up the shared state. Digest is "" until a restore needed it.
type shared struct {
	Entries  int64  `json:"entries,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"`
	Revision int64  `json:"rev,omitempty"`
	Digest   string `json:"digest,omitempty"`
}

// checkpoint is a checkpoint within one transaction.
type checkpoint struct {
	record
	job     *job
	id      int64
	b       *bolt.Bucket
	changed bool
}

// checkpoint finds a checkpoint by id; nil when it surely is not there, or is under import. The error is
// coordinator.ErrInconsistent where there is something of it that this server cannot read.
func (j *job) checkpoint(id int64) (*checkpoint, error) {
	if c, known := j.read[id]; known {
		return c, nil
	}
	if err, known := j.unread[id]; known {
		return nil, err
	}
	c := &checkpoint{job: j, id: id, b: child(child(j.b, bucketCheckpoints), idKey(id))}
	there, cause := c.readRecord()
	if cause != nil {
		err := j.inconsistent(id, "the record", cause)
		j.unread[id] = err
		return nil, err
	}
	if !there {
		c = nil
	}
	j.read[id] = c
	return c, nil
}

var (
	errNoRecord  = errors.New("there is none")
	errNotListed = errors.New("the index of its status does not have it")
)

// readRecord reads the record of the checkpoint; there is false for one that is not there, or is under import.
func (c *checkpoint) readRecord() (there bool, err error) {
	if c.b == nil {
		if c.job.listed(c.id) {
			return false, errNoRecord
		}
		return false, nil
	}
	text := c.b.Get(keyRecord)
	if text == nil {
		return false, errNoRecord
	}
	if err := decode(text, &c.record); err != nil {
		return false, err
	}
	switch set := setOf(c.Status); {
	case c.Schema == importSchema:
		return false, nil
	case c.Schema != schemaVersion:
		return false, fmt.Errorf("it has version %d and this server reads %d", c.Schema, schemaVersion)
	case set == nil:
		return false, fmt.Errorf("its status is %q", c.Status)
	case get(child(c.job.b, set), idKey(c.id)) == nil:
		return false, errNotListed
	}
	return true, nil
}

// touch marks the record as changed.
func (l *ledger) touch(c *checkpoint) { c.changed, l.dirty = true, true }

// bump marks the record as changed in a way that its readers see.
func (l *ledger) bump(c *checkpoint) {
	c.Revision++
	l.touch(c)
}

func (r *record) overdue(now int64) bool {
	return r.Status == coordinator.StatusPending && coordinator.Expired(r.Start, r.TimeoutMs, now)
}

// expire is the end of an overdue record. It ended at its deadline and not when somebody
// noticed, so that what reads derive and what is written later are the same.
func (r *record) expire() {
	r.Status, r.EndedAt = coordinator.StatusExpired, r.Start+r.TimeoutMs
	r.Failure = &failure{Reason: coordinator.ReasonExpired}
	r.Revision++
}

// at is the record as time has made it by now, written or not.
func (r record) at(now int64) record {
	if r.overdue(now) {
		r.expire()
	}
	return r
}

// view is the checkpoint as its readers see it.
func (c *checkpoint) view(now int64) coordinator.Checkpoint {
	r := c.at(now)
	out := coordinator.Checkpoint{
		Job: c.job.name, ID: c.id, Epoch: r.Epoch, Status: r.Status, Revision: r.Revision,
		Timestamp: r.Timestamp, Start: r.Start, TimeoutMs: r.TimeoutMs,
		RequiredTaskAcks: r.Required, AcknowledgedTasks: r.Acked, NamedTasks: r.Named,
		EndedAt: r.EndedAt, Pinned: r.Pinned, SetAside: r.SetAside, Labels: r.Labels, Description: r.Description,
		SharedEntries: r.Shared.Entries, SharedBytes: r.Shared.Bytes, SharedRevision: r.Shared.Revision,
		ObservedAt: now,
	}
	if r.Failure != nil {
		out.Failure = &coordinator.Failure{Reason: r.Failure.Reason, TaskID: r.Failure.TaskID, Message: r.Failure.Message}
	}
	if r.Status == coordinator.StatusCompleted {
		out.SnapshotVersion, out.Entries, out.Bytes, out.Digest = r.Version, r.Entries, r.Bytes, r.Digest
		out.Damage = r.Damage
	} else {
		out.MissingTasks = c.missing(coordinator.MissingTasksShown)
	}
	return out
}

// usable tells whether a completed checkpoint may be the latest.
func (r *record) usable() bool { return r.Damage == "" && !r.SetAside }

// missing gives the first expected tasks, in byte order, that have not acknowledged.
func (c *checkpoint) missing(limit int) []string {
	var names []string
	for name := range ascend(child(c.b, bucketMissing), nil) {
		if len(names) == limit {
			break
		}
		names = append(names, string(name))
	}
	return names
}

// expects tells whether the task may take part: tasks that the trigger named are missing
// until they acknowledge.
func (c *checkpoint) expects(task string) bool {
	return !c.Named || has(child(c.b, bucketMissing), task) || has(child(c.b, bucketAcks), task)
}

// leased tells whether a restore or a recovery holds the checkpoint.
func (c *checkpoint) leased(now int64) bool {
	for _, expiry := range ascend(child(c.b, bucketLeases), nil) {
		if idOf(expiry) >= now {
			return true
		}
	}
	return false
}

// lease holds the checkpoint until expiry, and forgets leases that are over.
func (s *step) lease(c *checkpoint, name string, expiry int64) {
	leases := s.bucket(c.b, bucketLeases)
	var over [][]byte
	for k, v := range ascend(leases, nil) {
		if idOf(v) < s.now {
			over = append(over, k)
		}
	}
	for _, k := range over {
		s.delete(leases, k)
	}
	s.put(leases, []byte(name), idKey(expiry))
}
