package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// TriggerRequest is a trigger as a caller states it; nil fields take the job's settings,
// or the server's.
type TriggerRequest struct {
	Job              string            `json:"-"`
	RequiredTaskAcks *int64            `json:"requiredTaskAcks,omitempty"`
	Tasks            []string          `json:"tasks,omitempty"`
	TimeoutMs        *int64            `json:"timeoutMs,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	Description      string            `json:"description,omitempty"`
	Pinned           bool              `json:"pinned,omitempty"`
	// Force passes the pause after a completion, never the limit of pending checkpoints.
	Force bool `json:"force,omitempty"`
	// IdempotencyKey is nil when the caller sent none.
	IdempotencyKey *string `json:"-"`
}

// Trigger makes a pending checkpoint in a job, which exists from then on.
func (c *Coordinator) Trigger(ctx context.Context, request TriggerRequest) (TriggerResult, error) {
	if err := request.check(); err != nil {
		return TriggerResult{}, err
	}
	idempotency, err := request.idempotency()
	if err != nil {
		return TriggerResult{}, err
	}
	required := 0
	if request.RequiredTaskAcks != nil {
		required = int(*request.RequiredTaskAcks)
	}
	result, err := call(c, "trigger", func() (TriggerResult, error) {
		return c.store.Trigger(ctx, TriggerCall{
			Job: request.Job, RequiredTaskAcks: required, Tasks: request.Tasks, TimeoutMs: request.TimeoutMs,
			Defaults: c.settings, Force: request.Force, Labels: request.Labels, Description: request.Description,
			Pinned: request.Pinned, By: byOf(ctx), Idempotency: idempotency,
		})
	})
	if err == nil && c.settings.IntervalMs > 0 {
		c.scheduler.meet(request.Job)
	}
	if err == nil && !result.Repeated {
		c.observer.Triggered(result.Checkpoint)
	}
	return result, err
}

// check validates the request.
func (r TriggerRequest) check() error {
	var f faults
	f.param("job", CheckJob(r.Job))
	f.participants(r.RequiredTaskAcks, r.Tasks)
	f.timeout(r.TimeoutMs)
	f.labels(r.Labels)
	f.body("/description", atMost(r.Description, "descriptionBytes", MaxDescriptionBytes))
	if r.IdempotencyKey != nil {
		f.param("Idempotency-Key", CheckIdempotencyKey(*r.IdempotencyKey))
	}
	if err := f.err(); err != nil {
		return err
	}
	return tooManyTasks("The trigger names", r.Tasks)
}

// tooManyTasks refuses a list of task names that is longer than any may be.
func tooManyTasks(who string, tasks []string) error {
	if len(tasks) <= MaxTasks {
		return nil
	}
	return ErrLimitExceeded("tasks", MaxTasks, fmt.Sprintf("%s %d tasks", who, len(tasks)))
}

// participants adds the faults of who has to acknowledge; required and tasks are nil
// where that is not said.
func (f *faults) participants(required *int64, tasks []string) {
	if required != nil {
		f.body("/requiredTaskAcks", between(*required, 1, MaxRequiredTaskAcks, "acknowledgements"))
	}
	if tasks == nil {
		return
	}
	f.tasks(tasks)
	if required != nil && *required != int64(len(tasks)) {
		f.body("/requiredTaskAcks", ViolationError(fmt.Sprintf("With tasks it must equal their number, %d; or leave it out.", len(tasks))))
	}
}

// timeout adds the fault of a timeout that is too long; nil is none.
func (f *faults) timeout(timeoutMs *int64) {
	if timeoutMs != nil && (*timeoutMs > MaxTimeoutMs || *timeoutMs < -MaxID) {
		f.body("/timeoutMs", ViolationError(fmt.Sprintf("A timeout has %d to %d milliseconds; 0 is for ever.", int64(-MaxID), int64(MaxTimeoutMs))))
	}
}

// tasks adds the faults of a list of task names: empty, malformed, repeated.
func (f *faults) tasks(tasks []string) {
	if len(tasks) == 0 {
		f.body("/tasks", ViolationError("The list must name at least one task; leave it out to let any task acknowledge."))
	}
	if len(tasks) > MaxTasks {
		return // refused as a count, without a fault for each
	}
	first := make(map[string]int, len(tasks))
	for i, task := range tasks {
		pointer := fmt.Sprintf("/tasks/%d", i)
		f.body(pointer, CheckTaskID(task))
		if earlier, seen := first[task]; seen {
			f.body(pointer, ViolationError(fmt.Sprintf("The task stands at /tasks/%d already.", earlier)))
		} else {
			first[task] = i
		}
		if len(f.fields) >= maxFaults {
			return
		}
	}
}

// maxFaults bounds an answer about a list that is wrong throughout.
const maxFaults = 20

// idempotency makes the record that finds this request again. The fingerprint is of the
// body as it was sent, not of the settings that complete it: those may differ between
// replicas or after a restart, and the key must still find its checkpoint.
func (r TriggerRequest) idempotency() (Idempotency, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return Idempotency{}, ErrInternal(err)
	}
	sum := sha256.Sum256(body)
	out := Idempotency{Fingerprint: hex.EncodeToString(sum[:]), Token: newToken()}
	if r.IdempotencyKey != nil {
		out.Key = *r.IdempotencyKey
	}
	return out, nil
}

// TriggerCall asks for a new checkpoint. What it leaves open the job's settings say, and
// then Defaults; what is resolved stays with the checkpoint.
type TriggerCall struct {
	Job string
	// RequiredTaskAcks is 0 when the caller did not say.
	RequiredTaskAcks int
	// Tasks are the only tasks that may acknowledge; nil lets any, unless the job's settings
	// name tasks. Then RequiredTaskAcks is 0 or their number, or the trigger is refused.
	Tasks     []string
	TimeoutMs *int64
	// Defaults are the server's. Steps that nobody hands them to later (what expires
	// in a call about something else) use those of the job's last trigger.
	Defaults Settings
	// Force passes the pause after a completion.
	Force       bool
	Labels      map[string]string
	Description string
	Pinned      bool
	// By is who asks, for the events; "" where that is not known.
	By string
	Idempotency
}

// Idempotency makes a call repeatable. Key is the caller's Idempotency-Key ("" is
// none), Fingerprint identifies the body it came with, and Token identifies this very
// call, so that the store may be asked again after a lost reply.
type Idempotency struct {
	Key         string
	Fingerprint string
	Token       string
}

// TriggerResult is the checkpoint as it is now. Repeated is true when an earlier call
// with the same Idempotency-Key made it.
type TriggerResult struct {
	Checkpoint Checkpoint
	Repeated   bool
}
