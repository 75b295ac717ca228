package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	triggerPreludes = append(slices.Clip(repeatPreludes), "prelude_settings", "prelude_floor", "prelude_trigger")

	triggerScript    = newScript("trigger", triggerPreludes)
	stageNamesScript = newScript("stage_names", readPreludes)
)

// Words with which a script asks for something to be done before it is called again.
const (
	wordRegister  = "register"
	wordAgain     = "again"
	wordRestage   = "restage"
	wordExhausted = "exhausted"
	wordUnlisted  = "unlisted"
)

// wordTasksNamed refuses a trigger by a number alone in a job whose settings name its tasks.
const wordTasksNamed = "tasks_named"

const (
	// namesStep is how many task names one script takes: more would keep Redis from
	// everybody else for too long.
	namesStep = 1000
	// stageLeaseMs is how long staged names wait for who adopts them.
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
		if err := s.stageNames(ctx, call.Job, call.Token, call.Tasks, false); err != nil {
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
			err = s.stageNames(ctx, call.Job, call.Token, call.Tasks, false)
		case wordAgain:
		default:
			if registered && r.word == wordOK {
				s.registerMade(ctx, call.Job)
			}
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
	timeout := ""
	if call.TimeoutMs != nil {
		timeout = decimal(max(0, *call.TimeoutMs))
	}
	args := []any{
		name, ttl, call.Token, call.Fingerprint, s.floors.of(call.Job).text(), flag(registered),
		call.RequiredTaskAcks, timeout, flag(call.Force), encodeLabels(call.Labels), call.Description, flag(call.Pinned),
	}
	args = appendDefaults(args, call.Defaults)
	args = append(args, call.By, len(call.Tasks))
	if !staged {
		args = appendNames(args, call.Tasks)
	}
	return args
}

// appendDefaults appends a server's settings as prelude_settings.lua takes them.
func appendDefaults(args []any, d coordinator.Settings) []any {
	return append(args,
		max(1, d.RequiredTaskAcks), decimal(max(0, d.TimeoutMs)), decimal(max(0, d.IntervalMs)), decimal(max(0, d.MinPauseMs)),
		d.MaxConcurrent, d.TolerableFailures, max(1, d.EventsToKeep))
}

func appendNames(args []any, names []string) []any {
	for _, name := range names {
		args = append(args, name)
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
	case wordTasksNamed:
		err = coordinator.ErrTasksNamed(call.Job, int(body.number()), call.RequiredTaskAcks)
	case string(coordinator.CodeMinPause):
		err = coordinator.ErrMinPause(call.Job, time.Duration(body.number())*time.Millisecond, time.Duration(body.number())*time.Millisecond)
	case string(coordinator.CodeTooManyPending):
		pending, limit, wait := body.number(), body.number(), body.number()
		err = coordinator.ErrTooManyPending(call.Job, int(pending), int(limit), time.Duration(wait)*time.Millisecond)
	default:
		if err = placeError(r.word); err == nil {
			err = repeatRefusal(triggerScript.verb, call.Job, r, &body)
		}
	}
	if body.err != nil {
		return coordinator.TriggerResult{}, badReply(triggerScript.verb, r, body.err)
	}
	return coordinator.TriggerResult{}, err
}

// placeError is for the words with which a script says that it cannot make a checkpoint; nil is
// any other word.
func placeError(word string) error {
	switch word {
	case wordExhausted:
		return coordinator.ErrInternal(errors.New("the job has used up all ids"))
	case wordUnlisted:
		return coordinator.ErrInternal(errors.New("the tasks that the job's settings name are gone from Redis; put the settings again"))
	default:
		return nil
	}
}

// stageNames writes a long list of names in steps, for the script to adopt that is handed the
// same token. They keep their order in the settings of a job, and are in byte order elsewhere.
func (s *Store) stageNames(ctx context.Context, job, token string, names []string, ordered bool) error {
	for first := 0; first < len(names); first += namesStep {
		some, place := names[first:min(first+namesStep, len(names))], ""
		if ordered {
			place = strconv.Itoa(first)
		}
		args := appendNames([]any{token, stageLeaseMs, place}, some)
		// Nobody sees staged names, so a second run may follow a lost reply.
		if _, err := s.run(ctx, stageNamesScript, reads, job, args...); err != nil {
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
