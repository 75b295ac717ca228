package engine

import "errors"

// The refusals that callers tell apart, with [errors.Is].
var (
	// ErrNoCheckpoint is the answer to an id that was never triggered, or that has been
	// dropped since, see [Options].Retain.
	ErrNoCheckpoint = errors.New("engine: no such checkpoint")
	// ErrNoKey is the answer of a keyed store to a context without a current key of its
	// type, see [WithKey].
	ErrNoKey = errors.New("engine: no current key")
	// ErrNoSource is the answer to a name that a checkpoint has no state of.
	ErrNoSource = errors.New("engine: no such snapshot source")
	// ErrDuplicate is the answer to a name that is registered already.
	ErrDuplicate = errors.New("engine: a snapshot source of this name is registered")
	// ErrInCut is the answer to a trigger, restore or registration from within a snapshot
	// or restore function: the cut would change while it is taken.
	ErrInCut = errors.New("engine: called by a snapshot or restore function")
	// ErrInFence is the answer to a stream that is consumed by who holds its fence: waiting
	// for a source would hold up every checkpoint.
	ErrInFence = errors.New("engine: a stream is consumed inside the fence")
	// ErrStopped is the answer to a record that is emitted after its stream has ended.
	ErrStopped = errors.New("engine: the stream has ended")
)

// errNoCoordinator is the answer of a nil [Coordinator] to what needs one.
var errNoCoordinator = errors.New("engine: there is no coordinator")

// errExited is the failure of a source that neither returned nor panicked, as with t.Fatal:
// what it emitted is not the whole input.
var errExited = errors.New("its goroutine was ended by runtime.Goexit")

// SourceError is the failure of a source. What it emitted before has been processed.
type SourceError struct{ Err error }

// Error says what failed.
func (e *SourceError) Error() string { return "engine: source execution failed: " + e.Err.Error() }

// Unwrap returns what the source returned.
func (e *SourceError) Unwrap() error { return e.Err }
