// Code generated from api/openapi.yaml by internal/operations/generate. DO NOT EDIT.

package operations

import (
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var table = [...]*Operation{
	{
		Name: "ListCheckpoints", Method: "GET", Path: "/checkpoints",
		Role: "read", Class: "list",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "status", Type: Text, Enum: []string{"pending", "completed", "expired", "aborted"}},
			{Name: "limit", Type: Integer, Minimum: 1, Maximum: 1000},
			{Name: "before", Type: Text},
			{Name: "notAckedBy", Type: Text},
			{Name: "wait", Type: Integer, Minimum: 0, Maximum: 60},
		},
	},
	{
		Name: "TriggerCheckpoint", Method: "POST", Path: "/checkpoints",
		Role: "trigger", Class: "small",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "force", Type: Boolean},
			{Name: "wait", Type: Integer, Minimum: 0, Maximum: 60},
		},
		Headers: []string{"Idempotency-Key"},
	},
	{
		Name: "CleanupCheckpoints", Method: "POST", Path: "/checkpoints/cleanup",
		Role: "admin", Class: "heavy", Long: true,
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "dryRun", Type: Boolean},
		},
	},
	{
		Name: "GetLatestCheckpoint", Method: "GET", Path: "/checkpoints/latest",
		Role: "read", Class: "list",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "after", Type: Integer, Minimum: 0, Maximum: 9007199254740991},
			{Name: "wait", Type: Integer, Minimum: 0, Maximum: 60},
		},
		Headers: []string{"If-None-Match"},
	},
	{
		Name: "GetLatestSharedEntryByKey", Method: "GET", Path: "/checkpoints/latest/entry",
		Role: "read", Class: "heavy",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "key", Required: true, Type: Text},
			{Name: "type", Type: Text, Enum: []string{"string", "integer", "number", "boolean", "object", "array"}},
		},
	},
	{
		Name: "GetLatestManifest", Method: "GET", Path: "/checkpoints/latest/manifest",
		Role: "read", Class: "heavy", Long: true,
		Produces: []string{"text/plain"},
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
	},
	{
		Name: "RestoreLatest", Method: "GET", Path: "/checkpoints/latest/restore",
		Role: "read", Class: "restore", Streams: true,
		Produces: []string{"application/x-ndjson"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "taskId", Repeated: true, Type: Text},
			{Name: "shared", Type: Boolean},
		},
		Headers: []string{"Range", "If-Range", "If-None-Match"},
	},
	{
		Name: "HeadRestoreLatest", Method: "HEAD", Path: "/checkpoints/latest/restore",
		Role: "read", Class: "heavy", Long: true,
		Produces: []string{"application/x-ndjson"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "taskId", Repeated: true, Type: Text},
			{Name: "shared", Type: Boolean},
		},
		Headers: []string{"If-None-Match"},
	},
	{
		Name: "GetLatestSnapshot", Method: "GET", Path: "/checkpoints/latest/snapshot",
		Role: "read", Class: "heavy", Long: true,
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
	},
	{
		Name: "GetLatestSharedState", Method: "GET", Path: "/checkpoints/latest/state",
		Role: "read", Class: "heavy",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
	},
	{
		Name: "GetLatestSharedEntry", Method: "GET", Path: "/checkpoints/latest/state/{key}",
		Role: "read", Class: "heavy",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "type", Type: Text, Enum: []string{"string", "integer", "number", "boolean", "object", "array"}},
		},
		PathParameters: []string{"key"},
	},
	{
		Name: "RecoverJob", Method: "POST", Path: "/checkpoints/recover",
		Role: "trigger", Class: "small",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		Headers: []string{"Idempotency-Key"},
	},
	{
		Name: "GetStats", Method: "GET", Path: "/checkpoints/stats",
		Role: "read", Class: "heavy", Long: true,
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
	},
	{
		Name: "DeleteCheckpoint", Method: "DELETE", Path: "/checkpoints/{id}",
		Role: "admin", Class: "small",
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "force", Type: Boolean},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"If-Match"},
	},
	{
		Name: "GetCheckpoint", Method: "GET", Path: "/checkpoints/{id}",
		Role: "read", Class: "list",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "wait", Type: Integer, Minimum: 0, Maximum: 60},
			{Name: "until", Type: Text, Enum: []string{"ended"}},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"If-None-Match"},
	},
	{
		Name: "UpdateCheckpoint", Method: "PATCH", Path: "/checkpoints/{id}",
		Role: "admin", Class: "small",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"If-Match"},
	},
	{
		Name: "AbortCheckpoint", Method: "POST", Path: "/checkpoints/{id}/abort",
		Role: "trigger", TaskRole: "ack", Class: "small",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "Acknowledge", Method: "POST", Path: "/checkpoints/{id}/acks",
		Role: "ack", Class: "small",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxAckBody, BodyLimitName: "ackBodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "CompleteCheckpoint", Method: "POST", Path: "/checkpoints/{id}/complete",
		Role: "admin", Class: "small",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "force", Type: Boolean},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "DeleteSharedEntryByKey", Method: "DELETE", Path: "/checkpoints/{id}/entry",
		Role: "state", Class: "small",
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "key", Required: true, Type: Text},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"If-Match"},
	},
	{
		Name: "GetSharedEntryByKey", Method: "GET", Path: "/checkpoints/{id}/entry",
		Role: "read", Class: "heavy",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "key", Required: true, Type: Text},
			{Name: "type", Type: Text, Enum: []string{"string", "integer", "number", "boolean", "object", "array"}},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "PutSharedEntryByKey", Method: "PUT", Path: "/checkpoints/{id}/entry",
		Role: "state", Class: "small",
		Consumes:  []string{"application/json"},
		BodyLimit: coordinator.MaxValueBytes, BodyLimitName: "valueBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "key", Required: true, Type: Text},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"If-Match", "If-None-Match"},
	},
	{
		Name: "ExtendCheckpoint", Method: "POST", Path: "/checkpoints/{id}/extend",
		Role: "ack", Class: "small",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "GetManifest", Method: "GET", Path: "/checkpoints/{id}/manifest",
		Role: "read", Class: "heavy", Long: true,
		Produces: []string{"text/plain"},
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "RestoreCheckpoint", Method: "GET", Path: "/checkpoints/{id}/restore",
		Role: "read", Class: "restore", Streams: true,
		Produces: []string{"application/x-ndjson"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "taskId", Repeated: true, Type: Text},
			{Name: "shared", Type: Boolean},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"Range", "If-Range", "If-None-Match"},
	},
	{
		Name: "HeadRestore", Method: "HEAD", Path: "/checkpoints/{id}/restore",
		Role: "read", Class: "heavy", Long: true,
		Produces: []string{"application/x-ndjson"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "taskId", Repeated: true, Type: Text},
			{Name: "shared", Type: Boolean},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"If-None-Match"},
	},
	{
		Name: "GetSnapshot", Method: "GET", Path: "/checkpoints/{id}/snapshot",
		Role: "read", Class: "heavy", Long: true,
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "ClearSharedState", Method: "DELETE", Path: "/checkpoints/{id}/state",
		Role: "state", Class: "small",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"If-Match"},
	},
	{
		Name: "GetSharedState", Method: "GET", Path: "/checkpoints/{id}/state",
		Role: "read", Class: "heavy",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "PatchSharedState", Method: "PATCH", Path: "/checkpoints/{id}/state",
		Role: "state", Class: "small",
		Consumes:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"If-Match"},
	},
	{
		Name: "DeleteSharedEntry", Method: "DELETE", Path: "/checkpoints/{id}/state/{key}",
		Role: "state", Class: "small",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id", "key"},
		Headers:        []string{"If-Match"},
	},
	{
		Name: "GetSharedEntry", Method: "GET", Path: "/checkpoints/{id}/state/{key}",
		Role: "read", Class: "heavy",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "type", Type: Text, Enum: []string{"string", "integer", "number", "boolean", "object", "array"}},
		},
		PathParameters: []string{"id", "key"},
	},
	{
		Name: "PutSharedEntry", Method: "PUT", Path: "/checkpoints/{id}/state/{key}",
		Role: "state", Class: "small",
		Consumes:  []string{"application/json"},
		BodyLimit: coordinator.MaxValueBytes, BodyLimitName: "valueBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id", "key"},
		Headers:        []string{"If-Match", "If-None-Match"},
	},
	{
		Name: "GetTaskByQuery", Method: "GET", Path: "/checkpoints/{id}/task",
		Role: "read", Class: "small",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "taskId", Required: true, Type: Text},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "UploadPartByQuery", Method: "PUT", Path: "/checkpoints/{id}/task/state",
		Role: "ack", Class: "upload", Streams: true,
		Consumes:  []string{"application/json", "application/x-ndjson"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxObjectUpload, BodyLimitName: "objectUploadBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "taskId", Required: true, Type: Text},
			{Name: "attempt", Type: Integer, Minimum: 0, Maximum: 9007199254740991},
			{Name: "epoch", Type: Integer, Minimum: 0, Maximum: 9007199254740991},
			{Name: "ack", Type: Boolean},
		},
		PathParameters: []string{"id"},
		Headers:        []string{"Content-Digest"},
	},
	{
		Name: "ListTasks", Method: "GET", Path: "/checkpoints/{id}/tasks",
		Role: "read", Class: "list",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "status", Type: Text, Enum: []string{"acknowledged", "missing"}},
			{Name: "after", Type: Text},
			{Name: "limit", Type: Integer, Minimum: 1, Maximum: 1000},
		},
		PathParameters: []string{"id"},
	},
	{
		Name: "GetTask", Method: "GET", Path: "/checkpoints/{id}/tasks/{taskId}",
		Role: "read", Class: "small",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "job", Type: Text},
		},
		PathParameters: []string{"id", "taskId"},
	},
	{
		Name: "UploadPart", Method: "PUT", Path: "/checkpoints/{id}/tasks/{taskId}/state",
		Role: "ack", Class: "upload", Streams: true,
		Consumes:  []string{"application/json", "application/x-ndjson"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxObjectUpload, BodyLimitName: "objectUploadBytes",
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "attempt", Type: Integer, Minimum: 0, Maximum: 9007199254740991},
			{Name: "epoch", Type: Integer, Minimum: 0, Maximum: 9007199254740991},
			{Name: "ack", Type: Boolean},
		},
		PathParameters: []string{"id", "taskId"},
		Headers:        []string{"Content-Digest"},
	},
	{
		Name: "StreamEvents", Method: "GET", Path: "/events",
		Role: "events", Class: "stream", Streams: true,
		Produces: []string{"text/event-stream"},
		Query: []Parameter{
			{Name: "job", Type: Text},
			{Name: "lastEventId", Type: Text},
			{Name: "type", Repeated: true, Type: Text, Enum: []string{"checkpoint.triggered", "checkpoint.completed", "checkpoint.expired", "checkpoint.aborted", "checkpoint.extended", "checkpoint.updated", "checkpoint.deleted", "job.recovered_epoch", "job.failing", "job.healthy", "job.configured", "job.deleted"}},
		},
		Headers: []string{"Last-Event-ID"},
	},
	{
		Name: "GetHealth", Method: "GET", Path: "/healthz",
		Role: "any", Class: "free", MayBePublic: true,
		Produces: []string{"application/json"},
	},
	{
		Name: "ListJobs", Method: "GET", Path: "/jobs",
		Role: "read", Class: "list",
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "after", Type: Text},
			{Name: "limit", Type: Integer, Minimum: 1, Maximum: 1000},
		},
	},
	{
		Name: "DeleteJob", Method: "DELETE", Path: "/jobs/{job}",
		Role: "admin", Class: "heavy", Long: true,
		Query: []Parameter{
			{Name: "force", Type: Boolean},
		},
		PathParameters: []string{"job"},
		Headers:        []string{"If-Match"},
	},
	{
		Name: "GetJob", Method: "GET", Path: "/jobs/{job}",
		Role: "read", Class: "list",
		Produces:       []string{"application/json"},
		PathParameters: []string{"job"},
	},
	{
		Name: "PatchJob", Method: "PATCH", Path: "/jobs/{job}",
		Role: "admin", Class: "list",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		PathParameters: []string{"job"},
		Headers:        []string{"If-Match"},
	},
	{
		Name: "PutJob", Method: "PUT", Path: "/jobs/{job}",
		Role: "admin", Class: "list",
		Consumes:  []string{"application/json"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		PathParameters: []string{"job"},
		Headers:        []string{"If-Match", "If-None-Match"},
	},
	{
		Name: "ExportJob", Method: "GET", Path: "/jobs/{job}/export",
		Role: "admin", Class: "restore", Streams: true,
		Produces:       []string{"application/x-ndjson"},
		PathParameters: []string{"job"},
	},
	{
		Name: "ImportJob", Method: "POST", Path: "/jobs/{job}/import",
		Role: "admin", Class: "upload", Streams: true,
		Consumes:  []string{"application/x-ndjson"},
		Produces:  []string{"application/json"},
		BodyLimit: coordinator.MaxBodyBytes, BodyLimitName: "bodyBytes",
		PathParameters: []string{"job"},
	},
	{
		Name: "GetSchedule", Method: "GET", Path: "/jobs/{job}/schedule",
		Role: "read", Class: "small",
		Produces:       []string{"application/json"},
		PathParameters: []string{"job"},
	},
	{
		Name: "ForgetTaskByQuery", Method: "DELETE", Path: "/jobs/{job}/task",
		Role: "admin", Class: "small",
		Query: []Parameter{
			{Name: "taskId", Required: true, Type: Text},
		},
		PathParameters: []string{"job"},
	},
	{
		Name: "ForgetTask", Method: "DELETE", Path: "/jobs/{job}/tasks/{taskId}",
		Role: "admin", Class: "small",
		PathParameters: []string{"job", "taskId"},
	},
	{
		Name: "GetLimits", Method: "GET", Path: "/limits",
		Role: "any", Class: "free", MayBePublic: true,
		Produces: []string{"application/json"},
	},
	{
		Name: "GetMetrics", Method: "GET", Path: "/metrics",
		Role: "read", Class: "list", EveryJob: true, MayBePublic: true, Streams: true,
		Produces: []string{"application/openmetrics-text", "text/plain"},
	},
	{
		Name: "GetContract", Method: "GET", Path: "/openapi.yaml",
		Role: "any", Class: "free", MayBePublic: true,
		Produces: []string{"application/yaml"},
	},
	{
		Name: "GetReadiness", Method: "GET", Path: "/readyz",
		Role: "any", Class: "small", MayBePublic: true,
		Produces: []string{"application/json"},
		Query: []Parameter{
			{Name: "verbose", Type: Text, Enum: []string{"", "true", "false"}},
		},
	},
}
