package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	settingsPreludes = append(slices.Clip(repeatPreludes), "prelude_settings", "prelude_job")

	putJobScript     = newScript("put_job", settingsPreludes)
	deleteJobScript  = newScript("delete_job", append(slices.Clip(settingsPreludes), "prelude_import"))
	forgetTaskScript = newScript("forget_task", repeatPreludes)
)

// PutJob replaces a job's settings, or changes some. It keeps its answer under a token of its own making, so that
// it may be asked again after a lost reply.
func (s *Store) PutJob(ctx context.Context, call coordinator.PutJobCall) (coordinator.PutJobResult, error) {
	token := orNewToken("")
	if call.Patch != nil {
		call.Settings = call.Patch.Apply(coordinator.JobSettings{})
	}
	names := call.Settings.Tasks
	staged, registered := len(names) > namesStep, false
	if staged {
		// The sweep must find the staged names, whatever becomes of the call.
		if err := s.register(ctx, call.Job); err != nil {
			return coordinator.PutJobResult{}, err
		}
		if err := s.stageNames(ctx, call.Job, token, names, true); err != nil {
			return coordinator.PutJobResult{}, err
		}
		registered = true
	}
	for range maxRounds {
		r, err := s.run(ctx, putJobScript, repeatable, call.Job, putJobArgs(call, token, registered, staged)...)
		if err != nil {
			return coordinator.PutJobResult{}, err
		}
		switch r.word {
		case wordOK:
			if registered {
				s.registerMade(ctx, call.Job)
			}
			return s.putJob(ctx, call, r)
		case wordRegister:
			err = s.register(ctx, call.Job)
			registered = true
		case wordRestage:
			err = s.stageNames(ctx, call.Job, token, names, true)
		default:
			err = refusal(putJobScript.verb, call.Job, coordinator.Latest, r)
		}
		if err != nil {
			return coordinator.PutJobResult{}, err
		}
	}
	return coordinator.PutJobResult{}, coordinator.ErrInternal(fmt.Errorf("names of tasks went before they were adopted, %d times", maxRounds))
}

// putJob reads the script's answer. The names are those of the call, or those that a patch has left.
func (s *Store) putJob(ctx context.Context, call coordinator.PutJobCall, r reply) (coordinator.PutJobResult, error) {
	state, err := s.jobState(call.Job, r)
	if err != nil {
		return coordinator.PutJobResult{}, err
	}
	body := cursor{values: r.body[1:]}
	result := coordinator.PutJobResult{State: state.JobState, Created: body.text() == "1"}
	if body.err != nil {
		return coordinator.PutJobResult{}, badReply(putJobScript.verb, r, body.err)
	}
	result.State.Settings.Tasks = slices.Clone(call.Settings.Tasks)
	if call.Patch == nil || call.Patch.Participants() || state.names == "" {
		return result, nil
	}
	if result.State.Settings.Tasks, err = s.jobTasks(ctx, call.Job, state.names); err == nil && len(result.State.Settings.Tasks) != state.Settings.NamedTasks {
		result.State, err = s.Job(ctx, call.Job) // others have named other tasks since
	}
	if err != nil {
		return coordinator.PutJobResult{}, coordinator.ErrOutcomeUnknown(fmt.Errorf("reading the settings that were patched: %w", err))
	}
	return result, nil
}

// changes tells which of the settings a call changes, as put_job.lua takes it.
func changes(patch *coordinator.JobPatch) string {
	if patch == nil {
		return ""
	}
	var which strings.Builder
	for _, changed := range []bool{
		patch.Participants(), patch.TimeoutMs != nil, patch.IntervalMs != nil, patch.MinPauseMs != nil, patch.MaxConcurrent != nil,
		patch.TolerableFailures != nil, patch.StaleAfterMs != nil, patch.Keep != nil, patch.MaxAgeMs != nil, patch.MaxBytes != nil,
		patch.Paused != nil, patch.Description != nil, patch.Participants(),
	} {
		which.WriteString(flag(changed))
	}
	return which.String()
}

func putJobArgs(call coordinator.PutJobCall, token string, registered, staged bool) []any {
	own := &call.Settings
	paused := ""
	if own.Paused {
		paused = "1"
	}
	args := []any{token, flag(registered), jitterText(call.Jitter)}
	args = appendDefaults(args, call.Defaults)
	args = append(args, optionalText(own.RequiredTaskAcks), optionalText(own.TimeoutMs), optionalText(own.IntervalMs),
		optionalText(own.MinPauseMs), optionalText(own.MaxConcurrent), optionalText(own.TolerableFailures), optionalText(own.StaleAfterMs),
		optionalText(own.Keep), optionalText(own.MaxAgeMs), optionalText(own.MaxBytes), paused, own.Description, len(own.Tasks), changes(call.Patch))
	args = append(appendPrecondition(args, call.If), call.By)
	if !staged {
		args = appendNames(args, own.Tasks)
	}
	return args
}

// optionalText is a number in decimal, "" for none.
func optionalText[N int | int64](n *N) string {
	if n == nil {
		return ""
	}
	return decimal(int64(*n))
}

// jitterText is never in scientific notation.
func jitterText(jitter float64) string { return strconv.FormatFloat(jitter, 'f', -1, 64) }

// DeleteJob removes some of a job's checkpoints, and the job when none is left.
func (s *Store) DeleteJob(ctx context.Context, call coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	args := append(appendPrecondition([]any{orNewToken(""), flag(call.Force), call.Max}, call.If), call.By)
	r, err := s.run(ctx, deleteJobScript, repeatable, call.Job, args...)
	if err != nil {
		return coordinator.DeleteJobResult{}, err
	}
	body := cursor{values: r.body}
	switch r.word {
	case wordOK:
		result := coordinator.DeleteJobResult{More: body.text() == "1"}
		gone := cursor{values: body.list()}
		ids := gone.numbers()
		if err := errors.Join(body.err, gone.err); err != nil {
			return coordinator.DeleteJobResult{}, badReply(deleteJobScript.verb, r, err)
		}
		for _, id := range ids {
			s.observer.Deleted(call.Job, id, coordinator.DeletedByRequest)
		}
		return result, nil
	case string(coordinator.CodePinned):
		err = coordinator.ErrJobPinned(call.Job, int(body.number()))
	case string(coordinator.CodeCheckpointNotCompleted):
		err = coordinator.ErrJobPending(call.Job, int(body.number()))
	default:
		err = refusal(deleteJobScript.verb, call.Job, coordinator.Latest, r)
	}
	if body.err != nil {
		err = badReply(deleteJobScript.verb, r, body.err)
	}
	return coordinator.DeleteJobResult{}, err
}

// ForgetTask forgets the highest attempt of a task.
func (s *Store) ForgetTask(ctx context.Context, job, taskID string) error {
	r, err := s.run(ctx, forgetTaskScript, repeatable, job, taskID, orNewToken(""))
	if err == nil && r.word != wordOK {
		err = refusal(forgetTaskScript.verb, job, coordinator.Latest, r)
	}
	return err
}
