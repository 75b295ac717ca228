package redisstore

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// reply is what every script answers, see lua/prelude.lua.
type reply struct {
	word    string
	now     int64
	body    []any
	ended   []coordinator.Transition
	evicted []int64
	before  []coordinator.Transition
}

// parseReply reads the reply of a script; an error is CodeInternal.
func parseReply(verb, job string, value any) (reply, error) {
	top, _ := value.([]any)
	c := cursor{values: top}
	r := reply{word: c.text(), now: c.number(), body: c.list()}
	if c.err == nil && !c.more() {
		return r, nil
	}
	ended, evicted, before := cursor{values: c.list()}, cursor{values: c.list()}, cursor{values: c.list()}
	r.ended, r.evicted, r.before = ended.transitions(job), evicted.numbers(), before.transitions(job)
	if err := errors.Join(c.err, ended.err, evicted.err, before.err); err != nil {
		return reply{}, coordinator.ErrInternal(fmt.Errorf("reply of script %s: %w", verb, err))
	}
	return r, nil
}

// cursor walks over the values of a reply. The first value that is not of the wanted
// kind stops it: err is set, and everything after is zero.
type cursor struct {
	values []any
	err    error
}

// more tells whether values are left.
func (c *cursor) more() bool { return c.err == nil && len(c.values) > 0 }

func (c *cursor) next() any {
	if c.err == nil && len(c.values) == 0 {
		c.err = errors.New("the reply is too short")
	}
	if c.err != nil {
		return nil
	}
	value := c.values[0]
	c.values = c.values[1:]
	return value
}

// text takes a string.
func (c *cursor) text() string {
	value := c.next()
	text, ok := value.(string)
	if !ok && c.err == nil {
		c.err = fmt.Errorf("%T in place of a string", value)
	}
	return text
}

// number takes a decimal string, or an integer.
func (c *cursor) number() int64 {
	value := c.next()
	if n, ok := value.(int64); ok {
		return n
	}
	text, ok := value.(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if (!ok || err != nil) && c.err == nil {
		c.err = fmt.Errorf("%q in place of a number", fmt.Sprint(value))
	}
	return n
}

// id takes a number that may be absent, as the empty string.
func (c *cursor) id() *int64 {
	if len(c.values) > 0 && c.values[0] == "" {
		c.next()
		return nil
	}
	n := c.number()
	if c.err != nil {
		return nil
	}
	return &n
}

// list takes a nested array.
func (c *cursor) list() []any {
	value := c.next()
	list, ok := value.([]any)
	if !ok && c.err == nil {
		c.err = fmt.Errorf("%T in place of an array", value)
	}
	return list
}

// numbers takes all values that are left, as numbers.
func (c *cursor) numbers() []int64 {
	var all []int64
	for c.more() {
		all = append(all, c.number())
	}
	return all
}

// transitions takes all values that are left, as ends of a job's checkpoints.
func (c *cursor) transitions(job string) []coordinator.Transition {
	var all []coordinator.Transition
	for c.more() {
		all = append(all, coordinator.Transition{
			Job: job, ID: c.number(), Status: coordinator.Status(c.text()),
			Reason: coordinator.FailureReason(c.text()), DurationMs: c.number(), AcknowledgedTasks: int(c.number()),
		})
	}
	return all
}

// badReply is for a reply that this server does not understand.
func badReply(verb string, r reply, err error) error {
	return coordinator.ErrInternal(fmt.Errorf("reply %q of script %s: %w", r.word, verb, err))
}

// errWord is for a word that the script's header does not name.
var errWord = errors.New("unknown word")

// refusal turns the refusals that scripts share into the domain's. Words of one script's
// own are for the switch of its method, which ends here: an unknown word is CodeInternal.
func refusal(verb, job string, id int64, r reply) error {
	c := cursor{values: r.body}
	err := parseRefusal(job, id, r.word, &c)
	if c.err != nil {
		return badReply(verb, r, c.err)
	}
	if err == nil {
		return badReply(verb, r, errWord)
	}
	return err
}

// parseRefusal reads a refusal's arguments; nil is an unknown word.
func parseRefusal(job string, id int64, word string, c *cursor) *coordinator.Error {
	switch coordinator.Code(word) {
	case coordinator.CodeJobNotFound:
		return coordinator.ErrJobNotFound(job)
	case coordinator.CodeCheckpointNotFound:
		return withNextSteps(coordinator.ErrCheckpointNotFound(job, id), c)
	case coordinator.CodeCheckpointDeleted:
		return withNextSteps(coordinator.ErrCheckpointDeleted(job, id), c)
	case coordinator.CodeNoCompletedCheckpoint:
		return coordinator.ErrNoCompletedCheckpoint(job)
	case coordinator.CodeTaskNotExpected:
		return coordinator.ErrTaskNotExpected(id, c.text())
	case coordinator.CodeStaleEpoch:
		given, current := c.number(), c.number()
		return coordinator.ErrStaleEpoch(given, current)
	case coordinator.CodeStaleAttempt:
		task, given, highest := c.text(), c.number(), c.number()
		return coordinator.ErrStaleAttempt(task, given, highest)
	case coordinator.CodeAckConflict:
		return coordinator.ErrAckConflict(id, c.text())
	case coordinator.CodePartChanged:
		task, have := c.text(), c.text()
		return coordinator.ErrPartChanged(id, task, have)
	case coordinator.CodeCheckpointExpired:
		return withNextSteps(coordinator.ErrEnded(id, coordinator.StatusExpired), c)
	case coordinator.CodeCheckpointAborted:
		return withNextSteps(coordinator.ErrEnded(id, coordinator.StatusAborted), c)
	case coordinator.CodeCheckpointCompleted:
		return withNextSteps(coordinator.ErrEnded(id, coordinator.StatusCompleted), c)
	case coordinator.CodePreconditionFailed:
		return coordinator.ErrPreconditionFailed()
	case coordinator.CodePinned:
		return coordinator.ErrPinned(id)
	case coordinator.CodeAllSetAside:
		return coordinator.ErrAllSetAside(c.number())
	case wordDamaged:
		return coordinator.ErrSnapshotDamaged(c.number(), c.text(), errNotAsRecorded)
	case wordInconsistent:
		return coordinator.ErrInconsistent(c.number(), c.text(), errNotAsRecorded)
	case coordinator.CodeUnsupportedVersion:
		return coordinator.ErrUnsupportedVersion(c.number(), int(c.number()))
	default:
		return nil
	}
}

// withNextSteps adds the ids that a late refusal carries.
func withNextSteps(e *coordinator.Error, c *cursor) *coordinator.Error {
	if !c.more() {
		return e
	}
	current, latest := c.id(), c.id()
	return e.WithNextSteps(current, latest)
}
