package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var acknowledgeScript = newScript("acknowledge", quickAckPreludes)

// Acknowledge applies the items in order as one step. Calls that come while others are on their way
// go together, see coalescer.
func (s *Store) Acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	size := partBytes(call.Items)
	if len(call.Items) > soloItems || size > soloBytes {
		return s.acknowledge(ctx, call)
	}
	if q := s.acks.enter(call, size); q != nil {
		return s.wait(ctx, q)
	}
	defer s.leave()
	return s.acknowledge(ctx, call)
}

// partBytes is how long the parts are that come with the items.
func partBytes(items []coordinator.AckItem) int {
	sum := 0
	for i := range items {
		if part := items[i].Part; part != nil {
			sum += len(part.Content)
		}
	}
	return sum
}

// acknowledge sends a call by itself.
func (s *Store) acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	a, _ := s.acks.buffers.Get().(*ackArgs)
	if a == nil {
		a = new(ackArgs)
	}
	defer func() {
		a.forget()
		s.acks.buffers.Put(a)
	}()
	a.begin(s, call, call.Token, len(call.Items))
	for i := range call.Items {
		a.add(&call.Items[i])
	}
	a.end()
	value, again, err := s.send(ctx, acknowledgeScript, repeatable, a.args, false)
	if value == nil && err != nil {
		return coordinator.AckResult{}, err
	}
	r, acks, bad := s.receiveAcks(call.Job, call.ID, len(call.Items), value, again)
	if err = earlier(err, bad); err != nil {
		return coordinator.AckResult{}, err
	}
	if r.word != wordOK {
		return coordinator.AckResult{}, refusal(acknowledgeScript.verb, call.Job, call.ID, r)
	}
	result, err := acks.result(call.Items, make([]coordinator.AckOutcome, 0, len(call.Items)))
	if err != nil {
		return coordinator.AckResult{}, badReply(acknowledgeScript.verb, r, err)
	}
	return result, nil
}

// receiveAcks reads the reply of acknowledge.lua; the outcomes are there where its word is ok.
func (s *Store) receiveAcks(job string, id int64, items int, value any, again bool) (reply, ackReply, error) {
	r, err := s.receive(acknowledgeScript, job, value, again)
	if err == nil && again {
		err = vanished(acknowledgeScript, r)
	}
	if err != nil || r.word != wordOK {
		return r, ackReply{}, err
	}
	s.floors.see(job, floor{id: id})
	acks, err := readAcks(job, id, r.body, items)
	if err != nil {
		return r, acks, badReply(acknowledgeScript.verb, r, err)
	}
	return r, acks, nil
}

// ackArgs are the arguments of EVALSHA for acknowledge.lua. Most items differ from the first by
// nothing but their task, and take one argument.
type ackArgs struct {
	args []any
	// details are what items say besides their task; they follow all tasks.
	details []any
	items   int
	attempt int64
	epoch   *int64
}

// begin takes what concerns all items, which add takes then. "" is a new token.
func (a *ackArgs) begin(s *Store, call coordinator.AckCall, token string, items int) {
	a.items = 0
	a.args = append(a.args[:0], "evalsha", s.form(acknowledgeScript).hash, 1, s.keys(call.Job).job(), nil,
		call.ID, orNewToken(token), retentionText(call.Retention), items)
}

// add takes the next item. It is not copied, and must stay as it is until the call is over.
func (a *ackArgs) add(item *coordinator.AckItem) {
	a.items++
	if a.items == 1 {
		a.attempt, a.epoch = item.Attempt, item.Epoch
		a.args = append(a.args, a.attempt, epochArg(a.epoch))
	}
	a.args = append(a.args, &item.TaskID)
	if item.Part == nil && item.Digest == "" && item.Attempt == a.attempt && sameEpoch(item.Epoch, a.epoch) {
		return
	}
	a.details = append(a.details, a.items, item.Attempt, epochArg(item.Epoch), item.Digest)
	if item.Part == nil {
		a.details = append(a.details, "")
		return
	}
	rest := item.Part.Content
	a.details = append(a.details, chunksOf(int64(len(rest))), len(rest), item.Part.Entries, item.Part.Digest)
	for len(rest) > 0 {
		n := min(len(rest), coordinator.ChunkBytes)
		a.details = append(a.details, rest[:n])
		rest = rest[n:]
	}
}

