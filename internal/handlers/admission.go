package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
)

// roles are what the operations of the contract demand of a caller, as its x-role says. An
// operation without one is for nobody.
var roles = map[string]doors.Role{
	"TriggerCheckpoint": doors.Trigger, "RecoverJob": doors.Trigger, "AbortCheckpoint": doors.Trigger,

	"Acknowledge": doors.Ack, "UploadPart": doors.Ack, "ExtendCheckpoint": doors.Ack,

	"PatchSharedState": doors.State, "ClearSharedState": doors.State, "PutSharedEntry": doors.State, "PutSharedEntryByKey": doors.State,
	"DeleteSharedEntry": doors.State, "DeleteSharedEntryByKey": doors.State,

	"ListCheckpoints": doors.Read, "GetCheckpoint": doors.Read, "GetLatestCheckpoint": doors.Read, "GetStats": doors.Read,
	"ListTasks": doors.Read, "GetTask": doors.Read, "ListJobs": doors.Read, "GetJob": doors.Read, "GetSchedule": doors.Read,
	"GetSharedState": doors.Read, "GetSharedEntry": doors.Read, "GetSharedEntryByKey": doors.Read,
	"GetLatestSharedState": doors.Read, "GetLatestSharedEntry": doors.Read, "GetLatestSharedEntryByKey": doors.Read,
	"GetSnapshot": doors.Read, "GetLatestSnapshot": doors.Read, "GetManifest": doors.Read, "GetLatestManifest": doors.Read,
	"RestoreCheckpoint": doors.Read, "HeadRestore": doors.Read, "RestoreLatest": doors.Read, "HeadRestoreLatest": doors.Read,
	"GetMetrics": doors.Read,

	"CompleteCheckpoint": doors.Admin, "UpdateCheckpoint": doors.Admin, "DeleteCheckpoint": doors.Admin, "CleanupCheckpoints": doors.Admin,
	"PutJob": doors.Admin, "PatchJob": doors.Admin, "DeleteJob": doors.Admin, "ExportJob": doors.Admin, "ImportJob": doors.Admin, "ForgetTask": doors.Admin,

	"StreamEvents": doors.Events,

	"GetHealth": doors.Any, "GetReadiness": doors.Any, "GetLimits": doors.Any, "GetContract": doors.Any,
}

// rule is who may use an operation.
type rule struct {
	role doors.Role
	// taskRole suffices in place of role where the body names a task; "" is none.
	taskRole doors.Role
	// everyJob tells that the answer is about all jobs, so a caller that is bound to some
	// may not have it.
	everyJob bool
	// job finds the job of a request, nil for an operation that is in none.
	job func(request any) string
	// path is where it is, for one that may be open to strangers.
	path string
}

// ruleOf is the rule of an operation by the name of its method, with the request that the
// generated code binds for it.
func ruleOf(name string, request reflect.Type) rule {
	r := rule{role: roles[name], job: jobIn(request)}
	switch name {
	case "AbortCheckpoint":
		r.taskRole = doors.Ack
	case "GetMetrics":
		r.everyJob, r.path = true, "/metrics"
	case "GetHealth":
		r.path = "/healthz"
	case "GetReadiness":
		r.path = "/readyz"
	case "GetLimits":
		r.path = "/limits"
	case "GetContract":
		r.path = "/openapi.yaml"
	}
	return r
}

// jobIn finds the very job that the handler is going to take: bound, not parsed again.
func jobIn(request reflect.Type) func(any) string {
	if field, inPath := request.FieldByName("Job"); inPath {
		return func(request any) string { return reflect.ValueOf(request).FieldByIndex(field.Index).String() }
	}
	params, has := request.FieldByName("Params")
	if !has {
		return nil
	}
	field, inQuery := params.Type.FieldByName("Job")
	if !inQuery {
		return nil
	}
	return func(request any) string {
		job := reflect.ValueOf(request).FieldByIndex(params.Index).FieldByIndex(field.Index)
		if job.IsNil() {
			return coordinator.DefaultJob
		}
		return job.Elem().String()
	}
}

// jobOf is the job of a request, "" where it is in none.
func (r rule) jobOf(request any) string {
	if r.job == nil {
		return ""
	}
	return r.job(request)
}

