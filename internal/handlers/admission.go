package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
	"github.com/checkpointd/checkpointd/internal/operations"
)

// jobs find the job of a request, by the operation; an operation that is in no job has none.
var jobs = func() map[*operations.Operation]func(request any) string {
	all := map[*operations.Operation]func(any) string{}
	for method := range reflect.TypeFor[api.StrictServerInterface]().Methods() {
		if find := jobIn(method.Type.In(1)); find != nil {
			all[operations.Named(method.Name)] = find
		}
	}
	return all
}()

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

// jobOfRequest is the job of a request, "" where it is in none.
func jobOfRequest(o *operations.Operation, request any) string {
	find := jobs[o]
	if find == nil {
		return ""
	}
	return find(request)
}

// mayAcknowledge is the rule of Acknowledge for a door that is in front of it.
func mayAcknowledge(caller *doors.Caller, job string) bool {
	return caller.Has(acknowledge.Role) && caller.InJob(job)
}

// admit refuses a caller that may not use the operation, or not in this job.
func (s *server) admit(e *exchange, request any) error {
	o := e.operation
	switch caller := e.caller; {
	case caller == doors.Anyone:
		return nil
	case caller == nil:
		if o.MayBePublic && s.options.Public[o.Path] {
			return nil
		}
		return stranger(e.request)
	case !caller.Has(o.Role) && (o.TaskRole == "" || !caller.Has(o.TaskRole)):
		return withoutRole(caller, o.Role)
	case o.EveryJob && !caller.InEveryJob():
		return forbidden(caller, "is bound to jobs, and this is about all of them", "a token without jobs")
	case jobs[o] != nil && !caller.InJob(jobOfRequest(o, request)):
		return forbidden(caller, fmt.Sprintf("is not for the job %s", jobOfRequest(o, request)), "one that is for this job")
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
	if role := e.operation.Role; !e.caller.Has(role) {
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
