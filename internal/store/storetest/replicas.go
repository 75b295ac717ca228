package storetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// inTurn sends each call to the next of its handles, as a load balancer in front of
// replicas does. An upload and an open restore stay with the handle that began them,
// as they stay with the connection of their request.
type inTurn struct {
	handles []coordinator.Store
	calls   atomic.Uint64
}

func (s *inTurn) next() coordinator.Store {
	return s.handles[s.calls.Add(1)%uint64(len(s.handles))]
}

func (s *inTurn) Trigger(ctx context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	return s.next().Trigger(ctx, call)
}

func (s *inTurn) Acknowledge(ctx context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	return s.next().Acknowledge(ctx, call)
}

func (s *inTurn) Complete(ctx context.Context, call coordinator.CompleteCall) (coordinator.Checkpoint, error) {
	return s.next().Complete(ctx, call)
}

func (s *inTurn) Abort(ctx context.Context, call coordinator.AbortCall) (coordinator.Checkpoint, error) {
	return s.next().Abort(ctx, call)
}

func (s *inTurn) Extend(ctx context.Context, call coordinator.ExtendCall) (coordinator.Checkpoint, error) {
	return s.next().Extend(ctx, call)
}

func (s *inTurn) Update(ctx context.Context, call coordinator.UpdateCall) (coordinator.Checkpoint, error) {
	return s.next().Update(ctx, call)
}

func (s *inTurn) Delete(ctx context.Context, call coordinator.DeleteCall) error {
	return s.next().Delete(ctx, call)
}

func (s *inTurn) Cleanup(ctx context.Context, call coordinator.CleanupCall) (coordinator.CleanupResult, error) {
	return s.next().Cleanup(ctx, call)
}

func (s *inTurn) Recover(ctx context.Context, call coordinator.RecoverCall) (coordinator.RecoverResult, error) {
	return s.next().Recover(ctx, call)
}

func (s *inTurn) WriteShared(ctx context.Context, call coordinator.SharedWrite) (coordinator.SharedWritten, error) {
	return s.next().WriteShared(ctx, call)
}

func (s *inTurn) SharedState(ctx context.Context, ref coordinator.Ref) (coordinator.SharedState, error) {
	return s.next().SharedState(ctx, ref)
}

func (s *inTurn) SharedEntry(ctx context.Context, ref coordinator.Ref, key string) (coordinator.SharedValue, error) {
	return s.next().SharedEntry(ctx, ref, key)
}

func (s *inTurn) BeginUpload(ctx context.Context, call coordinator.UploadCall) (coordinator.Upload, error) {
	return s.next().BeginUpload(ctx, call)
}

func (s *inTurn) Get(ctx context.Context, ref coordinator.Ref) (coordinator.CheckpointDetail, error) {
	return s.next().Get(ctx, ref)
}

func (s *inTurn) List(ctx context.Context, call coordinator.ListCall) (coordinator.ListResult, error) {
	return s.next().List(ctx, call)
}

func (s *inTurn) Tasks(ctx context.Context, call coordinator.TasksCall) (coordinator.TasksResult, error) {
	return s.next().Tasks(ctx, call)
}

func (s *inTurn) Task(ctx context.Context, ref coordinator.Ref, taskID string) (coordinator.TaskState, error) {
	return s.next().Task(ctx, ref, taskID)
}

func (s *inTurn) OpenRestore(ctx context.Context, call coordinator.RestoreCall) (coordinator.RestoreSource, error) {
	return s.next().OpenRestore(ctx, call)
}

func (s *inTurn) SaveDigest(ctx context.Context, ref coordinator.Ref, digest string) error {
	return s.next().SaveDigest(ctx, ref, digest)
}

func (s *inTurn) MarkDamaged(ctx context.Context, call coordinator.DamageCall) error {
	return s.next().MarkDamaged(ctx, call)
}

func (s *inTurn) Jobs(ctx context.Context) ([]coordinator.JobState, error) {
	return s.next().Jobs(ctx)
}

func (s *inTurn) Sweep(ctx context.Context, call coordinator.SweepCall) error {
	return s.next().Sweep(ctx, call)
}

func (s *inTurn) Health(ctx context.Context) ([]coordinator.Warning, error) {
	return s.next().Health(ctx)
}

// Close closes every handle, whatever the others answer.
func (s *inTurn) Close() error {
	var failed []error
	for _, handle := range s.handles {
		failed = append(failed, handle.Close())
	}
	return errors.Join(failed...)
}

func (s *inTurn) TriggerIfDue(ctx context.Context, call coordinator.DueCall) (coordinator.DueResult, error) {
	return s.next().TriggerIfDue(ctx, call)
}

func (s *inTurn) Job(ctx context.Context, job string) (coordinator.JobState, error) {
	return s.next().Job(ctx, job)
}

func (s *inTurn) PutJob(ctx context.Context, call coordinator.PutJobCall) (coordinator.PutJobResult, error) {
	return s.next().PutJob(ctx, call)
}

func (s *inTurn) DeleteJob(ctx context.Context, call coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	return s.next().DeleteJob(ctx, call)
}

func (s *inTurn) Import(ctx context.Context, call coordinator.ImportCall) error {
	return s.next().Import(ctx, call)
}

func (s *inTurn) ForgetTask(ctx context.Context, job, taskID string) error {
	return s.next().ForgetTask(ctx, job, taskID)
}

func (s *inTurn) Events(ctx context.Context, call coordinator.EventsCall) (coordinator.EventsResult, error) {
	return s.next().Events(ctx, call)
}

func (s *inTurn) History(ctx context.Context, job string) (coordinator.History, error) {
	return s.next().History(ctx, job)
}

func (s *inTurn) RecordRestore(ctx context.Context, job string, restore coordinator.RestoreRecord) error {
	return s.next().RecordRestore(ctx, job, restore)
}

func (s *inTurn) Listen(ctx context.Context, wake func(job string)) { s.next().Listen(ctx, wake) }

func (s *inTurn) Alive() error { return s.next().Alive() }
