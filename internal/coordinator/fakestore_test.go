package coordinator_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync/atomic"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// scriptedStore answers what a test tells it to. It embeds a nil Store, so that a call
// which the test does not expect ends it.
type scriptedStore struct {
	coordinator.Store

	trigger    func(coordinator.TriggerCall) (coordinator.TriggerResult, error)
	ack        func(coordinator.AckCall) (coordinator.AckResult, error)
	cleanup    func(coordinator.CleanupCall) (coordinator.CleanupResult, error)
	begin      func(coordinator.UploadCall) (coordinator.Upload, error)
	source     func(coordinator.RestoreCall) (coordinator.RestoreSource, error)
	health     func() ([]coordinator.Warning, error)
	sweep      func() error
	record     func(string, coordinator.RestoreRecord) error
	savedTimes atomic.Int64
	// marked are the ids that were marked as damaged, by one goroutine.
	marked []int64
}

func (s *scriptedStore) Trigger(_ context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	return s.trigger(call)
}

func (s *scriptedStore) Acknowledge(_ context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	return s.ack(call)
}

func (s *scriptedStore) Cleanup(_ context.Context, call coordinator.CleanupCall) (coordinator.CleanupResult, error) {
	return s.cleanup(call)
}

func (s *scriptedStore) BeginUpload(_ context.Context, call coordinator.UploadCall) (coordinator.Upload, error) {
	return s.begin(call)
}

func (s *scriptedStore) OpenRestore(_ context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	return s.source(call)
}

func (s *scriptedStore) MarkDamaged(_ context.Context, call coordinator.DamageCall) error {
	s.marked = append(s.marked, call.ID)
	return nil
}

func (s *scriptedStore) SaveDigest(context.Context, coordinator.Ref, string) error {
	s.savedTimes.Add(1)
	return nil
}

func (s *scriptedStore) Health(context.Context) ([]coordinator.Warning, error) { return s.health() }

func (s *scriptedStore) Sweep(context.Context, coordinator.SweepCall) error { return s.sweep() }

func (s *scriptedStore) Jobs(context.Context) ([]coordinator.JobState, error) { return nil, nil }

func (s *scriptedStore) Listen(ctx context.Context, _ func(string)) { <-ctx.Done() }

func (s *scriptedStore) RecordRestore(_ context.Context, job string, restore coordinator.RestoreRecord) error {
	if s.record == nil {
		return nil
	}
	return s.record(job, restore)
}

// memorySource is a restore from memory, with a journal of what happened to its lease.
type memorySource struct {
	checkpoint coordinator.Checkpoint
	parts      []coordinator.ManifestPart
	content    [][]byte
	renew      func() error
	slow       int // the part whose reading takes until the context ends; 0 is none
	released   atomic.Bool
	closed     atomic.Bool
}

func newMemorySource(contents ...string) *memorySource {
	s := &memorySource{
		checkpoint: coordinator.Checkpoint{Job: "default", ID: 7, Status: coordinator.StatusCompleted, SnapshotVersion: 1},
		renew:      func() error { return nil },
	}
	for i, content := range contents {
		s.parts = append(s.parts, coordinator.ManifestPart{
			TaskID: string(rune('a' + i)), Shared: i == 0,
			PartInfo: coordinator.PartInfo{Entries: 1, Bytes: int64(len(content)), Digest: digestOf(content)},
		})
		s.content = append(s.content, []byte(content))
	}
	return s
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s *memorySource) Checkpoint() coordinator.Checkpoint { return s.checkpoint }
func (s *memorySource) Parts() []coordinator.ManifestPart  { return s.parts }
func (s *memorySource) Renew(context.Context) error        { return s.renew() }
func (s *memorySource) Release(context.Context) error      { s.released.Store(true); return nil }
func (s *memorySource) Close() error                       { s.closed.Store(true); return nil }

func (s *memorySource) ReadAt(ctx context.Context, part int, p []byte, off int64) (int, error) {
	if s.slow != 0 && part == s.slow {
		<-ctx.Done()
	}
	if part >= len(s.content) {
		return 0, errors.New("no such part")
	}
	return bytes.NewReader(s.content[part]).ReadAt(p, off)
}

func (s *scriptedStore) Alive() error { return nil }
