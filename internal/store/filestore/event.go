package filestore

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// eventLog is where a job's log ends.
type eventLog struct {
	// Seq is the number of the newest event, 0 before the first, and Epoch its epoch.
	Seq   int64 `json:"seq"`
	Epoch int64 `json:"epoch,omitempty"`
}

func (l eventLog) position() coordinator.EventID {
	return coordinator.EventID{Epoch: l.Epoch, Seq: l.Seq}
}

// event is an entry of a job's log as it is written; its key is its number.
type event struct {
	Epoch      int64                      `json:"epoch,omitempty"`
	Type       coordinator.EventType      `json:"type"`
	At         int64                      `json:"at"`
	ID         int64                      `json:"id"`
	Status     coordinator.Status         `json:"status,omitempty"`
	Required   int                        `json:"required,omitempty"`
	Acked      int                        `json:"acked,omitempty"`
	Missing    []string                   `json:"missing,omitempty"`
	Deadline   int64                      `json:"deadline,omitempty"`
	DurationMs int64                      `json:"ms,omitempty"`
	Entries    int64                      `json:"entries,omitempty"`
	Bytes      int64                      `json:"bytes,omitempty"`
	Why        coordinator.DeletionReason `json:"why,omitempty"`
	Pinned     bool                       `json:"pinned,omitempty"`
	SetAside   bool                       `json:"aside,omitempty"`
	Failure    *failure                   `json:"failure,omitempty"`
	Failures   int                        `json:"failures,omitempty"`
	By         string                     `json:"by,omitempty"`
}

func (e *event) view(job string, seq int64) coordinator.Event {
	out := coordinator.Event{
		ID: coordinator.EventID{Epoch: e.Epoch, Seq: seq}, Type: e.Type, Job: job, At: e.At, CheckpointID: e.ID,
		Status: e.Status, RequiredTaskAcks: e.Required, AcknowledgedTasks: e.Acked, MissingTasks: e.Missing,
		Deadline: e.Deadline, DurationMs: e.DurationMs, Entries: e.Entries, Bytes: e.Bytes, Why: e.Why, Pinned: e.Pinned, SetAside: e.SetAside,
		ConsecutiveFailures: e.Failures, By: e.By,
	}
	if e.Failure != nil {
		out.Failure = new(coordinator.Failure(*e.Failure))
	}
	return out
}

// log writes an event at the moment of the change that it tells of, so that the order of
// a job's log is that of its changes.
func (s *step) log(j *job, e event) {
	e.Epoch, e.At = j.Epoch, s.now
	j.Log = eventLog{Seq: j.Log.Seq + 1, Epoch: j.Epoch}
	s.putJSON(s.bucket(j.b, bucketEvents), idKey(j.Log.Seq), &e)
	s.touchJob(j)
	if s.logged == nil {
		s.logged = map[*job]int{}
	}
	s.logged[j]++
}

// logCheckpoint writes an event about a checkpoint as it is now.
func (s *step) logCheckpoint(c *checkpoint, what coordinator.EventType, why coordinator.DeletionReason) {
	e := event{Type: what, ID: c.id, Status: c.Status, Required: c.Required, Acked: c.Acked, Why: why, Failure: c.Failure}
	if c.Status == coordinator.StatusCompleted {
		e.Entries, e.Bytes = c.Entries, c.Bytes
	} else {
		e.Missing = c.missing(coordinator.MissingTasksShown)
	}
	if c.Status != coordinator.StatusPending {
		e.DurationMs = max(0, c.EndedAt-c.Start)
	} else if c.TimeoutMs > 0 {
		e.Deadline = c.Start + c.TimeoutMs
	}
	e.Pinned, e.SetAside = what == coordinator.EventUpdated && c.Pinned, what == coordinator.EventUpdated && c.SetAside
	if what != coordinator.EventExpired && why != coordinator.DeletedByRetention {
		e.By = s.by // nobody asks for what time and retention do
	}
	s.log(c.job, e)
}

