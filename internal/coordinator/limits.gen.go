// Code generated from api/openapi.yaml by internal/operations/generate. DO NOT EDIT.

package coordinator

// The bounds of the contract. GET /limits serves those that it names.
const (
	// AcksShown is from CheckpointDetails.acks of the contract.
	AcksShown = 100
	// DefaultListLimit is from GET /checkpoints limit of the contract.
	DefaultListLimit = 20
	// DefaultTasksLimit is from GET /checkpoints/{id}/tasks limit of the contract.
	DefaultTasksLimit = 100
	// JobPattern is from Job job of the contract.
	JobPattern = `^[A-Za-z0-9][A-Za-z0-9._-]*$`
	// MaxAckBody is ackBodyBytes of GET /limits: bytes of the body of an acknowledgement.
	MaxAckBody = 8388608
	// MaxBodyBytes is bodyBytes of GET /limits: bytes of any other JSON body.
	MaxBodyBytes = 16777216
	// MaxBulkAcks is bulkAcks of GET /limits: acknowledgements in one call.
	MaxBulkAcks = 1000
	// MaxCleanupAnswer is from CleanupResult.deleted of the contract.
	MaxCleanupAnswer = 1000
	// MaxConcurrentUpper is from JobSettings.maxConcurrentCheckpoints of the contract.
	MaxConcurrentUpper = 1000
	// MaxDescriptionBytes is descriptionBytes of GET /limits: bytes of a description.
	MaxDescriptionBytes = 4096
	// MaxErrorsShown is from Problem.errors of the contract.
	MaxErrorsShown = 20
	// MaxID is counter of GET /limits: the highest id, epoch and attempt.
	MaxID = 9007199254740991
	// MaxIdempotencyKeyBytes is idempotencyKeyBytes of GET /limits: bytes of an Idempotency-Key.
	MaxIdempotencyKeyBytes = 255
	// MaxJobNameBytes is jobBytes of GET /limits: bytes of a job name.
	MaxJobNameBytes = 128
	// MaxKeyBytes is keyBytes of GET /limits: bytes of a key.
	MaxKeyBytes = 1024
	// MaxLabelNameBytes is labelNameBytes of GET /limits: bytes of the name of a label.
	MaxLabelNameBytes = 128
	// MaxLabelValueBytes is labelValueBytes of GET /limits: bytes of the value of a label.
	MaxLabelValueBytes = 1024
	// MaxLabels is labels of GET /limits: labels of a checkpoint.
	MaxLabels = 64
	// MaxListLimit is listLimit of GET /limits: items of one page of a list.
	MaxListLimit = 1000
	// MaxNesting is nesting of GET /limits: depth of nested arrays and objects.
	MaxNesting = 1000
	// MaxObjectUpload is objectUploadBytes of GET /limits: bytes of a part uploaded as a JSON object.
	MaxObjectUpload = 8388608
	// MaxReasonBytes is reasonBytes of GET /limits: bytes of the reason given to abort.
	MaxReasonBytes = 4096
	// MaxRequiredTaskAcks is requiredTaskAcks of GET /limits: required acknowledgements of a checkpoint.
	MaxRequiredTaskAcks = 100000
	// MaxSharedBytes is sharedBytes of GET /limits: restore bytes of shared state.
	MaxSharedBytes = 16777216
	// MaxSharedKeys is sharedKeys of GET /limits: keys of shared state.
	MaxSharedKeys = 10000
	// MaxSnapshotDocument is snapshotDocumentBytes of GET /limits: bytes of a snapshot as one document.
	MaxSnapshotDocument = 8388608
	// MaxTaskIDBytes is taskIdBytes of GET /limits: bytes of a task id.
	MaxTaskIDBytes = 1024
	// MaxTasks is tasks of GET /limits: names in a trigger.
	MaxTasks = 10000
	// MaxTasksPerCheckpoint is tasksPerCheckpoint of GET /limits: tasks with a part in a checkpoint.
	MaxTasksPerCheckpoint = 100000
	// MaxTimeoutMs is timeoutMs of GET /limits: milliseconds a checkpoint may be given.
	MaxTimeoutMs = 3153600000000
	// MaxValueBytes is valueBytes of GET /limits: bytes of one value.
	MaxValueBytes = 16777216
	// MaxWaitSeconds is from Wait wait of the contract.
	MaxWaitSeconds = 60
	// MissingTasksShown is from Checkpoint.missingTasks of the contract.
	MissingTasksShown = 20
	// RestoresShown is from Stats.restores of the contract.
	RestoresShown = 20
	// SlowestTasks is from StatsTasks.slowest of the contract.
	SlowestTasks = 20
)
