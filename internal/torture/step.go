package torture

import (
	"fmt"
	"slices"
	"strings"
)

// step gives every state that the job may be in after a call with this answer: none where
// the design does not allow it.
//
// A call without an answer is noted, and may happen before any later one: trying all places
// for it by themselves would take the search for ever. It need not happen before a read that
// is explained without it and leaves the job as it was, since it still may afterwards. One that
// tells of an expiry may be the last chance.
//
// Where a failover takes back what no replica had, a read or a refusal may have told of a call
// without an answer that has not happened after all, or happens again later.
//
// Reads, and triggers that find what an earlier one made, only derive that a deadline has
// passed. Where the clock is set back they may derive something else later, until a change or
// the sweeper has written it, so that there they decide nothing.
func (j job) step(in input, out output) []job {
	if out.Unknown {
		j.open = append(slices.Clip(j.open), &in)
		return []job{j.sealed()}
	}
	reads := !in.Verb.changes()
	takenBack := false
	var next []job
	ways := []job{j}
	for i := 0; i < len(ways); i++ {
		explained := ways[i].after(in, out)
		takenBack = takenBack || i > 0 && len(explained) > 0 && in.takesBack && (reads || out.Code != "")
		for _, j := range explained {
			next = append(next, j.sealed())
		}
		if reads && slices.ContainsFunc(explained, ways[i].equal) {
			continue
		}
		for _, way := range ways[i].happening(in.until) {
			if !slices.ContainsFunc(ways, way.equal) {
				ways = append(ways, way)
			}
		}
	}
	if takenBack && !slices.ContainsFunc(next, j.equal) {
		next = append(next, j)
	}
	if decides := !reads && (in.Verb != trigger || !out.Again); in.timeless && !decides && len(next) > 0 {
		return []job{j}
	}
	return next
}

// happening are the states after one of the calls without an answer made a difference.
func (j job) happening(until int64) []job {
	var next []job
	for i, in := range j.open {
		now := *in
		now.until = min(now.until, until)
		for _, after := range j.after(now, output{Unknown: true}) {
			if !after.sealed().equal(j) {
				after.open = slices.Delete(slices.Clone(j.open), i, i+1)
				next = append(next, after.sealed())
			}
		}
	}
	return next
}

func (j job) after(in input, out output) []job {
	switch in.Verb {
	case trigger:
		return j.trigger(in, out)
	case recovery:
		return j.recover(in, out)
	case cleanup:
		return j.cleanup(in, out)
	case list:
		return j.list(in, out)
	case latest:
		return j.ofLatest(show, out)
	case restore:
		if in.ID == newest {
			return j.ofLatest(func(c *cut) output { return output{ID: c.id, Text: c.stream()} }, out)
		}
	default: // about one checkpoint
	}
	var next []job
	for _, seen := range j.views(in, in.ID) {
		answer, after := seen.apply(in)
		if out.allows(answer) {
			next = append(next, after)
		}
	}
	return next
}

// views are the states that the job may be in when the call looks at a checkpoint: the
// deadline may have passed, retention may have taken it.
func (j job) views(in input, id int64) []job {
	c := j.find(id)
	switch {
	case c == nil:
		return []job{j}
	case c.doomed:
		return []job{j, j.without(id)}
	case c.status == ended:
		return []job{j.as(c, expired), j.as(c, aborted)}
	case c.status != pending:
		return []job{j}
	}
	var views []job
	if in.from <= c.latest {
		views = append(views, j)
	}
	if in.until >= c.earliest && c.earliest != never {
		views = append(views, j.as(c, expired))
	}
	return views
}

// as gives the job after a checkpoint has ended uncompleted.
func (j job) as(c *cut, status string) job {
	changed := *c
	changed.status = status
	changed.shared, changed.uploaded = nil, nil
	// Parts go too, but a repeated acknowledgement is refused anyway.
	return j.with(changed)
}

// show is a checkpoint as most answers have it.
func show(c *cut) output {
	return output{ID: c.id, Epoch: c.epoch, Status: c.status, Acks: len(c.acks)}
}

// gone is the refusal for a checkpoint that is not there. A client knows an id only from an
// answer, so that it was given.
func gone() output { return refused("checkpoint_deleted") }