// trimStep bounds how many events more than it wrote one change trims, so that a lower
// number to keep does not hold up everybody at once.
const trimStep = 100

// trimLogs trims the logs that this change wrote to. It leaves one event more than are to
// be kept: they are asked for as what follows that one.
func (s *step) trimLogs() {
	for j, written := range s.logged {
		s.trim(child(j.b, bucketEvents), j.Noted.eventsToKeep()+1, written+trimStep)
	}
}

// appendJSON puts a value behind the last one of a bucket that is keyed by a counter.
func (s *step) appendJSON(b *bolt.Bucket, value any, keep int) {
	next := int64(0)
	for k := range descend(b, nil) {
		next = idOf(k) + 1
		break
	}
	s.putJSON(b, idKey(next), value)
	s.trim(b, keep, trimStep)
}

// trim removes the lowest keys, not more than most, of a bucket that is keyed by a counter
// without gaps, down to keep.
func (s *step) trim(b *bolt.Bucket, keep, most int) {
	highest := int64(-1)
	for k := range descend(b, nil) {
		highest = idOf(k)
		break
	}
	var over [][]byte
	for k := range ascend(b, nil) {
		if idOf(k) > highest-int64(keep) || len(over) == most {
			break
		}
		over = append(over, k)
	}
	for _, k := range over {
		s.delete(b, k)
	}
}

// Events reads a job's log.
func (s *Store) Events(ctx context.Context, call coordinator.EventsCall) (coordinator.EventsResult, error) {
	return read(ctx, s, func(st *step) (coordinator.EventsResult, error) {
		j := st.job(call.Job)
		if j == nil && call.After != nil {
			// Who followed a job is told of its end.
			if gone := st.remains(call.Job); gone != nil && gone.logHas(*call.After) && gone.Log.position() != *call.After {
				j = gone
			}
		}
		if j == nil {
			return coordinator.EventsResult{}, coordinator.ErrJobNotFound(call.Job)
		}
		result := coordinator.EventsResult{Position: j.Log.position()}
		has := call.After != nil && j.logHas(*call.After)
		if has {
			result.Events, has = j.eventsAfter(call.After.Seq, call.Limit)
		}
		switch {
		case call.After == nil, has:
		default:
			result.Gap = true
			for _, id := range ids(child(j.b, bucketPending)) {
				// One without a whole record takes no acknowledgement.
				if c, err := j.checkpoint(id); err == nil && c != nil && !c.overdue(st.now) {
					result.Pending = append(result.Pending, c.view(st.now))
				}
			}
		}
		return result, nil
	})
}

// eventsAfter reads up to limit events behind a number. whole is false where the next one cannot be read:
// who follows the log is told of the gap.
func (j *job) eventsAfter(seq int64, limit int) (events []coordinator.Event, whole bool) {
	for k, text := range ascend(child(j.b, bucketEvents), idKey(seq+1)) {
		if len(events) == limit {
			break
		}
		var e event
		if err := decode(text, &e); err != nil {
			j.unreadable(j.name, noCheckpoint, fmt.Errorf("read event %d: %w", idOf(k), err))
			return events, len(events) > 0
		}
		events = append(events, e.view(j.name, idOf(k)))
	}
	return events, true
}

// logHas tells whether the log has everything that follows an event: the event itself is
// still there, or nothing was trimmed yet and all of it follows.
func (j *job) logHas(id coordinator.EventID) bool {
	events := child(j.b, bucketEvents)
	if id == (coordinator.EventID{}) {
		for k := range ascend(events, nil) {
			return idOf(k) == 1
		}
		return j.Log.Seq == 0
	}
	var e event
	text := get(events, idKey(id.Seq))
	return id == j.Log.position() || text != nil && decode(text, &e) == nil && e.Epoch == id.Epoch
}
