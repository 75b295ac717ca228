package storetest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// reference is the oracle of the lockstep tests: a [coordinator.Store] in plain maps
// behind one lock, written from the design and from nothing else. It shares no code and
// no idea with the real stores: it has no index, no step and no lazy write, and every
// mutating call first writes whatever the clock has brought about. Where it and a store
// differ, one of the two has misread the design.
type reference struct {
	clock    func() int64
	observer coordinator.Observer

	mu   sync.Mutex
	jobs map[string]*refJob
	// by is who asked for what is done under mu.
	by string
	// listeners are called with the job of each event.
	listeners map[*func(string)]bool
}

// refJob is all that is known of one job.
type refJob struct {
	name string
	// exists is false for a job that was deleted: what follows has what stays of it.
	exists      bool
	epoch, next int64
	// shown is the highest display timestamp that was given.
	shown       int64
	checkpoints map[int64]*refCheckpoint
	// imports are what nobody sees yet.
	imports map[int64]*refImport
	// attempts has the highest attempt heard of each task.
	attempts map[string]int64
	// keys are the Idempotency-Keys by verb and key, answers the answers by token.
	keys    map[string]refKey
	answers map[string]any
	// revision counts the changes of settings, seq the events.
	revision, seq int64
	log           []coordinator.Event
	// noted are the server's settings of the last call that had them.
	noted coordinator.Settings
	refRecord
}

// refKey is what an Idempotency-Key stands for; id < 0 is a recovery to nothing.
type refKey struct {
	fingerprint string
	id, epoch   int64
}

// refCheckpoint is a checkpoint with its contents.
type refCheckpoint struct {
	coordinator.Checkpoint
	// names are the named tasks in byte order.
	names []string
	acks  map[string]*refAck
	// uploaded are parts that wait for their acknowledgement.
	uploaded map[string]coordinator.PartContent
	shared   map[string]refEntry
	// leases are the ends of leases by their token.
	leases map[string]int64
	// triggered is the timeout of its trigger, 0 where no extension has changed it.
	triggered int64
	// imported is the token of the import that made it.
	imported string
}

type refAck struct {
	coordinator.Ack
	content []byte
}

type refEntry struct {
	value    []byte
	revision int64
}

func newReference(options Options) *reference {
	r := &reference{clock: options.Clock, observer: options.Observer, jobs: map[string]*refJob{}, listeners: map[*func(string)]bool{}}
	if r.observer == nil {
		r.observer = coordinator.Silence{}
	}
	r.entry(coordinator.DefaultJob).exists = true
	return r
}

// entry gives a job for a call that makes it where it succeeds.
func (r *reference) entry(name string) *refJob {
	if j := r.jobs[name]; j != nil {
		return j
	}
	j := &refJob{
		name: name, checkpoints: map[int64]*refCheckpoint{}, imports: map[int64]*refImport{}, attempts: map[string]int64{},
		keys: map[string]refKey{}, answers: map[string]any{}, noted: coordinator.DefaultSettings(), refRecord: newRecord(),
	}
	r.jobs[name] = j
	return j
}

// job finds a job that exists.
func (r *reference) job(name string) (*refJob, error) {
	if j := r.jobs[name]; j != nil && j.exists {
		return j, nil
	}
	return nil, coordinator.ErrJobNotFound(name)
}

// find finds a checkpoint for a change: what the clock has brought about is written first.
func (r *reference) find(job string, id int64) (*refJob, *refCheckpoint, error) {
	j, err := r.job(job)
	if err != nil {
		return nil, nil, err
	}
	r.settle(j)
	c, err := j.find(id)
	if gone, ok := errors.AsType[*coordinator.Error](err); ok && gone.Code == coordinator.CodeCheckpointDeleted {
		return nil, nil, gone.WithNextSteps(j.nextSteps(r.clock()))
	}
	return j, c, err
}

func (j *refJob) find(id int64) (*refCheckpoint, error) {
	if id == coordinator.Latest {
		if latest := j.latest(); latest != nil {
			return latest, nil
		}
		return nil, j.noLatest()
	}
	switch c := j.checkpoints[id]; {
	case c != nil:
		return c, nil
	case id < j.next:
		return nil, coordinator.ErrCheckpointDeleted(j.name, id)
	default:
		return nil, coordinator.ErrCheckpointNotFound(j.name, id)
	}
}