// apply is the step of a call about one checkpoint whose status is certain.
func (j job) apply(in input) (output, job) {
	c := j.find(in.ID)
	if c == nil {
		return gone(), j
	}
	changed := *c
	switch in.Verb {
	case ack, upload:
		return j.handIn(in, c)
	case put, create, patch, erase:
		return j.write(in, c)
	case complete:
		switch {
		case c.over():
			return refused("checkpoint_" + c.status), j
		case c.status == completed:
			return show(c), j
		case !in.Force && len(c.acks) < required:
			return refused("acks_missing"), j
		}
		done := j.complete(in, changed)
		changed.status = completed
		return show(&changed), done
	case abort:
		switch c.status {
		case completed, expired:
			return refused("checkpoint_" + c.status), j
		case pending:
			changed.status = aborted
			return show(&changed), j.as(c, aborted)
		}
		return show(c), j
	case extend:
		if c.status != pending {
			return refused("checkpoint_" + c.status), j
		}
		if c.earliest != never {
			changed.earliest = max(c.earliest, after(in.from, in.TimeoutMs))
			changed.latest = max(c.latest, after(in.until, in.TimeoutMs))
		}
		return show(c), j.with(changed)
	case remove:
		if c.pinned && !in.Force {
			return refused("pinned"), j
		}
		return output{}, j.without(c.id)
	case pin, unpin:
		changed.pinned, changed.doomed = in.Verb == pin, false
		after := j.with(changed)
		if !changed.pinned && c.status == completed {
			after = after.retain(nil, true) // nothing goes at once, and the sweeper may come any time
		}
		return show(c), after
	case get:
		answer := show(c)
		answer.Text = c.receipts()
		return answer, j
	case shared:
		if c.over() {
			return refused("checkpoint_" + c.status), j
		}
		return output{ID: c.id, Status: c.status, Text: c.document()}, j
	case restore:
		if c.status != completed {
			return refused("checkpoint_not_completed"), j
		}
		return output{ID: c.id, Text: c.stream()}, j
	default:
		return refused("no verb of the model"), j
	}
}

// handIn is the step of an acknowledgement or an upload.
func (j job) handIn(in input, c *cut) (output, job) {
	before, acked := find(c.acks, in.Task)
	switch {
	case in.Epoch >= 0 && in.Epoch != j.epoch:
		return refused("stale_epoch"), j
	case c.over():
		return refused("checkpoint_" + c.status), j
	case acked && in.Verb == ack && (in.Value == "" || in.Value == before):
		return output{ID: c.id, Status: c.status, Acks: len(c.acks), Again: true}, j
	case acked:
		return refused("ack_conflict"), j
	case c.status == completed:
		return refused("checkpoint_completed"), j
	}
	changed := *c
	if in.Verb == upload {
		changed.uploaded = with(c.uploaded, in.Task, in.Value)
		return output{}, j.with(changed)
	}
	part := in.Value
	if part == "" {
		part, _ = find(c.uploaded, in.Task)
	}
	changed.acks, changed.uploaded = with(c.acks, in.Task, part), without(c.uploaded, in.Task)
	if len(changed.acks) < required {
		return output{ID: c.id, Status: pending, Acks: len(changed.acks)}, j.with(changed)
	}
	return output{ID: c.id, Status: completed, Acks: len(changed.acks)}, j.complete(in, changed)
}

// write is the step of a change of shared state.
func (j job) write(in input, c *cut) (output, job) {
	if c.status != pending {
		return refused("checkpoint_" + c.status), j
	}
	changed := *c
	_, there := find(c.shared, in.Key)
	switch {
	case in.Verb == create && there:
		return refused("precondition_failed"), j
	case in.Verb == erase && !there:
		return refused("key_not_found"), j
	case in.Verb == erase:
		changed.shared = without(c.shared, in.Key)
		return output{}, j.with(changed)
	case in.Verb == patch:
		for _, key := range keys {
			changed.shared = with(changed.shared, key, in.Value)
		}
		return output{}, j.with(changed)
	}
	changed.shared = with(c.shared, in.Key, in.Value)
	return output{Again: there}, j.with(changed)
}

// keys are those of the shared state.
var keys = []string{"left", "right"}

// complete gives the job after a checkpoint completed and retention was applied.
func (j job) complete(in input, c cut) job {
	c.status, c.uploaded = completed, nil
	return j.with(c).retain(in.lent, false)
}

