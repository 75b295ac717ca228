package worker

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

// Worker is one task of a job. Fill in URL, TaskID, Snapshot and Restore, and call Run. The
// fields must not change while it runs.
//
// Drain and Snapshot get a context that is cancelled when their checkpoint ends, with an [*Ended]
// as its cause, and when Run does. The others get one that lasts as long as Run, but for Work,
// and Run waits until all but Drain have returned. None of them is called twice at the same
// time; Snapshot, its entries and Work may go on beside OnCompleted and OnAborted.
type Worker struct {
	// URL is where a server, or a load balancer before several, answers, such as
	// "http://127.0.0.1:8080". It may have a path.
	URL string
	// Token is the secret that a server with tokens asks for, in visible ASCII characters; empty,
	// none is sent. It needs the roles ack and read, events to follow the stream instead of
	// polling, and trigger with a RecoveryKey. Whoever listens on the way can read it, unless URL is
	// https. Run ends with CodeUnauthorized or CodeForbidden where it does not do.
	Token string
	// Job is "default" when empty. It has 1 to 128 letters, digits, '.', '_' and '-', and begins
	// with a letter or digit. Another job exists from its first trigger, recover or PUT on; Run
	// ends with CodeJobNotFound before, since a mistyped job must not look like a fresh start.
	Job string
	// TaskID names the task: the same in each life of the worker, and of no other task of the
	// job. It has 1 to 1024 bytes of UTF-8, without control characters or white space around it,
	// and is not ".", ".." or "-".
	TaskID string
	// Attempt counts the lives of this task, from 1. When it is set, a former life that is
	// still about is refused (CodeStaleAttempt) as soon as this one was heard. 0 sends none;
	// the highest is 2^53-1.
	Attempt int64
	// RecoveryKey, when set, begins with the recovery of the whole fleet: every worker gives
	// the same key, a new one for each crash, and all get the same epoch and checkpoint. It has
	// 1 to 255 visible ASCII characters. Empty, the worker goes on from the job's latest
	// completed checkpoint by itself.
	RecoveryKey string

	// Restore is called once, before Work and the first Snapshot: with the checkpoint to go
	// on from and the task's part of it (see Share and Shared for more), or on a fresh start
	// with the ID None and no entries. The entries arrive while they are read; they can be
	// ranged over once, and a connection that breaks meanwhile is resumed where it was. An
	// error ends Run, and so does a return without one while there are entries that were not
	// read: the worker would go on with a part of its state. What is not wanted is read, too,
	// and passed over.
	Restore func(ctx context.Context, from Checkpoint, entries Entries) error
	// Snapshot takes the task's part of a cut, which is what it has got hold of when it returns.
	// That should be all that it does under the state's lock, such as to copy a map. What it does
	// without the lock, such as to prepare a sink, holds up nothing but checkpoints. The entries
	// are encoded and sent after that, and read again from the start when the upload has to be
	// repeated: they must be the same each time and in the same order, whatever happens to the
	// state. Where they wait for something, they should heed the context, too; the server gives an
	// upload up that pauses for a minute.
	// An error, also one of the entries, declines the checkpoint.
	Snapshot func(ctx context.Context, checkpoint Checkpoint) (Entries, error)
	// Work, if set, is called once the state is back, and runs beside everything else. Run
	// ends with its error when it returns. Its context ends when Run does; its cause tells why.
	Work func(ctx context.Context) error

	// Drain, if set, is called before Snapshot to wait for what is under way outside of the
	// state, such as asynchronous requests. An error declines the checkpoint. It should return
	// soon after its context has ended; Run does not wait for it.
	Drain func(ctx context.Context) error
	// DrainTimeout is how long Drain may take, 30 s when 0. After that its context ends and
	// the checkpoint is declined, since the cut would be torn.
	DrainTimeout time.Duration

	// OnCompleted, if set, is told that a checkpoint has completed with the part that
	// Snapshot took for it. It is called at most once a checkpoint, and not at all when the
	// worker did not live to see it: that an ID completed stands for every lower one, as
	// does the ID that Restore is called with. Checkpoints need not end in the order of their
	// IDs. A commit that fails is not the checkpoint's failure, but must end this life: cancel Run's
	// context with a cause, which Run then returns, also instead of the nil of a FinalCheckpoint.
	OnCompleted func(ctx context.Context, id int64)
	// OnAborted, if set, is told that a checkpoint for which Snapshot was called came to
	// nothing, at most once a checkpoint and as far as is known. After ReasonDeleted it may have
	// completed. Nothing that was prepared should be thrown away: see the package's part on sinks.
	OnAborted func(ctx context.Context, id int64, ended Ended)

	// Engine, if set, takes the place of Snapshot and Restore, which must be nil then, and
	// Shared false: the state is that of everything registered with this coordinator, before
	// Run or later. A key is the name of its source, in which slashes are written %2F and
	// percent signs %25, then a slash and the key within the source; a source without keys
	// is its name alone. So a store's name and key have at most 1023 bytes together.
	//
	// A Share, and its Group, go by the keys within the sources: keyed stores are split, and a
	// key that two tasks have ends Run. What has no keys stays with its own task.
	//
	// Another life needs another coordinator, with the same registered: Run ends with an error
	// where it finds state of a former life that the checkpoint does not replace.
	Engine *engine.Coordinator
	// Share, if set, brings back this worker's share of the parts of all tasks in place of
	// the task's own part: for a fleet that has grown or shrunk. All of it must come back to
	// one checkpoint, or groups would be lost or come twice: it needs a RecoveryKey.
	Share Share
	// Shared also brings back the shared state of the checkpoint, the same to every worker and
	// before everything else; its entries have no TaskID. Without it they never arrive.
	Shared bool
	// FinalCheckpoint keeps Run going after Work has returned nil, until a checkpoint has
	// completed whose Snapshot was called after that, and OnCompleted has returned: what a
	// sink prepared is committed, then. Somebody has to trigger it. When it comes to nothing,
	// or is deleted before the worker heard how it ended, the next one is waited for. Run
	// returns nil only after all that: it ends with the cause of its context when that ends
	// before, and with CodeStaleEpoch when the fleet recovers, after which Work has to be
	// called again on the state that comes back.
	//
	// A checkpoint that names the task after that waits for it in vain, so the tasks of a fleet
	// must all end with the same checkpoint: see the package's part on finishing.
	FinalCheckpoint bool
	// ShutdownTimeout is how long a part may still be handed in when Run's context ends, from
	// the call of Snapshot to the acknowledgement; 0 cuts it off at once. It holds up
	// nothing else: Work's context ends at once, no further cut is taken, and Run returns when
	// the part counts, after OnCompleted when it was the last one.
	ShutdownTimeout time.Duration
	// OnProgress, if set, is told how far restores and uploads have come: at most ten times a
	// second while something moves, and once at the end of each, never twice at the same time. The
	// transfer waits while it is called.
	OnProgress func(Progress)

	// PollWait is how long a long poll stays open while there is no event stream: 1 s to
	// 60 s in whole seconds, 30 s when 0.
	PollWait time.Duration
	// StreamTimeout is how long the event stream may take to begin, 10 s when 0. The worker
	// polls until it has begun.
	StreamTimeout time.Duration
	// ExtendBy is how much time a checkpoint is given at least, again and again while its upload
	// moves on; 60 s when 0, never when negative. Only what is being sent is given more: where two
	// checkpoints are pending, the second one waits for the upload of the first with the deadline
	// that it has.
	ExtendBy time.Duration
	// MaxBackoff is the longest pause before a call that failed is repeated, 5 s when 0. Where the
	// server asks for a longer one (Retry-After) it is that, up to 30 s.
	MaxBackoff time.Duration
	// HTTPClient sends the requests. It must not have a Timeout, which would cut streams off.
	// Run makes one when it is nil.
	HTTPClient *http.Client
	// Logger is told what happens; nil is silence.
	Logger *slog.Logger

	transferPatience time.Duration // the constant of this name, but in tests
}

// Ended says how a checkpoint ended. It is an error so that it can be the cause of a
// context, also after a completion.
type Ended struct {
	ID int64
	// Reason is one of the Reason… constants.
	Reason Reason
	// TaskID is the task that declined.
	TaskID string
	// Message is free text of whoever ended it.
	Message string
}

// Reason is why a checkpoint ended.
type Reason string

// The reasons of the contract, and three of the worker's own: ReasonCompleted is no failure,
// ReasonNotIncluded that what this life handed in is not in the checkpoint, which completed
// before, or has the part of a former life; ReasonDeleted that the checkpoint is gone and with
// it the record of how it ended.
const (
	ReasonCompleted   Reason = "completed"
	ReasonExpired     Reason = "expired"
	ReasonDeclined    Reason = "declined"
	ReasonAborted     Reason = "aborted"
	ReasonSuperseded  Reason = "superseded"
	ReasonEvicted     Reason = "evicted"
	ReasonNotIncluded Reason = "not_included"
	ReasonDeleted     Reason = "deleted"
)
