package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	historyScript       = newScript("history", jobPreludes)
	recordRestoreScript = newScript("record_restore", repeatPreludes)
)

// History reads what a job's statistics are made of.
func (s *Store) History(ctx context.Context, job string) (coordinator.History, error) {
	r, err := s.run(ctx, historyScript, reads, job)
	if err != nil {
		return coordinator.History{}, err
	}
	if r.word != wordOK {
		return coordinator.History{}, refusal(historyScript.verb, job, coordinator.Latest, r)
	}
	state, err := s.jobState(job, r)
	if err != nil {
		return coordinator.History{}, err
	}
	history := coordinator.History{State: state.JobState}
	body := cursor{values: r.body[1:]}
	f := parseFields(&body)
	history.Counts = parseCounts(&f)
	samples, restores := cursor{values: body.list()}, cursor{values: body.list()}
	for samples.more() {
		sample, err := parseSample(samples.text())
		if err != nil {
			return coordinator.History{}, badReply(historyScript.verb, r, err)
		}
		history.Samples = append(history.Samples, sample)
	}
	for restores.more() {
		restore, err := parseRestore(restores.text())
		if err != nil {
			return coordinator.History{}, badReply(historyScript.verb, r, err)
		}
		history.Restores = append(history.Restores, restore)
	}
	if err := errors.Join(body.err, f.err, samples.err, restores.err); err != nil {
		return coordinator.History{}, badReply(historyScript.verb, r, err)
	}
	return history, nil
}

func parseCounts(f *fields) coordinator.Counts {
	return coordinator.Counts{
		Triggered: f.optional("triggered"), Completed: f.optional("completed"),
		Expired: f.optional("expired"), Declined: f.optional("declined"), Aborted: f.optional("aborted"),
		Superseded: f.optional("superseded"), Evicted: f.optional("evicted"), Deleted: f.optional("deleted"),
		Restores: f.optional("restores"), RestoredBytes: f.optional("restored"),
	}
}

// parseSample reads "id|at|duration|entries|bytes|acks|last task".
func parseSample(text string) (coordinator.Sample, error) {
	numbers, rest, err := parseNumbers(text, 6)
	if err != nil {
		return coordinator.Sample{}, fmt.Errorf("sample %q: %w", text, err)
	}
	return coordinator.Sample{
		CheckpointID: numbers[0], CompletedAt: numbers[1], DurationMs: numbers[2], Entries: numbers[3], Bytes: numbers[4],
		Acks: int(numbers[5]), LastTask: rest,
	}, nil
}

// parseRestore reads "id|at|bytes|finished|by".
func parseRestore(text string) (coordinator.RestoreRecord, error) {
	numbers, rest, err := parseNumbers(text, 4)
	if err != nil {
		return coordinator.RestoreRecord{}, fmt.Errorf("restore %q: %w", text, err)
	}
	return coordinator.RestoreRecord{CheckpointID: numbers[0], At: numbers[1], Bytes: numbers[2], Finished: numbers[3] == 1, By: rest}, nil
}

// parseNumbers reads n numbers, each before a bar, and gives what follows.
func parseNumbers(text string, n int) (numbers []int64, rest string, err error) {
	rest = text
	for range n {
		digits, after, found := strings.Cut(rest, "|")
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || !found {
			return nil, "", fmt.Errorf("%q in place of a number and a bar", digits)
		}
		numbers, rest = append(numbers, number), after
	}
	return numbers, rest, nil
}

// RecordRestore adds to a job's history.
func (s *Store) RecordRestore(ctx context.Context, job string, restore coordinator.RestoreRecord) error {
	r, err := s.run(ctx, recordRestoreScript, repeatable, job,
		orNewToken(""), decimal(restore.CheckpointID), decimal(restore.Bytes), flag(restore.Finished), restore.By, coordinator.RestoresKept)
	if err == nil && r.word != wordOK {
		err = badReply(recordRestoreScript.verb, r, errWord)
	}
	return err
}
