package coordinator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Coordinator is the service behind every door: it validates, fills in defaults, calls
// the [Store], and reports to the [Observer]. It is safe for concurrent use and keeps
// no state of its own, so any replica answers any request.
type Coordinator struct {
	store    Store
	settings Settings
	observer Observer
	pace     Pace
}

// Pace is how often things that nobody asked for are done. Zero fields take the
// defaults of [DefaultPace].
type Pace struct {
	// Sweep is the time between sweeps; half a second keeps status, lists and metrics
	// within a second of each deadline.
	Sweep time.Duration
	// Health is the time between looks at the store.
	Health time.Duration
	// UploadCheck is the time between checks of a running upload.
	UploadCheck time.Duration
	// RestoreLease is how long a restore's lease outlives a broken transfer.
	RestoreLease time.Duration
	// RecoverLease is how long recover holds the checkpoint that it answers.
	RecoverLease time.Duration
}

// DefaultPace is what the documentation says.
func DefaultPace() Pace {
	return Pace{
		Sweep:        500 * time.Millisecond,
		Health:       time.Second,
		UploadCheck:  2 * time.Second,
		RestoreLease: time.Minute,
		RecoverLease: 10 * time.Minute,
	}
}

func (p Pace) orDefaults() Pace {
	d := DefaultPace()
	for _, field := range []struct{ value, fallback *time.Duration }{
		{&p.Sweep, &d.Sweep}, {&p.Health, &d.Health}, {&p.UploadCheck, &d.UploadCheck},
		{&p.RestoreLease, &d.RestoreLease}, {&p.RecoverLease, &d.RecoverLease},
	} {
		if *field.value <= 0 {
			*field.value = *field.fallback
		}
	}
	return p
}

// Options configure a [Coordinator].
type Options struct {
	Settings Settings
	// Observer defaults to [Silence].
	Observer Observer
	Pace     Pace
}

// New makes a coordinator over store. It starts nothing; see [Coordinator.Run].
func New(store Store, options Options) *Coordinator {
	if options.Observer == nil {
		options.Observer = Silence{}
	}
	return &Coordinator{store: store, settings: options.Settings, observer: options.Observer, pace: options.Pace.orDefaults()}
}

// Settings gives the defaults that this server fills in.
func (c *Coordinator) Settings() Settings { return c.settings }

// call times one store call and makes its error presentable.
func call[T any](c *Coordinator, operation string, f func() (T, error)) (T, error) {
	began := time.Now()
	result, err := f()
	c.observer.StoreCall(operation, time.Since(began), err)
	return result, asError(err)
}

// newToken names one call, so that the store knows it again after a lost reply.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}

