package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	triggerScript    = newScript("trigger", repeatPreludes)
	stageNamesScript = newScript("stage_names", readPreludes)
)

// Words with which a script asks for something to be done before it is called again.
const (
	wordRegister  = "register"
	wordAgain     = "again"
	wordRestage   = "restage"
	wordExhausted = "exhausted"
)

const (
	// namesStep is how many task names one script takes: more would keep Redis from
	// everybody else for too long.
	namesStep = 1000
	// stageLeaseMs is how long staged names wait for their trigger.
	stageLeaseMs = 60_000
	// maxRounds bounds how often a trigger is called again because a script asked for it.
	maxRounds = 100
)

// Trigger makes a pending checkpoint, or finds the one that an Idempotency-Key made.
func (s *Store) Trigger(ctx context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	call.Token = orNewToken(call.Token)
	staged := len(call.Tasks) > namesStep
	registered := false
	if staged {
		// The sweep must find the staged names, whatever becomes of the trigger.
		if err := s.register(ctx, call.Job); err != nil {
			return coordinator.TriggerResult{}, err
		}
		if err := s.stageNames(ctx, call); err != nil {
			return coordinator.TriggerResult{}, err
		}
		registered = true
	}
	for range maxRounds {
		r, err := s.run(ctx, triggerScript, repeatable, call.Job, s.triggerArgs(call, registered, staged)...)
		if err != nil {
			return coordinator.TriggerResult{}, err
		}
		switch r.word {
		case wordRegister:
			err = s.register(ctx, call.Job)
			registered = true
		case wordRestage:
			err = s.stageNames(ctx, call)
		case wordAgain:
		default:
			return s.triggered(call, r)
		}
		if err != nil {
			return coordinator.TriggerResult{}, err
		}
	}
	return coordinator.TriggerResult{}, coordinator.ErrInternal(fmt.Errorf("no free id found in %d rounds", maxRounds))
}

func (s *Store) triggerArgs(call coordinator.TriggerCall, registered, staged bool) []any {
	name, ttl := repeatOf(repeatTrigger, call.Idempotency)
	required := call.RequiredTaskAcks
	if required == 0 {
		required = call.Defaults.RequiredTaskAcks
	}
	if call.Tasks != nil {
		required = len(call.Tasks)
	}
	timeout := call.Defaults.TimeoutMs
	if call.TimeoutMs != nil {
		timeout = *call.TimeoutMs
	}
	args := []any{
		name, ttl, call.Token, call.Fingerprint, decimal(s.floors.of(call.Job)), flag(registered),
		required, decimal(max(0, timeout)), call.Defaults.MaxConcurrent, encodeLabels(call.Labels), call.Description,
		flag(call.Pinned), len(call.Tasks),
	}
	if !staged {
		for _, task := range call.Tasks {
			args = append(args, task)
		}
	}
	return args
}

// triggered reads the script's answer.
func (s *Store) triggered(call coordinator.TriggerCall, r reply) (coordinator.TriggerResult, error) {
	body := cursor{values: r.body}
	var err error
	switch r.word {
	case wordOK:
		checkpoint, err := s.checkpoint(triggerScript.verb, call.Job, r)
		if err != nil {
			return coordinator.TriggerResult{}, err
		}
		body.list()
		repeated := body.text()
		if body.err != nil {
			return coordinator.TriggerResult{}, badReply(triggerScript.verb, r, body.err)
		}
		return coordinator.TriggerResult{Checkpoint: checkpoint, Repeated: repeated == "1"}, nil
	case string(coordinator.CodeTooManyPending):
		pending, wait := body.number(), body.number()
		err = coordinator.ErrTooManyPending(call.Job, int(pending), call.Defaults.MaxConcurrent, time.Duration(wait)*time.Millisecond)
	case wordExhausted:
		err = coordinator.ErrInternal(errors.New("the job has used up all ids"))
	default:
		err = repeatRefusal(triggerScript.verb, call.Job, r, &body)
	}
	if body.err != nil {
		return coordinator.TriggerResult{}, badReply(triggerScript.verb, r, body.err)
	}
	return coordinator.TriggerResult{}, err
}

// register puts a job into the list of jobs. That lies in a slot of its own, and is
// written before anything of the job, so that the sweep finds whatever a job left.
func (s *Store) register(ctx context.Context, job string) error {
	ctx, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	return s.fetch(ctx, "register_job", func(ctx context.Context) error {
		return s.client.SAdd(ctx, jobsKey(s.prefix), job).Err()
	})
}

// stageNames writes a long list of names in steps, for the trigger to adopt.
func (s *Store) stageNames(ctx context.Context, call coordinator.TriggerCall) error {
	for names := range slices.Chunk(call.Tasks, namesStep) {
		args := []any{call.Token, stageLeaseMs}
		for _, name := range names {
			args = append(args, name)
		}
		// Nobody sees staged names, so a second run may follow a lost reply.
		if _, err := s.run(ctx, stageNamesScript, reads, call.Job, args...); err != nil {
			return err
		}
	}
	return nil
}

// repeatOf names the record that makes a call repeatable, and its time to live (ms).
func repeatOf(verb string, call coordinator.Idempotency) (name string, ttl int) {
	if call.Key == "" {
		return repeatName(repeatCall, call.Token), repeatCallMs
	}
	return repeatName(verb, call.Key), repeatKeyMs
}

// repeatRefusal reads the refusals about Idempotency-Keys.
func repeatRefusal(verb, job string, r reply, body *cursor) error {
	switch coordinator.Code(r.word) {
	case coordinator.CodeIdempotencyKeyReused:
		return coordinator.ErrIdempotencyKeyReused()
	case coordinator.CodeIdempotencyTargetDeleted:
		return coordinator.ErrIdempotencyTargetDeleted(body.number())
	default:
		return refusal(verb, job, coordinator.Latest, r)
	}
}

// orNewToken gives a call without a token one: tokens also name what a call writes.
func orNewToken(token string) string { return cmp.Or(token, rand.Text()) }
