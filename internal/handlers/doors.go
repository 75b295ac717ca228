package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/operations"
)

// refuse answers any error of any door. After the head of an answer went out there is no
// way to refuse any more: the connection is broken off, so that the client sees it.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	gone := errors.Is(err, context.Canceled) && r.Context().Err() != nil && !s.options.Draining() && !revoked(r)
	if gone && !started(w) {
		w.WriteHeader(statusClientGone)
		return
	}
	refusal := weakened(r, asRefusal(s.translate(r, err)))
	if refusal.Err != nil && !errors.As(err, new(*bodyError)) { // a broken body is not our trouble
		s.options.OnError(r, err)
	}
	if started(w) {
		panic(http.ErrAbortHandler)
	}
	s.writeProblem(w, r, refusal)
}

// translate finds the refusal in errors of the runtime that mean one.
func (s *server) translate(r *http.Request, err error) error {
	if _, ours := errors.AsType[*coordinator.Error](err); ours && coordinator.CodeOf(err) != coordinator.CodeInternal {
		return err
	}
	if _, sender := errors.AsType[*bodyError](err); sender && !revoked(r) {
		return bodyBrokenOff(err)
	}
	switch {
	case revoked(r) && (errors.Is(err, context.Canceled) || errors.Is(err, errRevoked)):
		return stranger(r)
	case errors.Is(err, context.DeadlineExceeded):
		return outOfTime(r.Method, err)
	case errors.Is(err, context.Canceled) && s.options.Draining():
		return &coordinator.Error{
			Code:   coordinator.CodeShuttingDown,
			Detail: "The server is shutting down. Repeat the request at another replica, or in a moment.", Err: err,
		}
	}
	return err
}

// bodyBrokenOff is for a body that could not be read to its end.
func bodyBrokenOff(err error) *coordinator.Error {
	detail := "The body ended before it was complete; nothing was changed. Send the request again."
	if errors.Is(err, os.ErrDeadlineExceeded) {
		detail = "The body did not arrive in time; nothing was changed. Send the request again."
	}
	return &coordinator.Error{
		Code: coordinator.CodeInvalidRequest, Detail: detail, Err: err,
		Fields: []coordinator.FieldError{{Detail: "The body is incomplete."}},
	}
}

// outOfTime is for a store that did not answer within the request's budget: a read has
// changed nothing, a write may have.
func outOfTime(method string, err error) *coordinator.Error {
	if method == http.MethodGet || method == http.MethodHead {
		return coordinator.ErrStoreUnavailable(err)
	}
	return coordinator.ErrOutcomeUnknown(err)
}

// refuseParameter is the door of the generated parameter binding. Its errors quote Go
// types, so the sentence is made anew from what the client sent.
func (s *server) refuseParameter(w http.ResponseWriter, r *http.Request, err error) {
	s.refuse(w, r, parameterRefusal(r, err))
}

func parameterRefusal(r *http.Request, err error) error {
	var format *api.InvalidParamFormatError
	var repeated *api.TooManyValuesForParamError
	var absent *api.RequiredParamError
	switch {
	case errors.As(err, &absent):
		return invalidParameter(absent.ParamName, "The parameter is required.")
	case errors.As(err, &repeated):
		return invalidParameter(repeated.ParamName, "The header must be given once.")
	case errors.As(err, &format) && len(r.URL.Query()[format.ParamName]) > 1:
		return invalidParameter(format.ParamName, "The parameter must be given once.")
	case errors.As(err, &format):
		return invalidParameter(format.ParamName, formOfParameter(exchangeOf(r.Context()).operation, format.ParamName))
	}
	return coordinator.ErrInternal(err)
}

// refuseRequest is the door of the generated body binding. The gate decodes bodies, so
// what arrives here is a body that is absent or could not be read.
func (s *server) refuseRequest(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = &coordinator.Error{
			Code: coordinator.CodeInvalidRequest, Detail: "The request needs a body. Send it as application/json.",
			Fields: []coordinator.FieldError{{Detail: "The body is required."}},
		}
	}
	s.refuse(w, r, err)
}

func notFound() *coordinator.Error {
	return &coordinator.Error{
		Code:   coordinator.CodeNotFound,
		Detail: "There is nothing at this path. GET /openapi.yaml lists what there is; slashes at the end and in names count, the latter as %2F.",
	}
}

func methodNotAllowed(w http.ResponseWriter, route *operations.Route) *coordinator.Error {
	allowed := strings.Join(route.Allowed(), ", ")
	w.Header().Set("Allow", allowed)
	return &coordinator.Error{
		Code:   coordinator.CodeMethodNotAllowed,
		Detail: fmt.Sprintf("This path takes %s.", allowed),
	}
}

// unrouted is for what the contract's table has and the generated router has not, which cannot be.
func (s *server) unrouted(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, coordinator.ErrInternal(fmt.Errorf("no route for %s %s", r.Method, r.URL.Path)))
}

// invalidParameter refuses one parameter of path, query or header.
func invalidParameter(name, detail string) *coordinator.Error {
	return &coordinator.Error{
		Code:   coordinator.CodeInvalidParameter,
		Detail: fmt.Sprintf("Parameter %s is not valid: mend it and send the request again; errors has the reason.", name),
		Fields: []coordinator.FieldError{{Parameter: name, Detail: detail}},
	}
}

// invalidRequest refuses one place of a body.
func invalidRequest(pointer, detail string) *coordinator.Error {
	where := "the body"
	if pointer != "" {
		where = pointer
	}
	return &coordinator.Error{
		Code:   coordinator.CodeInvalidRequest,
		Detail: fmt.Sprintf("The request is not valid: mend %s and send it again; errors has the reason.", where),
		Fields: []coordinator.FieldError{{Pointer: pointer, Detail: detail}},
	}
}
