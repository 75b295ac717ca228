package filestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// ack is a task's accepted acknowledgement.
type ack struct {
	Attempt int64 `json:"a,omitempty"`
	At      int64 `json:"at"`
	// Place is the number of acknowledgements right after this one.
	Place   int    `json:"n"`
	Entries int64  `json:"e,omitempty"`
	Bytes   int64  `json:"b,omitempty"`
	Digest  string `json:"d,omitempty"` // "" for a part without entries
	// Token is that of the call, and Item the place in it: asked again after a lost
	// reply, they find their own acknowledgement and not somebody else's.
	Token string `json:"t,omitempty"`
	Item  int    `json:"i,omitempty"`
}

func (a *ack) info() coordinator.PartInfo {
	return part{Bytes: a.Bytes, Entries: a.Entries, Digest: a.Digest}.info()
}

// latency is the time from the checkpoint's start to the acknowledgement.
func (a *ack) latency(c *checkpoint) int64 { return max(0, a.At-c.Start) }

func (a *ack) view(c *checkpoint, task string) coordinator.Ack {
	return coordinator.Ack{TaskID: task, Attempt: a.Attempt, AcknowledgedAt: a.At, LatencyMs: a.latency(c), Part: a.info()}
}

// ack finds the acknowledgement of a task; nil when there surely is none. Error: coordinator.ErrInconsistent.
func (c *checkpoint) ack(task string) (*ack, error) {
	text := get(child(c.b, bucketAcks), []byte(task))
	if text == nil {
		return nil, nil //nolint:nilnil // None is no error.
	}
	return c.readAck(task, text)
}

func (c *checkpoint) readAck(task string, text []byte) (*ack, error) {
	a := new(ack)
	if err := decode(text, a); err != nil {
		return nil, c.job.inconsistent(c.id, fmt.Sprintf("the acknowledgement of task %q", task), err)
	}
	return a, nil
}

// hasAcked tells whether a task has acknowledged, also where how is not to be read: it must not do so twice.
func (c *checkpoint) hasAcked(task string) bool { return has(child(c.b, bucketAcks), task) }

// Acknowledge applies the items in order as one step.
func (s *Store) Acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	files, err := s.stage(ctx, call)
	if err != nil {
		return coordinator.AckResult{}, err
	}
	used := make([]bool, len(call.Items))
	result, err := mutate(ctx, s, func(st *step) (coordinator.AckResult, error) {
		c, err := st.findToChange(call.Job, call.ID, true)
		if err != nil {
			return coordinator.AckResult{}, err
		}
		if err := c.checkBefore(len(call.Items)); err != nil {
			return coordinator.AckResult{}, err
		}
		wasPending := c.Status == coordinator.StatusPending
		result := coordinator.AckResult{Outcomes: make([]coordinator.AckOutcome, len(call.Items))}
		for i, item := range call.Items {
			word := ackWord{AckItem: item, token: call.Token, place: i, file: files[i]}
			result.Outcomes[i], used[i] = st.acknowledge(c, word)
		}
		if !slices.Contains(used, true) {
			backdate(result.Outcomes)
		}
		result.Status, result.AcknowledgedTasks, result.RequiredTaskAcks = c.Status, c.Acked, c.Required
		if wasPending && c.Status == coordinator.StatusCompleted {
			st.retain(c.job, call.Retention)
		}
		return result, nil
	})
	for i, file := range files {
		if err != nil || !used[i] {
			s.folder.discard(file)
		}
	}
	return result, err
}

// backdate gives the outcomes of a call that came twice the counts of its first time:
// whatever was accepted then says its place again, and what was not counted stood
// between those. It changes nothing where nothing was accepted.
func backdate(outcomes []coordinator.AckOutcome) {
	accepted := func(o coordinator.AckOutcome) bool { return o.Outcome == coordinator.AckAccepted }
	first := slices.IndexFunc(outcomes, accepted)
	if first < 0 {
		return
	}
	count := outcomes[first].AcknowledgedTasks - 1
	for i := range outcomes {
		o := &outcomes[i]
		if accepted(*o) {
			count = o.AcknowledgedTasks
			continue
		}
		o.AcknowledgedTasks, o.Status = count, statusAt(count, o.RequiredTaskAcks)
	}
}

// statusAt is the status of a checkpoint right after so many acknowledgements.
func statusAt(count, required int) coordinator.Status {
	if count >= required {
		return coordinator.StatusCompleted
	}
	return coordinator.StatusPending
}

// ackWord is one task's word as the store takes it.
type ackWord struct {
	coordinator.AckItem
	// token and place identify the word, see ack.
	token string
	place int
	// file has the bytes of a large Part; "" leaves them to the database.
	file string
}

// acknowledge judges one item in the order of refusals and writes it if it is accepted,
// which may complete the checkpoint. took tells that its part is the task's part now.
func (s *step) acknowledge(c *checkpoint, word ackWord) (outcome coordinator.AckOutcome, took bool) {
	outcome = coordinator.AckOutcome{TaskID: word.TaskID, RequiredTaskAcks: c.Required}
	before, unread := c.ack(word.TaskID)
	refusal := c.checkSender(word.TaskID, word.Epoch, word.Attempt)
	switch {
	case unread != nil:
		refusal = asRefusal(unread)
	case before != nil && word.token != "" && before.Token == word.token && before.Item == word.place:
		return s.acknowledgedBefore(c, outcome, before), false
	case refusal != nil:
	case c.Status == coordinator.StatusExpired, c.Status == coordinator.StatusAborted:
		refusal = s.late(c)
	case before != nil && word.differs(before):
		refusal = coordinator.ErrAckConflict(c.id, word.TaskID)
	case before != nil:
		outcome.Outcome = coordinator.AckDuplicate
	case c.Status == coordinator.StatusCompleted:
		refusal = s.late(c)
	default:
		counts, stored, err := word.counts(c)
		if err != nil {
			refusal = asRefusal(err)
			break
		}
		if word.Digest != "" && (!stored || word.Digest != counts.Digest) {
			refusal = coordinator.ErrPartChanged(c.id, word.TaskID, counts.Digest)
			break
		}
		outcome.Outcome, took = coordinator.AckAccepted, true
		outcome.LatencyMs = s.accept(c, word, counts)
	}
	if refusal != nil {
		outcome.Outcome, outcome.Refusal = coordinator.AckRefused, refusal
	}
	outcome.Status, outcome.AcknowledgedTasks = c.Status, c.Acked
	return outcome, took
}

