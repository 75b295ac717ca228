package redisstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// fields are a hash as HGETALL gives it, a record or a job. The first field that cannot be read is in err.
type fields struct {
	values map[string]string
	err    error
}

// parseFields takes the pairs of a hash.
func parseFields(c *cursor) fields {
	pairs := cursor{values: c.list()}
	f := fields{values: make(map[string]string, len(pairs.values)/2)}
	for pairs.more() {
		name := pairs.text()
		f.values[name] = pairs.text()
	}
	f.err = pairs.err
	return f
}

func (f *fields) number(name string) int64 {
	n, err := strconv.ParseInt(f.values[name], 10, 64)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("field %s: %w", name, err)
	}
	return n
}

// optional is a number that older or younger records may lack.
func (f *fields) optional(name string) int64 {
	if f.values[name] == "" {
		return 0
	}
	return f.number(name)
}

// parseCheckpoint reads what view of the prelude answered at the time now (Unix ms). It
// is the one place that knows a record's fields, and the one that derives expiry. An
// error means that the record is not readable as ours.
func parseCheckpoint(job string, now int64, view any) (coordinator.Checkpoint, error) {
	values, _ := view.([]any)
	c := cursor{values: values}
	id, names := c.number(), c.list()
	f := parseFields(&c)
	missing := cursor{values: names}
	cp := coordinator.Checkpoint{
		Job: job, ID: id, Epoch: f.number("epoch"), Status: coordinator.Status(f.values["status"]),
		Revision: f.number("rev"), Timestamp: f.number("ts"), Start: f.number("start"), TimeoutMs: f.number("timeout"),
		RequiredTaskAcks: int(f.number("required")), AcknowledgedTasks: int(f.number("acked")),
		NamedTasks: f.values["tasks"] != "", EndedAt: f.optional("ended"),
		Pinned: f.values["pinned"] == "1", SetAside: f.values["aside"] == "1", Description: f.values["desc"],
		SnapshotVersion: int(f.number("version")), Entries: f.number("entries"), Bytes: f.number("bytes"), Digest: f.values["digest"], Damage: f.values["damage"],
		SharedEntries: f.optional("sentries"), SharedBytes: f.optional("sbytes"), SharedRevision: f.optional("srev"),
		ObservedAt: now,
	}
	if text := f.values["labels"]; text != "" {
		if err := json.Unmarshal([]byte(text), &cp.Labels); err != nil {
			return coordinator.Checkpoint{}, fmt.Errorf("record %d: field labels: %w", id, err)
		}
	}
	for missing.more() {
		cp.MissingTasks = append(cp.MissingTasks, missing.text())
	}
	deriveStatus(&cp, &f)
	if err := errors.Join(c.err, missing.err, f.err); err != nil {
		return coordinator.Checkpoint{}, fmt.Errorf("record %d: %w", id, err)
	}
	return cp, nil
}

// deriveStatus fills what depends on the status. A pending record past its deadline is
// shown exactly as it will be once its expiry is written.
func deriveStatus(cp *coordinator.Checkpoint, f *fields) {
	switch cp.Status {
	case coordinator.StatusCompleted:
	case coordinator.StatusPending:
		if coordinator.Expired(cp.Start, cp.TimeoutMs, cp.ObservedAt) {
			cp.Status = coordinator.StatusExpired
			cp.Revision++
			cp.EndedAt = cp.Start + cp.TimeoutMs
			cp.Failure = &coordinator.Failure{Reason: coordinator.ReasonExpired}
		}
	case coordinator.StatusExpired, coordinator.StatusAborted:
		cp.Failure = &coordinator.Failure{
			Reason: coordinator.FailureReason(f.values["reason"]), TaskID: f.values["ftask"], Message: f.values["fmsg"],
		}
	default:
		f.err = fmt.Errorf("status %q", cp.Status)
	}
}

// checkpoints reads views. Those that are not whole are left out of what is found, and the observer is told.
func (s *Store) checkpoints(job string, now int64, views []any) []coordinator.Checkpoint {
	return parseCheckpoints(job, now, views, func(id int64, err error) { s.leaveOut(job, id, err) })
}

func parseCheckpoints(job string, now int64, views []any, notWhole func(id int64, err error)) []coordinator.Checkpoint {
	found := make([]coordinator.Checkpoint, 0, len(views))
	for _, view := range views {
		cp, err := parseCheckpoint(job, now, view)
		if err != nil {
			notWhole(idOf(view), err)
			continue
		}
		found = append(found, cp)
	}
	return found
}

// leaveOut tells the observer of a checkpoint that a list lacks since its record makes no sense, once in the
// life of the process: lists are asked for again and again.
func (s *Store) leaveOut(job string, id int64, cause error) {
	if _, before := s.leftOut.LoadOrStore(job+" "+strconv.FormatInt(id, 10), true); !before {
		s.observer.Damaged(job, id, coordinator.ErrInconsistent(id, theRecord, cause))
	}
}

// theRecord is what scripts call the hash of a checkpoint.
const theRecord = "the record"

// idOf is the id that a view begins with.
func idOf(view any) int64 {
	values, _ := view.([]any)
	c := cursor{values: values}
	return c.number()
}

// checkpoint reads the one view that a reply's body begins with, and raises the job's
// floor of ids.
func (s *Store) checkpoint(verb, job string, r reply) (coordinator.Checkpoint, error) {
	if len(r.body) == 0 {
		return coordinator.Checkpoint{}, badReply(verb, r, errors.New("no checkpoint"))
	}
	cp, err := parseCheckpoint(job, r.now, r.body[0])
	if err != nil {
		return coordinator.Checkpoint{}, coordinator.ErrInconsistent(idOf(r.body[0]), theRecord, err)
	}
	s.floors.see(job, floor{id: cp.ID, epoch: cp.Epoch})
	return cp, nil
}

// encodeLabels is the form of labels in a record; "" is none.
func encodeLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	text, err := json.Marshal(labels)
	if err != nil {
		panic(fmt.Sprintf("marshal strings: %v", err)) // cannot happen: a map of strings always marshals
	}
	return string(text)
}
