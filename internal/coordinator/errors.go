package coordinator

import (
	"errors"
	"fmt"
	"time"
)

// Code names a refusal. The set is closed: clients switch over it, the contract lists
// it, and docs/errors.md says what each asks of the caller.
type Code string

// The codes that the domain and its stores answer, and those that only a door of the
// HTTP side answers.
const (
	CodeInvalidRequest           Code = "invalid_request"
	CodeInvalidParameter         Code = "invalid_parameter"
	CodeInvalidJSON              Code = "invalid_json"
	CodeUnauthorized             Code = "unauthorized"
	CodeForbidden                Code = "forbidden"
	CodeTaskNotExpected          Code = "task_not_expected"
	CodeNotFound                 Code = "not_found"
	CodeJobNotFound              Code = "job_not_found"
	CodeCheckpointNotFound       Code = "checkpoint_not_found"
	CodeCheckpointDeleted        Code = "checkpoint_deleted"
	CodeNoCompletedCheckpoint    Code = "no_completed_checkpoint"
	CodeKeyNotFound              Code = "key_not_found"
	CodeTaskNotInCheckpoint      Code = "task_not_in_checkpoint"
	CodeMethodNotAllowed         Code = "method_not_allowed"
	CodeNotAcceptable            Code = "not_acceptable"
	CodeCheckpointNotCompleted   Code = "checkpoint_not_completed"
	CodeCheckpointCompleted      Code = "checkpoint_completed"
	CodeCheckpointExpired        Code = "checkpoint_expired"
	CodeCheckpointAborted        Code = "checkpoint_aborted"
	CodeAcksMissing              Code = "acks_missing"
	CodeAckConflict              Code = "ack_conflict"
	CodePartChanged              Code = "part_changed"
	CodeStaleEpoch               Code = "stale_epoch"
	CodeStaleAttempt             Code = "stale_attempt"
	CodePinned                   Code = "pinned"
	CodeUnsupportedVersion       Code = "unsupported_version"
	CodeSnapshotDamaged          Code = "snapshot_damaged"
	CodeAllSetAside              Code = "all_set_aside"
	CodeTaskAbsent               Code = "task_absent"
	CodeMinPause                 Code = "min_pause"
	CodeJobNotEmpty              Code = "job_not_empty"
	CodeIdempotencyTargetDeleted Code = "idempotency_target_deleted"
	CodePreconditionFailed       Code = "precondition_failed"
	CodeTooLarge                 Code = "too_large"
	CodeUnsupportedMediaType     Code = "unsupported_media_type"
	CodeRangeNotSatisfiable      Code = "range_not_satisfiable"
	CodeIdempotencyKeyReused     Code = "idempotency_key_reused"
	CodeTypeMismatch             Code = "type_mismatch"
	CodeSnapshotTooLarge         Code = "snapshot_too_large"
	CodeLimitExceeded            Code = "limit_exceeded"
	CodeTooManyPending           Code = "too_many_pending"
	CodeTooManyRequests          Code = "too_many_requests"
	CodeInternal                 Code = "internal"
	CodeStoreUnavailable         Code = "store_unavailable"
	CodeOutcomeUnknown           Code = "outcome_unknown"
	CodeNotReplicated            Code = "not_replicated"
	CodeOverloaded               Code = "overloaded"
	CodeShuttingDown             Code = "shutting_down"
	CodeStoreFull                Code = "store_full"
)

// Codes lists every code once, in the order of their HTTP statuses.
func Codes() []Code {
	return []Code{
		CodeInvalidRequest, CodeInvalidParameter, CodeInvalidJSON,
		CodeUnauthorized, CodeForbidden, CodeTaskNotExpected,
		CodeNotFound, CodeJobNotFound, CodeCheckpointNotFound, CodeCheckpointDeleted,
		CodeNoCompletedCheckpoint, CodeKeyNotFound, CodeTaskNotInCheckpoint,
		CodeMethodNotAllowed, CodeNotAcceptable,
		CodeCheckpointNotCompleted, CodeCheckpointCompleted, CodeCheckpointExpired,
		CodeCheckpointAborted, CodeAcksMissing, CodeAckConflict, CodePartChanged,
		CodeStaleEpoch, CodeStaleAttempt, CodePinned, CodeUnsupportedVersion,
		CodeSnapshotDamaged, CodeAllSetAside, CodeTaskAbsent, CodeMinPause, CodeJobNotEmpty,
		CodeIdempotencyTargetDeleted, CodePreconditionFailed, CodeTooLarge,
		CodeUnsupportedMediaType, CodeRangeNotSatisfiable,
		CodeIdempotencyKeyReused, CodeTypeMismatch, CodeSnapshotTooLarge, CodeLimitExceeded,
		CodeTooManyPending, CodeTooManyRequests,
		CodeInternal, CodeStoreUnavailable, CodeOutcomeUnknown, CodeNotReplicated, CodeOverloaded,
		CodeShuttingDown, CodeStoreFull,
	}
}

// FieldError points at one wrong place of a request.
type FieldError struct {
	// Pointer is a JSON pointer into the body (RFC 6901), Parameter a query, path or
	// header parameter, Line a 1-based line of an NDJSON body. One of the three is set.
	Pointer   string
	Parameter string
	Line      int
	// Detail is a finished sentence for the caller.
	Detail string
}

// Error is a refusal that the caller may read: Detail is a finished sentence that says
// what to do next. Err, the cause, goes to the log and never to a client.
type Error struct {
	Code   Code
	Detail string
	Fields []FieldError
	// RetryAfter is how long to wait before the same call may work; 0 says nothing.
	RetryAfter time.Duration
	// Limit names the limit of GET /limits that was hit, if one was.
	Limit string
	// Current and Latest are the newest pending and the latest completed id of the job,
	// told to a late message so that its sender knows where to go on; nil is none.
	Current, Latest *int64
	// CheckpointID is the deleted target of an Idempotency-Key, or the damaged checkpoint.
	CheckpointID *int64
	// Damage is what the damaged checkpoint lacks.
	Damage string
	// Missing counts missing acknowledgements, MissingTasks names the first of them.
	Missing      int
	MissingTasks []string
	Err          error
}

// Error gives code, detail and cause, for logs.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Detail, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Detail)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is says that errors of one code are alike, so that errors.Is(err, &Error{Code: c})
// holds whatever the detail says.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf gives the code of err: CodeInternal for what is not an [Error], "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
