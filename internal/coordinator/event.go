package coordinator

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// EventType says what happened.
type EventType string

// The events of a job's log. Each is written in the same atomic step as the change.
const (
	EventTriggered EventType = "checkpoint.triggered"
	EventCompleted EventType = "checkpoint.completed"
	EventExpired   EventType = "checkpoint.expired"
	EventAborted   EventType = "checkpoint.aborted"
	EventExtended  EventType = "checkpoint.extended"
	EventUpdated   EventType = "checkpoint.updated"
	EventDeleted   EventType = "checkpoint.deleted"
	EventRecovered EventType = "job.recovered_epoch"
	EventFailing   EventType = "job.failing"
	EventHealthy   EventType = "job.healthy"
	// EventConfigured tells of other settings, EventJobDeleted that the job is gone; it comes last.
	EventConfigured EventType = "job.configured"
	EventJobDeleted EventType = "job.deleted"
)

// EventTypes lists every type once.
func EventTypes() []EventType {
	return []EventType{
		EventTriggered, EventCompleted, EventExpired, EventAborted, EventExtended, EventUpdated, EventDeleted,
		EventRecovered, EventFailing, EventHealthy, EventConfigured, EventJobDeleted,
	}
}

// EventID is an event's place in its job's log. Seq is counted through all epochs and
// begins at 1; it may leave gaps after a store lost what it had confirmed. The zero
// EventID stands before the first event.
type EventID struct{ Epoch, Seq int64 }

// String gives "<epoch>-<seq>".
func (id EventID) String() string {
	return strconv.FormatInt(id.Epoch, 10) + "-" + strconv.FormatInt(id.Seq, 10)
}

// Compare orders ids as the log does.
func (id EventID) Compare(other EventID) int {
	return cmp.Or(cmp.Compare(id.Epoch, other.Epoch), cmp.Compare(id.Seq, other.Seq))
}

var eventIDPattern = regexp.MustCompile(`^(0|[1-9][0-9]{0,15})-(0|[1-9][0-9]{0,15})$`)

// ParseEventID reads what String gave; its error is a [ViolationError].
func ParseEventID(text string) (EventID, error) {
	epoch, seq, _ := strings.Cut(text, "-")
	var id EventID
	id.Epoch, _ = strconv.ParseInt(epoch, 10, 64) // the pattern says whether they are numbers
	id.Seq, _ = strconv.ParseInt(seq, 10, 64)
	if !eventIDPattern.MatchString(text) || id.Epoch > MaxID || id.Seq > MaxID {
		return EventID{}, ViolationError(fmt.Sprintf("An event id is <epoch>-<seq>, as in the id of an event; %q is not.", shorten(text)))
	}
	return id, nil
}

// shorten bounds what is quoted of a wrong value.
func shorten(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Event is one entry of a job's log. The epoch of its ID is the job's epoch then. What
// is about a checkpoint is as it was right after the change.
type Event struct {
	ID   EventID
	Type EventType
	Job  string
	// At is the store's clock (Unix ms).
	At int64

	// CheckpointID is the checkpoint of checkpoint.…; the one to go on from of
	// job.recovered_epoch; the last failed or completed one of job.failing and
	// job.healthy; < 0 is none.
	CheckpointID int64

	// The following are set for checkpoint.… only.
	Status            Status
	RequiredTaskAcks  int
	AcknowledgedTasks int
	// MissingTasks are the first MissingTasksShown named tasks that have not acknowledged,
	// for one that is not completed.
	MissingTasks []string
	// Deadline is when a pending one expires (Unix ms); 0 is never, and for all that ended.
	Deadline int64
	// DurationMs is how long it was pending, for one that ended.
	DurationMs int64
	// Entries and Bytes are the snapshot's, for a completed one.
	Entries, Bytes int64
	// Why is set for checkpoint.deleted.
	Why DeletionReason
	// Pinned and SetAside are set for checkpoint.updated: whether it is pinned, and set aside, now.
	Pinned, SetAside bool

	// Failure is why it ended, for an expired or aborted one; the last one of job.failing.
	Failure *Failure
	// ConsecutiveFailures is set for job.failing: how many failed in a row.
	ConsecutiveFailures int

	// By is who asked for the change; "" where no call did (what workers hand in, time, retention
	// and the schedule bring about), or nobody is known by name.
	By string

	rendered *rendering
}

// rendering is what an event was made into, once for all who send it.
type rendering struct {
	once  sync.Once
	bytes []byte
}

// Rendered gives what render makes of the event, and makes it once for all who ask, as
// far as the event came from memory. The bytes are shared: to be read only.
func (e *Event) Rendered(render func(*Event) []byte) []byte {
	if e.rendered == nil {
		return render(e)
	}
	e.rendered.once.Do(func() { e.rendered.bytes = render(e) })
	return e.rendered.bytes
}

// TriggeredEvent is what told, or would have told, of a checkpoint that is pending now; it
// has no place in the log.
func TriggeredEvent(c *Checkpoint) Event {
	e := Event{
		Type: EventTriggered, Job: c.Job, At: c.ObservedAt, CheckpointID: c.ID, Status: c.Status,
		RequiredTaskAcks: c.RequiredTaskAcks, AcknowledgedTasks: c.AcknowledgedTasks, MissingTasks: c.MissingTasks,
	}
	e.ID.Epoch = c.Epoch
	if deadline, expires := c.Deadline(); expires {
		e.Deadline = deadline
	}
	return e
}

// EventsCall reads a job's log.
type EventsCall struct {
	Job string
	// After is the last event that the caller has; nil asks for the position only.
	After *EventID
	// Limit is how many events to answer at most; 1 … MaxEvents.
	Limit int
}

// EventsResult is what follows After, oldest first.
type EventsResult struct {
	Events []Event
	// Position is the newest event of the log, zero for an empty one.
	Position EventID
	// Gap tells that After is not in the log: it was trimmed, never given, or lies behind
	// its end. Events is empty then, and Pending has the checkpoints that are pending at
	// Position, oldest first. The zero EventID is in the log until the first is trimmed.
	Gap     bool
	Pending []Checkpoint
}
