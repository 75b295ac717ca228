package filestore

import (
	"context"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// counts are totals since the job's beginning.
type counts struct {
	Triggered     int64 `json:"triggered,omitempty"`
	Completed     int64 `json:"completed,omitempty"`
	Expired       int64 `json:"expired,omitempty"`
	Declined      int64 `json:"declined,omitempty"`
	Aborted       int64 `json:"aborted,omitempty"`
	Superseded    int64 `json:"superseded,omitempty"`
	Evicted       int64 `json:"evicted,omitempty"`
	Deleted       int64 `json:"deleted,omitempty"`
	Restores      int64 `json:"restores,omitempty"`
	RestoredBytes int64 `json:"restoredBytes,omitempty"`
}

// sample is one completion.
type sample struct {
	CheckpointID int64  `json:"id"`
	CompletedAt  int64  `json:"at"`
	DurationMs   int64  `json:"ms"`
	Entries      int64  `json:"entries,omitempty"`
	Bytes        int64  `json:"bytes,omitempty"`
	Acks         int    `json:"acks,omitempty"`
	LastTask     string `json:"last,omitempty"`
}

// restoreRecord is one transfer of a snapshot.
type restoreRecord struct {
	CheckpointID int64  `json:"id"`
	At           int64  `json:"at"`
	Bytes        int64  `json:"bytes,omitempty"`
	Finished     bool   `json:"finished,omitempty"`
	By           string `json:"by,omitempty"`
}

// addSample keeps a completion for the statistics.
func (s *step) addSample(c *checkpoint, lastTask string) {
	s.appendJSON(s.bucket(c.job.b, bucketSamples), &sample{
		CheckpointID: c.id, CompletedAt: c.EndedAt, DurationMs: max(0, c.EndedAt-c.Start),
		Entries: c.Entries, Bytes: c.Bytes, Acks: c.Acked, LastTask: lastTask,
	}, coordinator.SamplesKept)
}

// RecordRestore adds to a job's history.
func (s *Store) RecordRestore(ctx context.Context, job string, restore coordinator.RestoreRecord) error {
	_, err := mutate(ctx, s, func(st *step) (struct{}, error) {
		if st.job(job) == nil {
			return struct{}{}, nil // it was deleted while somebody restored from it
		}
		j := st.makeJob(job)
		restore.At = st.now
		record := restoreRecord(restore)
		st.appendJSON(st.bucket(j.b, bucketRestores), &record, coordinator.RestoresKept)
		j.Counts.Restores++
		j.Counts.RestoredBytes += restore.Bytes
		st.touchJob(j)
		return struct{}{}, nil
	})
	return err
}

// History reads what a job's statistics are made of.
func (s *Store) History(ctx context.Context, job string) (coordinator.History, error) {
	return read(ctx, s, func(st *step) (coordinator.History, error) {
		j := st.job(job)
		if j == nil {
			return coordinator.History{}, coordinator.ErrJobNotFound(job)
		}
		history := coordinator.History{State: st.wholeState(j), Counts: coordinator.Counts(j.Counts)}
		for _, s := range newestFirst[sample](j, bucketSamples) {
			history.Samples = append(history.Samples, coordinator.Sample(s))
		}
		for _, r := range newestFirst[restoreRecord](j, bucketRestores) {
			history.Restores = append(history.Restores, coordinator.RestoreRecord(r))
		}
		return history, nil
	})
}

// newestFirst reads what appendJSON wrote. What cannot be read is left out, for statistics are about many, and
// noted.
func newestFirst[T any](j *job, set []byte) []T {
	var all []T
	for k, text := range descend(child(j.b, set), nil) {
		var value T
		if err := decode(text, &value); err != nil {
			j.unreadable(j.name, noCheckpoint, fmt.Errorf("read %d of %s: %w", idOf(k), set, err))
			continue
		}
		all = append(all, value)
	}
	return all
}
