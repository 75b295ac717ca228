package worker

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// run is one life of a worker.
type run struct {
	Worker
	client client
	// epoch is the job's at the start of this life. What is of a later one is not for us.
	epoch int64
	// named are the job's tasks at the start, none when it names none.
	named  []string
	link   *link
	wake   chan struct{} // capacity 1: something was triggered
	ledger ledger
	// draining is a call of Drain that has not returned.
	draining chan error
	watchers sync.WaitGroup
}

var (
	// errWorked is why a life ends whose Work has returned nil.
	errWorked = errors.New("the work is done")
	// errHandedIn is never seen: what came before it is why the life ends.
	errHandedIn = errors.New("nothing more is handed in")
)

// Run restores, then takes part in every checkpoint until ctx ends, Work returns, or nothing
// can be done any more. It returns nil when Work did, the cause of ctx when that ended, and
// otherwise an error of a callback, or one of these, which errors.Is finds:
//
//   - CodeStaleEpoch: the fleet has recovered since this worker started. Drop the state and
//     run again, with the key of that recovery.
//   - CodeStaleAttempt: another life of this task has taken over. Stop.
//   - [ErrRecoveryKeyUsed], CodeIdempotencyTargetDeleted: RecoveryKey is of a former life, or its
//     checkpoint is gone. Recover again with a new key on all workers.
//   - CodeCheckpointDeleted: the checkpoint was deleted while it came back. Run again.
//   - CodeSnapshotDamaged: the checkpoint turned out to be damaged while it came back, so run again and go back to an
//     older one (workers with a RecoveryKey all of them, with that same key: each goes on to the same next one). Or
//     no completed checkpoint is whole; see docs/durability.md.
//   - CodeJobNotFound: the job does not exist (yet), or was deleted.
//   - Others are faults of the call, such as a TaskID that the server does not accept.
//
// A server or a store that is away ends nothing: Run waits for it.
func (w *Worker) Run(ctx context.Context) error {
	settings, err := w.settings()
	if err != nil {
		return err
	}
	r := &run{Worker: settings, link: newLink(), wake: make(chan struct{}, 1)}
	r.ledger.init()
	if r.HTTPClient == nil {
		transport := newTransport()
		defer transport.CloseIdleConnections()
		r.HTTPClient = &http.Client{Transport: transport}
	}
	r.client = client{
		base: r.URL, job: r.Job, token: r.Token, http: r.HTTPClient, log: r.Logger,
		policy: backoff{min: min(100*time.Millisecond, r.MaxBackoff), max: r.MaxBackoff},
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	return r.live(ctx)
}

// live runs everything that goes on beside each other until one part of it ends. What is being
// handed in may go on after that: it is under a context of its own.
func (r *run) live(parent context.Context) error {
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	handing, cutOff := r.handing(parent, ctx)
	defer cutOff(nil)

	var parts sync.WaitGroup
	handedIn := make(chan struct{})
	parts.Go(func() { end(r.follow(handing)) })
	parts.Go(func() {
		end(r.participate(ctx, handing))
		close(handedIn)
	})
	parts.Go(func() {
		end(r.tell(handing, handedIn))
		cutOff(nil)
	})
	if r.Work != nil {
		parts.Go(func() {
			if err := r.work(ctx); err != nil {
				end(err)
			}
		})
	}
	parts.Wait()
	r.watchers.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errWorked) {
		return err
	}
	return nil
}

// work does the user's work; nil means that the life goes on after it.
func (r *run) work(ctx context.Context) error {
	if err := r.Work(ctx); err != nil {
		return err
	}
	if !r.FinalCheckpoint {
		return errWorked
	}
	r.Logger.InfoContext(ctx, "the work is done, waiting for a checkpoint that has all of it")
	r.ledger.finish()
	return nil
}

// handing is ctx, and lasts for the ShutdownTimeout longer when it is parent that ends. Whoever
// uses it up calls cutOff.
func (r *run) handing(parent, ctx context.Context) (_ context.Context, cutOff context.CancelCauseFunc) {
	if r.ShutdownTimeout <= 0 {
		return context.WithCancelCause(ctx)
	}
	handing, cutOff := context.WithCancelCause(context.WithoutCancel(parent))
	r.watchers.Go(func() {
		select {
		case <-ctx.Done():
		case <-handing.Done():
			return
		}
		if parent.Err() != nil {
			_ = pause(handing, r.ShutdownTimeout)
		}
		cutOff(context.Cause(ctx))
	})
	return handing, cutOff
}