// end makes args whole.
func (a *ackArgs) end() { a.args = append(a.args, a.details...) }

// mostKept is how many arguments keep their room for the next call.
const mostKept = 4096

// forget lets go of what the arguments point to.
func (a *ackArgs) forget() {
	if cap(a.args) > mostKept {
		*a = ackArgs{}
		return
	}
	clear(a.args)
	clear(a.details)
	a.args, a.details, a.epoch = a.args[:0], a.details[:0], nil
}

// epochArg is an epoch as an argument: "" is not checked.
func epochArg(epoch *int64) any {
	if epoch == nil {
		return ""
	}
	return *epoch
}

func sameEpoch(a, b *int64) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// ackReply is the body that outcomes of prelude_judge.lua gives, and how far it has been read. The
// count and the status as of an item's own place follow from the items before it.
type ackReply struct {
	job      string
	id       int64
	status   coordinator.Status
	acked    int
	required int
	latency  int64
	flags    string
	details  cursor
}

// The letters of prelude_judge.lua.
const (
	flagAccepted  = 'a'
	flagDuplicate = 'd'
	flagRefused   = 'r'
	flagKnown     = 'k'
)

// readAcks begins to read a body for as many items.
func readAcks(job string, id int64, body []any, items int) (ackReply, error) {
	c := cursor{values: body}
	r := ackReply{job: job, id: id, status: coordinator.Status(c.text())}
	_, r.required = c.number(), int(c.number())
	r.acked, r.latency, r.flags = int(c.number()), c.number(), c.text()
	r.details = cursor{values: c.list()}
	if c.err == nil && len(r.flags) != items {
		c.err = fmt.Errorf("%d outcomes for %d items", len(r.flags), items)
	}
	// What accepts anything was pending when it began.
	for i := range len(r.flags) {
		if r.flags[i] == flagAccepted {
			r.status = coordinator.StatusPending
			break
		}
	}
	return r, c.err
}

// next reads the outcome of the next item.
func (r *ackReply) next(task string) (coordinator.AckOutcome, error) {
	flag := r.flags[0]
	r.flags = r.flags[1:]
	outcome := coordinator.AckOutcome{TaskID: task, RequiredTaskAcks: r.required}
	switch flag {
	case flagAccepted:
		r.acked++
		outcome.Outcome, outcome.LatencyMs = coordinator.AckAccepted, r.latency
		r.completeAt(r.acked)
	case flagKnown:
		c := cursor{values: r.details.list()}
		outcome.Outcome = coordinator.AckAccepted
		r.acked, outcome.LatencyMs = int(c.number()), c.number()
		// It was pending then, whatever became of it afterwards.
		r.status = coordinator.StatusPending
		r.completeAt(r.acked)
		r.details.err = errors.Join(r.details.err, c.err)
	case flagDuplicate:
		outcome.Outcome = coordinator.AckDuplicate
	case flagRefused:
		c := cursor{values: r.details.list()}
		outcome.Outcome, outcome.Refusal = coordinator.AckRefused, parseRefusal(r.job, r.id, c.text(), &c)
		if outcome.Refusal == nil && c.err == nil {
			c.err = errWord
		}
		r.details.err = errors.Join(r.details.err, c.err)
	default:
		r.details.err = errors.Join(r.details.err, fmt.Errorf("outcome %s", strconv.QuoteRune(rune(flag))))
	}
	outcome.AcknowledgedTasks, outcome.Status = r.acked, r.status
	return outcome, r.details.err
}

func (r *ackReply) completeAt(place int) {
	if place >= r.required {
		r.status = coordinator.StatusCompleted
	}
}

// result reads the outcomes of as many items as outcomes has room for. It says where the checkpoint
// stands after them, whatever items follow.
func (r *ackReply) result(items []coordinator.AckItem, outcomes []coordinator.AckOutcome) (coordinator.AckResult, error) {
	for i := range items {
		outcome, err := r.next(items[i].TaskID)
		if err != nil {
			return coordinator.AckResult{}, err
		}
		outcomes = append(outcomes, outcome)
	}
	return coordinator.AckResult{
		Outcomes: outcomes, Status: r.status, AcknowledgedTasks: r.acked, RequiredTaskAcks: r.required,
	}, nil
}