// mayAcknowledge is the rule of Acknowledge for a door that is in front of it.
func mayAcknowledge(caller *doors.Caller, job string) bool {
	return caller.Has(roles["Acknowledge"]) && caller.InJob(job)
}

// admit refuses a caller that may not use the operation, or not in this job.
func (s *server) admit(e *exchange, request any) error {
	rule := e.operation.rule
	switch caller := e.caller; {
	case caller == doors.Anyone:
		return nil
	case caller == nil:
		if s.options.Public[rule.path] {
			return nil
		}
		return stranger(e.request)
	case !caller.Has(rule.role) && (rule.taskRole == "" || !caller.Has(rule.taskRole)):
		return withoutRole(caller, rule.role)
	case rule.everyJob && !caller.InEveryJob():
		return forbidden(caller, "is bound to jobs, and this is about all of them", "a token without jobs")
	case rule.job != nil && !caller.InJob(rule.job(request)):
		return forbidden(caller, fmt.Sprintf("is not for the job %s", rule.job(request)), "one that is for this job")
	}
	return nil
}

// admitTask refuses a caller that may not speak for a task; pointer is where the body names
// it, "" for the path.
func admitTask(ctx context.Context, task, pointer string) error {
	caller := exchangeOf(ctx).caller
	if caller.AsTask(task) {
		return nil
	}
	place := coordinator.FieldError{Pointer: pointer, Detail: "The token may not act for this task."}
	if pointer == "" {
		place.Parameter = "taskId"
	}
	refusal := forbidden(caller, "is not for this task", "the token of the task's own worker")
	refusal.Fields = []coordinator.FieldError{place}
	return refusal
}

// admitAbort tells a decline, which is a task's own word, from an end by hand.
func admitAbort(ctx context.Context, task string) error {
	e := exchangeOf(ctx)
	if task != "" {
		return admitTask(ctx, task, "/taskId")
	}
	if role := e.operation.rule.role; !e.caller.Has(role) {
		return withoutRole(e.caller, role)
	}
	return nil
}

// admitVerbose keeps what is told of jobs from whoever may not read, where readiness itself
// is told to all.
func admitVerbose(ctx context.Context) error {
	e := exchangeOf(ctx)
	switch {
	case e.caller == nil:
		return stranger(e.request)
	case !e.caller.Has(doors.Read):
		return withoutRole(e.caller, doors.Read)
	}
	return nil
}

func withoutRole(caller *doors.Caller, role doors.Role) error {
	return forbidden(caller, fmt.Sprintf("has not the role %s, which this call needs", role), "one that has it")
}

func forbidden(caller *doors.Caller, lack, instead string) *coordinator.Error {
	return &coordinator.Error{
		Code:   coordinator.CodeForbidden,
		Detail: fmt.Sprintf("The token %s %s. Use %s, or change this one in the server's tokens file.", caller.Name, lack, instead),
	}
}

// stranger refuses a request without a token, or with one that is not known. A token that is
// withdrawn is not told from one that never was.
func stranger(r *http.Request) error {
	detail := `This server demands a token and none was sent. Send one of its tokens file as "Authorization: Bearer TOKEN".`
	if r.Header["Authorization"] != nil {
		detail = `The token is not known here, or was withdrawn. Send one of the server's tokens file as "Authorization: Bearer TOKEN".`
	}
	return &coordinator.Error{Code: coordinator.CodeUnauthorized, Detail: detail}
}

// challenge says in an answer of 401 how to authenticate.
func challenge(r *http.Request) string {
	if r.Header["Authorization"] == nil {
		return `Bearer realm="checkpointd"`
	}
	return `Bearer realm="checkpointd", error="invalid_token"`
}

// errRevoked is why the context of a request ended whose caller was withdrawn.
var errRevoked = errors.New("the token was withdrawn")

// untilRevoked ends a request that runs long when its caller is withdrawn.
func (e *exchange) untilRevoked(ctx context.Context) {
	if e.caller.Lasting() {
		return
	}
	go func() {
		if e.caller.Revoked(ctx.Done()) {
			e.cancel(errRevoked)
		}
	}()
}

// revoked tells whether the caller of a request was withdrawn while it ran.
func revoked(r *http.Request) bool { return errors.Is(context.Cause(r.Context()), errRevoked) }