// TriggerRequest is a trigger as a caller states it; nil fields take the settings.
type TriggerRequest struct {
	Job              string            `json:"-"`
	RequiredTaskAcks *int64            `json:"requiredTaskAcks,omitempty"`
	Tasks            []string          `json:"tasks,omitempty"`
	TimeoutMs        *int64            `json:"timeoutMs,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	Description      string            `json:"description,omitempty"`
	Pinned           bool              `json:"pinned,omitempty"`
	// IdempotencyKey is nil when the caller sent none.
	IdempotencyKey *string `json:"-"`
}

// Trigger makes a pending checkpoint in a job, which exists from then on.
func (c *Coordinator) Trigger(ctx context.Context, request TriggerRequest) (TriggerResult, error) {
	required, err := request.check(c.settings)
	if err != nil {
		return TriggerResult{}, err
	}
	timeout := c.settings.TimeoutMs
	if request.TimeoutMs != nil {
		timeout = *request.TimeoutMs
	}
	idempotency, err := request.idempotency()
	if err != nil {
		return TriggerResult{}, err
	}
	result, err := call(c, "trigger", func() (TriggerResult, error) {
		return c.store.Trigger(ctx, TriggerCall{
			Job: request.Job, RequiredTaskAcks: required, Tasks: request.Tasks, TimeoutMs: max(0, timeout),
			MaxConcurrent: c.settings.MaxConcurrent, Labels: request.Labels, Description: request.Description,
			Pinned: request.Pinned, Idempotency: idempotency,
		})
	})
	if err == nil && !result.Repeated {
		c.observer.Triggered(result.Checkpoint)
	}
	return result, err
}

// check validates the request and resolves how many acknowledgements complete it.
func (r TriggerRequest) check(settings Settings) (int, error) {
	var f faults
	f.param("job", CheckJob(r.Job))
	required := int64(settings.RequiredTaskAcks)
	if r.RequiredTaskAcks != nil {
		required = *r.RequiredTaskAcks
		f.body("/requiredTaskAcks", between(required, 1, MaxRequiredTaskAcks, "acknowledgements"))
	}
	if r.Tasks != nil {
		f.tasks(r.Tasks)
		if r.RequiredTaskAcks != nil && required != int64(len(r.Tasks)) {
			f.body("/requiredTaskAcks", Violation(fmt.Sprintf("With tasks it must equal their number, %d; or leave it out.", len(r.Tasks))))
		}
		required = int64(len(r.Tasks))
	}
	if r.TimeoutMs != nil && *r.TimeoutMs > MaxTimeoutMs {
		f.body("/timeoutMs", Violation(fmt.Sprintf("A timeout has at most %d milliseconds; 0 is for ever.", int64(MaxTimeoutMs))))
	}
	f.labels(r.Labels)
	f.body("/description", atMost(r.Description, MaxDescriptionBytes))
	if r.IdempotencyKey != nil {
		f.param("Idempotency-Key", CheckIdempotencyKey(*r.IdempotencyKey))
	}
	if err := f.err(); err != nil {
		return 0, err
	}
	if len(r.Tasks) > MaxTasks {
		return 0, ErrLimitExceeded("tasks", MaxTasks, fmt.Sprintf("The trigger names %d tasks", len(r.Tasks)))
	}
	return int(required), nil
}

// tasks adds the faults of a list of task names: empty, malformed, repeated.
func (f *faults) tasks(tasks []string) {
	if len(tasks) == 0 {
		f.body("/tasks", Violation("The list must name at least one task; leave it out to let any task acknowledge."))
	}
	if len(tasks) > MaxTasks {
		return // refused as a count, without a fault for each
	}
	first := make(map[string]int, len(tasks))
	for i, task := range tasks {
		pointer := fmt.Sprintf("/tasks/%d", i)
		f.body(pointer, CheckTaskID(task))
		if earlier, seen := first[task]; seen {
			f.body(pointer, Violation(fmt.Sprintf("The task stands at /tasks/%d already.", earlier)))
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

// RecoverRequest restarts a fleet; one Idempotency-Key for each crash gives every
// worker the same answer.
type RecoverRequest struct {
	Job            string
	IdempotencyKey *string
}

// Recover aborts everything pending, raises the epoch, and names and leases the
// checkpoint to go on from.
func (c *Coordinator) Recover(ctx context.Context, request RecoverRequest) (RecoverResult, error) {
	var f faults
	f.param("job", CheckJob(request.Job))
	idempotency := Idempotency{Fingerprint: "recover", Token: newToken()}
	if request.IdempotencyKey != nil {
		f.param("Idempotency-Key", CheckIdempotencyKey(*request.IdempotencyKey))
		idempotency.Key = *request.IdempotencyKey
	}
	if err := f.err(); err != nil {
		return RecoverResult{}, err
	}
	result, err := call(c, "recover", func() (RecoverResult, error) {
		return c.store.Recover(ctx, RecoverCall{Job: request.Job, LeaseMs: c.pace.RecoverLease.Milliseconds(), Idempotency: idempotency})
	})
	if err != nil {
		return result, err
	}
	if !result.Repeated {
		c.observer.Recovered(request.Job, result)
	}
	if result.Checkpoint != nil {
		c.fillDigest(ctx, result.Checkpoint)
	}
	return result, nil
}