// acknowledgedBefore answers what the same call was answered, though its reply was lost.
func (s *step) acknowledgedBefore(c *checkpoint, outcome coordinator.AckOutcome, before *ack) coordinator.AckOutcome {
	outcome.Outcome, outcome.Status = coordinator.AckAccepted, statusAt(before.Place, c.Required)
	outcome.AcknowledgedTasks, outcome.LatencyMs = before.Place, before.latency(c)
	return outcome
}

// checkSender is the part of the order of refusals that is about who sends a message and
// not about what has become of the checkpoint. Task "" is nobody.
func (c *checkpoint) checkSender(task string, epoch *int64, attempt int64) *coordinator.Error {
	if task != "" && !c.expects(task) {
		return coordinator.ErrTaskNotExpected(c.id, task)
	}
	if epoch != nil && *epoch != c.job.Epoch {
		return coordinator.ErrStaleEpoch(*epoch, c.job.Epoch)
	}
	if task != "" {
		if highest := c.job.highestAttempt(task); attempt < highest {
			return coordinator.ErrStaleAttempt(task, attempt, highest)
		}
	}
	return nil
}

// differs tells whether a repeat means another part than the one that was acknowledged.
func (w *ackWord) differs(before *ack) bool {
	named := w.Digest
	if w.Part != nil {
		named = w.Part.Digest
	}
	return named != "" && named != before.info().Digest
}

// counts gives the part that would count: the one handed in, else the uploaded one, else
// an empty one. stored is false for the last; its digest is "" then.
func (w *ackWord) counts(c *checkpoint) (info coordinator.PartInfo, stored bool, err error) {
	if w.Part != nil {
		return coordinator.PartInfo{Entries: w.Part.Entries, Bytes: int64(len(w.Part.Content)), Digest: w.Part.Digest}, true, nil
	}
	uploaded, err := c.staged(w.TaskID)
	if uploaded != nil {
		return uploaded.info(), true, nil
	}
	return coordinator.PartInfo{}, false, err
}

// asRefusal is the refusal that err is.
func asRefusal(err error) *coordinator.Error {
	if refusal, is := errors.AsType[*coordinator.Error](err); is {
		return refusal
	}
	return coordinator.ErrInternal(err)
}

// accept writes an acknowledgement and completes the checkpoint if it was the last one.
// It gives the latency in ms.
func (s *step) accept(c *checkpoint, word ackWord, counts coordinator.PartInfo) int64 {
	if c.Staged > 0 && has(child(c.b, bucketParts), word.TaskID) {
		c.Staged--
	}
	if word.Part != nil {
		if word.file != "" {
			s.setPart(c, word.TaskID, newPart(word.file, counts, true), nil)
		} else {
			s.setPart(c, word.TaskID, newPart("", counts, false), word.Part.Content)
		}
	}
	c.Acked++
	c.Entries += counts.Entries
	c.Bytes += counts.Bytes
	given := ack{
		Attempt: word.Attempt, At: s.now, Place: c.Acked, Entries: counts.Entries, Bytes: counts.Bytes,
		Digest: newPart("", counts, false).Digest, Token: word.token, Item: word.place,
	}
	task := []byte(word.TaskID)
	s.putJSON(s.bucket(c.b, bucketAcks), task, &given)
	if c.Named {
		s.delete(child(c.b, bucketMissing), task)
	}
	s.hearAttempt(c.job, word.TaskID, word.Attempt)
	s.bump(c)
	if c.Acked >= c.Required {
		s.complete(c, word.TaskID)
	}
	return given.latency(c)
}

// stage writes large parts to files before the step that counts them, since a record
// names a file only when it is whole. What that step will refuse anyway is not written.
// It gives the files by the index of their items; the caller discards those that the
// step did not take.
func (s *Store) stage(ctx context.Context, call coordinator.AckCall) (map[int]string, error) {
	var large []int
	for i, item := range call.Items {
		if item.Part != nil && len(item.Part.Content) > InlineBytes {
			large = append(large, i)
		}
	}
	if len(large) == 0 {
		return nil, nil //nolint:nilnil // No file is no error.
	}
	wanted, err := read(ctx, s, func(st *step) ([]int, error) {
		c, err := st.find(coordinator.Ref{Job: call.Job, ID: call.ID}, false)
		if err != nil || c.at(st.now).Status != coordinator.StatusPending {
			return nil, nil //nolint:nilerr // The step itself gives the refusal.
		}
		return slices.DeleteFunc(large, func(i int) bool { return c.hasAcked(call.Items[i].TaskID) }), nil
	})
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	files := map[int]string{}
	for _, i := range wanted {
		files[i] = newName()
		if err = s.folder.write(files[i], call.Items[i].Part.Content); err != nil {
			break
		}
	}
	if err == nil {
		err = s.folder.sync()
	}
	if err != nil {
		for _, name := range files {
			s.folder.discard(name, name+partial)
		}
		return nil, storageError(err)
	}
	return files, nil
}