// retain applies retention: what is beyond the newest goes, unless a restore may hold it,
// in which case it goes some time; later means that all of it goes some time.
func (j job) retain(lent []int64, later bool) job {
	if j.keep == 0 {
		return j
	}
	newer, perhaps := 0, 0 // completed unpinned ones above, and how many more of them may be there
	for _, c := range slices.Backward(slices.Clone(j.cuts)) {
		if c.status != completed || c.pinned {
			continue
		}
		switch {
		case newer+perhaps < j.keep:
		case c.held:
		case newer >= j.keep && !later && !slices.Contains(lent, c.id):
			j = j.without(c.id)
			continue
		default:
			doomed := *c
			doomed.doomed = true
			j = j.with(doomed)
			perhaps++
			continue
		}
		if c.doomed {
			perhaps++
		} else {
			newer++
		}
	}
	return j
}

// targetDeleted is the refusal for a key whose checkpoint is not there any more.
func targetDeleted(k keyed) output {
	return output{Code: "idempotency_target_deleted", ID: k.id}
}

// trigger is the step of a trigger.
func (j job) trigger(in input, out output) []job {
	if k, known := j.key(trigger, in.Name); known {
		var next []job
		for _, seen := range j.views(in, k.id) {
			answer := targetDeleted(k)
			if c := seen.find(k.id); c != nil {
				answer = show(c)
				answer.Again = true
			}
			if out.allows(answer) {
				next = append(next, seen)
			}
		}
		return next
	}
	ids := []int64{out.ID}
	var next []job
	if out.Unknown {
		ids = in.made
		next = append(next, j) // it did not happen, or nobody has seen what came of it
	} else if out.Code != "" || out.Again || out.Epoch != j.epoch {
		return nil
	}
	// Where the first reply of the store was lost, the answer tells of what has become of the
	// checkpoint since: another status and acknowledgements decide nothing.
	for _, id := range ids {
		// Gaps are normal, an id that was given is not; nor one above others that are known to be
		// given later, which only saves the search from finding that out much later.
		between := func(known int64) bool { return j.next <= known && known < id }
		if id < j.next || slices.ContainsFunc(in.ids, between) {
			continue
		}
		c := cut{id: id, epoch: j.epoch, status: pending, earliest: never, latest: never}
		if in.TimeoutMs > 0 {
			c.earliest, c.latest = after(in.from, in.TimeoutMs), after(in.until, in.TimeoutMs)
		}
		made := j.with(c).naming(keyed{trigger, in.Name, id, 0})
		made.next = id + 1
		next = append(next, made)
	}
	return next
}

// recover is the step of a recovery.
func (j job) recover(in input, out output) []job {
	if k, known := j.key(recovery, in.Name); known {
		return j.recoverAgain(in, out, k)
	}
	next := j.recoverTo(in, out, j.epoch+1)
	if in.jumps {
		next = append(next, j.recoverTo(in, out, j.epoch+1+jump)...)
	}
	// A first attempt that was taken back has used up an epoch, of which servers may know.
	for _, told := range in.epochs {
		if above := told - j.epoch - 1; above > 0 && above <= mostAttempts || above > jump && above <= jump+mostAttempts {
			next = append(next, j.recoverTo(in, out, told)...)
		}
	}
	return next
}

// recoverTo is a new recovery with this epoch.
func (j job) recoverTo(in input, out output, epoch int64) []job {
	var next []job
	for _, seen := range j.latestViews() {
		answer, after := output{ID: newest, Epoch: epoch}, seen.job
		if seen.cut != nil {
			answer.ID = seen.cut.id
			held := *seen.cut
			held.held, held.doomed = true, false
			after = after.with(held)
		}
		if !out.allows(answer) {
			continue
		}
		after.epoch = epoch
		for _, c := range after.cuts {
			if c.status == pending {
				status := ended
				if in.until < c.earliest || c.earliest == never {
					status = aborted
				} else if in.from > c.latest {
					status = expired
				}
				after = after.as(c, status)
			}
		}
		next = append(next, after.naming(keyed{recovery, in.Name, answer.ID, answer.Epoch}))
	}
	return next
}

func (j job) recoverAgain(in input, out output, k keyed) []job {
	var next []job
	for _, seen := range j.views(in, k.id) {
		c := seen.find(k.id)
		answer := output{ID: k.id, Epoch: k.epoch}
		if c == nil && k.id != newest {
			answer = targetDeleted(k)
		}
		if !out.allows(answer) {
			continue
		}
		if c != nil {
			held := *c
			held.held, held.doomed = true, false
			seen = seen.with(held)
		}
		next = append(next, seen)
	}
	return next
}

// sight is a job with its latest completed checkpoint, nil where there is none.
type sight struct {
	job job
	cut *cut
}

