package worker

// Code says why the server refused a request. It is an error, so that
//
//	errors.Is(err, worker.CodeStaleEpoch)
//
// finds the [Problem] with this code. The list is closed; docs/errors.md says what each asks
// of a client.
type Code string

// The codes of the contract.
const (
	CodeAckConflict              Code = "ack_conflict"
	CodeAcksMissing              Code = "acks_missing"
	CodeAllSetAside              Code = "all_set_aside"
	CodeCheckpointAborted        Code = "checkpoint_aborted"
	CodeCheckpointCompleted      Code = "checkpoint_completed"
	CodeCheckpointDeleted        Code = "checkpoint_deleted"
	CodeCheckpointExpired        Code = "checkpoint_expired"
	CodeCheckpointNotCompleted   Code = "checkpoint_not_completed"
	CodeCheckpointNotFound       Code = "checkpoint_not_found"
	CodeForbidden                Code = "forbidden"
	CodeIdempotencyKeyReused     Code = "idempotency_key_reused"
	CodeIdempotencyTargetDeleted Code = "idempotency_target_deleted"
	CodeInternal                 Code = "internal"
	CodeInvalidJSON              Code = "invalid_json"
	CodeInvalidParameter         Code = "invalid_parameter"
	CodeInvalidRequest           Code = "invalid_request"
	CodeJobNotEmpty              Code = "job_not_empty"
	CodeJobNotFound              Code = "job_not_found"
	CodeKeyNotFound              Code = "key_not_found"
	CodeLimitExceeded            Code = "limit_exceeded"
	CodeMethodNotAllowed         Code = "method_not_allowed"
	CodeMinPause                 Code = "min_pause"
	CodeNoCompletedCheckpoint    Code = "no_completed_checkpoint"
	CodeNotAcceptable            Code = "not_acceptable"
	CodeNotFound                 Code = "not_found"
	CodeNotReplicated            Code = "not_replicated"
	CodeOutcomeUnknown           Code = "outcome_unknown"
	CodeOverloaded               Code = "overloaded"
	CodePartChanged              Code = "part_changed"
	CodePinned                   Code = "pinned"
	CodePreconditionFailed       Code = "precondition_failed"
	CodeRangeNotSatisfiable      Code = "range_not_satisfiable"
	CodeShuttingDown             Code = "shutting_down"
	CodeSnapshotDamaged          Code = "snapshot_damaged"
	CodeSnapshotTooLarge         Code = "snapshot_too_large"
	CodeStaleAttempt             Code = "stale_attempt"
	CodeStaleEpoch               Code = "stale_epoch"
	CodeStoreFull                Code = "store_full"
	CodeStoreUnavailable         Code = "store_unavailable"
	CodeTaskAbsent               Code = "task_absent"
	CodeTaskNotExpected          Code = "task_not_expected"
	CodeTaskNotInCheckpoint      Code = "task_not_in_checkpoint"
	CodeTooLarge                 Code = "too_large"
	CodeTooManyPending           Code = "too_many_pending"
	CodeTooManyRequests          Code = "too_many_requests"
	CodeTypeMismatch             Code = "type_mismatch"
	CodeUnauthorized             Code = "unauthorized"
	CodeUnsupportedMediaType     Code = "unsupported_media_type"
	CodeUnsupportedVersion       Code = "unsupported_version"
)

// Error is the code itself.
func (c Code) Error() string { return string(c) }
