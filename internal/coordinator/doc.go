// Package coordinator is the domain of checkpointd: what a checkpoint is, who may
// change it, and in which order refusals are given. It imports the standard library
// only; HTTP and storage are adapters around it.
//
// # The state machine
//
// A job is a namespace. A trigger makes a pending checkpoint in it. Every task of the
// fleet hands in its part and acknowledges; the acknowledgement that reaches the
// required number completes the checkpoint in the same atomic step:
//
//	              acknowledge (the last one), complete
//	           ┌──────────────────────────────────────────► completed
//	trigger    │
//	────► pending ── deadline passed ─────────────────────► expired
//	           │
//	           └── abort, decline, recover, evict ────────► aborted
//
// Terminal states never change. What differs between checkpoints that ended without
// completing is the [FailureReason].
//
// # Epochs and attempts
//
// Two counters keep messages of a former life out. The epoch belongs to the job and is
// raised by each recover, in the step that aborts everything pending: a message that
// names an older epoch is refused, whoever sends it. The attempt belongs to one task
// and is raised by whoever restarts that task alone: the highest attempt seen in an
// accepted message is kept for the job, and messages of an older one are refused.
// Recover leaves attempts alone, since a supervisor keeps counting.
//
// # What a store owes
//
// Every method of [Store] that changes something is one atomic step: it validates
// everything, then writes, so that a refusal leaves nothing behind. The store's clock
// is the only clock. A call may be sent twice when its reply was lost; calls that carry
// a Token answer the second time what they answered the first. Storage that is away is
// CodeStoreUnavailable, never "nothing there".
package coordinator