// latestViews are the latest completed checkpoints that there may be: retention may have
// taken some.
func (j job) latestViews() []sight {
	var views []sight
	for _, c := range slices.Backward(j.cuts) {
		if c.status != completed {
			continue
		}
		views = append(views, sight{j, c})
		if !c.doomed {
			return views
		}
		j = j.without(c.id)
	}
	return append(views, sight{j, nil})
}

// ofLatest is the step of a read of the latest completed checkpoint.
func (j job) ofLatest(read func(*cut) output, out output) []job {
	var next []job
	for _, seen := range j.latestViews() {
		answer := refused("no_completed_checkpoint")
		if seen.cut != nil {
			answer = read(seen.cut)
		}
		if out.allows(answer) {
			next = append(next, seen.job)
		}
	}
	return next
}

// cleanup is the step of a cleanup. Only what a restore may hold is uncertain; the answer
// tells about it, and without one both may be.
func (j job) cleanup(in input, out output) []job {
	order := []*cut{}
	for _, c := range j.cuts {
		if !c.pinned && c.status != completed {
			order = append(order, c)
		}
	}
	for _, c := range j.cuts {
		if !c.pinned && c.status == completed {
			order = append(order, c)
		}
	}
	var last *cut
	if views := j.latestViews(); in.Keep > 0 {
		last = views[0].cut
	}
	type course struct {
		job              job
		deleted, skipped []int64
		kept             int
	}
	courses := []course{{job: j, kept: len(order)}}
	for _, c := range order {
		var next []course
		for _, run := range courses {
			skips := course{run.job, run.deleted, append(slices.Clip(run.skipped), c.id), run.kept}
			deletes := course{run.job.without(c.id), append(slices.Clip(run.deleted), c.id), run.skipped, run.kept - 1}
			switch {
			case run.kept <= in.Keep:
				next = append(next, run)
			case c.held:
				next = append(next, skips)
			case slices.Contains(in.lent, c.id):
				next = append(next, skips)
				if c != last {
					next = append(next, deletes)
				} else {
					next = append(next, run)
				}
			case c == last:
				next = append(next, run)
			default:
				next = append(next, deletes)
			}
		}
		courses = next
	}
	var next []job
	for _, run := range courses {
		if out.allows(output{Text: cleaned(run.deleted, run.skipped, run.kept)}) {
			next = append(next, run.job)
		}
	}
	return next
}

// cleaned is what a cleanup did, as text.
func cleaned(deleted, skipped []int64, kept int) string {
	return fmt.Sprintf("deleted %d skipped %d kept %d", deleted, skipped, kept)
}

// list is the step of a list of all checkpoints.
func (j job) list(in input, out output) []job {
	rows := map[string]bool{}
	for row := range strings.FieldsSeq(out.Text) {
		rows[row] = true
	}
	for _, c := range j.cuts {
		found := false
		for _, seen := range j.views(in, c.id) {
			if shown := seen.find(c.id); shown != nil && rows[shown.row()] {
				delete(rows, shown.row())
				j, found = seen, true
				break
			}
		}
		if !found && !c.doomed {
			return nil
		}
		if !found {
			j = j.without(c.id)
		}
	}
	if len(rows) > 0 {
		return nil
	}
	return []job{j}
}

// row is a checkpoint in a list.
func (c *cut) row() string { return fmt.Sprintf("%d:%d:%s:%d", c.id, c.epoch, c.status, len(c.acks)) }

// receipts are the acknowledgements with what they handed in, and the pin.
func (c *cut) receipts() string {
	var s strings.Builder
	for _, a := range c.acks {
		fmt.Fprintf(&s, "%s=%s ", a.key, a.value)
	}
	if c.pinned {
		s.WriteString("pinned")
	}
	return s.String()
}

// document is the shared state as text.
func (c *cut) document() string {
	var s strings.Builder
	for _, entry := range c.shared {
		fmt.Fprintf(&s, "%s=%s ", entry.key, entry.value)
	}
	return s.String()
}

// stream are the restore bytes.
func (c *cut) stream() string {
	var s strings.Builder
	for _, entry := range c.shared {
		fmt.Fprintf(&s, `{"key":%q,"value":%q}`+"\n", entry.key, entry.value)
	}
	for _, a := range c.acks {
		s.WriteString(part(a.key, a.value))
	}
	return s.String()
}

// part are the restore lines of what a task handed in: more than one, so that half of it shows.
func part(task, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(`{"taskId":%[1]q,"key":"first","value":%[2]q}`+"\n"+`{"taskId":%[1]q,"key":"second","value":%[2]q}`+"\n", task, value)
}