// ids are the ids of the checkpoints that meet the condition, ascending.
func (j *refJob) ids(condition func(*refCheckpoint) bool) []int64 {
	var ids []int64
	for _, id := range slices.Sorted(maps.Keys(j.checkpoints)) {
		if condition(j.checkpoints[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (j *refJob) latest() *refCheckpoint {
	ids := j.ids(func(c *refCheckpoint) bool { return c.usable() })
	if len(ids) == 0 {
		return nil
	}
	return j.checkpoints[ids[len(ids)-1]]
}

// usable tells whether a fleet may be told to go back to the checkpoint.
func (c *refCheckpoint) usable() bool { return c.Completed() && c.Damage == "" && !c.SetAside }

// noLatest is why there is no latest.
func (j *refJob) noLatest() error {
	completed := j.ids(func(c *refCheckpoint) bool { return c.Completed() })
	if len(completed) == 0 {
		return coordinator.ErrNoCompletedCheckpoint(j.name)
	}
	id := completed[len(completed)-1]
	if damage := j.checkpoints[id].Damage; damage != "" {
		return coordinator.ErrSnapshotDamaged(id, damage, nil)
	}
	return coordinator.ErrAllSetAside(id)
}

// nextSteps are the newest pending and the latest completed id, nil where there is none.
func (j *refJob) nextSteps(now int64) (current, latest *int64) {
	pending := j.ids(func(c *refCheckpoint) bool { return c.alive(now) })
	if len(pending) > 0 {
		current = &pending[len(pending)-1]
	}
	if c := j.latest(); c != nil {
		latest = new(c.ID)
	}
	return current, latest
}

// alive tells whether the checkpoint is pending at that time.
func (c *refCheckpoint) alive(now int64) bool {
	return c.Status == coordinator.StatusPending && !coordinator.Expired(c.Start, c.TimeoutMs, now)
}

// leased tells whether anybody holds the checkpoint at that time.
func (c *refCheckpoint) leased(now int64) bool {
	for _, end := range c.leases {
		if end > now {
			return true
		}
	}
	return false
}

// settle writes what the clock has brought about in a job.
func (r *reference) settle(j *refJob) {
	now := r.clock()
	var overdue []*refCheckpoint
	for _, id := range j.ids(func(c *refCheckpoint) bool { return c.Status == coordinator.StatusPending }) {
		c := j.checkpoints[id]
		c.Start = coordinator.Rebase(c.Start, now)
		if !c.alive(now) {
			overdue = append(overdue, c)
		}
	}
	slices.SortStableFunc(overdue, func(a, b *refCheckpoint) int {
		return cmp.Compare(a.Start+a.TimeoutMs, b.Start+b.TimeoutMs)
	})
	for _, c := range overdue {
		r.end(j, c, coordinator.StatusExpired, coordinator.Failure{Reason: coordinator.ReasonExpired})
	}
}

// end ends a pending checkpoint without completing it: its contents go at once, and of
// the records of such checkpoints the newest EndedKept stay.
func (r *reference) end(j *refJob, c *refCheckpoint, status coordinator.Status, failure coordinator.Failure) {
	c.Status, c.EndedAt, c.Failure = status, r.clock(), &failure
	if status == coordinator.StatusExpired {
		c.EndedAt = c.Start + c.TimeoutMs // and not when somebody noticed
	}
	c.Revision++
	c.uploaded, c.shared = nil, nil
	for _, ack := range c.acks {
		ack.content = nil
	}
	r.report(j, c)
	j.counts.add(failure.Reason)
	r.tell(j, c, map[coordinator.Status]coordinator.EventType{
		coordinator.StatusExpired: coordinator.EventExpired, coordinator.StatusAborted: coordinator.EventAborted,
	}[status], "")
	if failure.Reason == coordinator.ReasonExpired || failure.Reason == coordinator.ReasonDeclined {
		r.failed(j, c)
	}
	r.trimEnded(j)
}

// trimEnded takes away the oldest of what ended uncompleted, until EndedKept are left.
func (r *reference) trimEnded(j *refJob) {
	ended := j.ids(func(c *refCheckpoint) bool {
		return !c.Pinned && (c.Status == coordinator.StatusExpired || c.Status == coordinator.StatusAborted)
	})
	for len(ended) > coordinator.EndedKept {
		r.gone(j, j.checkpoints[ended[0]], coordinator.DeletedByRetention)
		ended = ended[1:]
	}
}

// gone takes a checkpoint that has ended away and tells of it.
func (r *reference) gone(j *refJob, c *refCheckpoint, why coordinator.DeletionReason) {
	delete(j.checkpoints, c.ID)
	j.counts.Deleted++
	r.tell(j, c, coordinator.EventDeleted, why)
}

// complete ends a pending checkpoint as completed, by the acknowledgement of a task or by
// hand, and applies retention.
func (r *reference) complete(j *refJob, c *refCheckpoint, task string, retention coordinator.Retention) {
	c.Status, c.EndedAt, c.SnapshotVersion = coordinator.StatusCompleted, r.clock(), coordinator.SnapshotVersion
	c.Revision++
	c.uploaded = nil
	c.Entries, c.Bytes = c.SharedEntries, c.SharedBytes
	for _, ack := range c.acks {
		c.Entries += ack.Part.Entries
		c.Bytes += ack.Part.Bytes
	}
	r.report(j, c)
	r.tell(j, c, coordinator.EventCompleted, "")
	r.succeeded(j, c, task)
	r.retain(j, retention)
}

// report tells the observer of an end.
func (r *reference) report(j *refJob, c *refCheckpoint) {
	t := coordinator.Transition{Job: j.name, ID: c.ID, Status: c.Status, DurationMs: c.DurationMs(), AcknowledgedTasks: c.AcknowledgedTasks}
	if c.Failure != nil {
		t.Reason = c.Failure.Reason
	}
	r.observer.Ended(t)
}

// retain applies retention to the completed, unpinned ones, the oldest first: of what has
// no place among the newest, is too old, or has too many bytes together with all that is
// still there, goes what nobody holds. The newest always stays.
func (r *reference) retain(j *refJob, defaults coordinator.Retention) {
	limits := j.settings.Over(coordinator.Settings{Retention: defaults}).Retention
	now := r.clock()
	ids := j.ids(func(c *refCheckpoint) bool { return !c.Pinned && c.usable() })
	bytes := int64(0)
	for _, id := range ids {
		bytes += j.checkpoints[id].Bytes
	}
	for i, id := range ids {
		c := j.checkpoints[id]
		newer := len(ids) - 1 - i
		many := limits.Keep > 0 && newer >= limits.Keep
		old := limits.MaxAgeMs > 0 && now-c.EndedAt > limits.MaxAgeMs
		large := limits.MaxBytes > 0 && bytes > limits.MaxBytes
		if newer == 0 || !many && !old && !large || c.leased(now) {
			continue
		}
		bytes -= c.Bytes
		r.gone(j, c, coordinator.DeletedByRetention)
		r.observer.Deleted(j.name, id, coordinator.DeletedByRetention)
	}
}

// view is the checkpoint as a reader sees it: expiry is derived, not written.
func (r *reference) view(c *refCheckpoint) coordinator.Checkpoint {
	v := c.Checkpoint
	v.ObservedAt = r.clock()
	v.Labels = maps.Clone(c.Labels)
	if c.Status == coordinator.StatusPending && !c.alive(v.ObservedAt) {
		v.Status, v.EndedAt = coordinator.StatusExpired, c.Start+c.TimeoutMs
		v.Failure = &coordinator.Failure{Reason: coordinator.ReasonExpired}
		v.Revision++
	}
	if c.NamedTasks && !c.Completed() {
		missing := c.missing()
		v.MissingTasks = missing[:min(len(missing), coordinator.MissingTasksShown)]
	}
	return v
}

// missing are the named tasks that have not acknowledged, in byte order.
func (c *refCheckpoint) missing() []string {
	return slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return c.acks[name] != nil })
}

// once gives the answer to a call that came before, and keeps the answer to a new one.
func once[T any](j *refJob, token string, f func() (T, error)) (T, error) {
	if before, ok := j.answers[token].(T); ok && token != "" {
		return before, nil
	}
	answer, err := f()
	if err == nil {
		j.answers[token] = answer
	}
	return answer, err
}

// Health is always well.
func (r *reference) Health(context.Context) ([]coordinator.Warning, error) { return nil, nil }

// Close keeps everything, so that opening again finds it: see referenceFactory.
func (r *reference) Close() error { return nil }

// Alive is always well.
func (r *reference) Alive() error { return nil }
