package handlers_test

import (
	"net/http"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestEntityTagsOfSharedState(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	entry, whole := path+"/state/k", path+"/state"
	first := f.do("PUT", entry, `1`, "If-None-Match", "*").want(http.StatusCreated).header.Get("ETag")
	f.do("PUT", entry, `2`, "If-None-Match", "*").refused(coordinator.CodePreconditionFailed)
	f.do("PUT", entry, `2`, "If-None-Match", first).refused(coordinator.CodeInvalidParameter)
	f.do("PUT", entry, `2`, "If-Match", `"x"`).refused(coordinator.CodePreconditionFailed)
	f.do("PUT", path+"/state/new", `2`, "If-Match", "*").refused(coordinator.CodePreconditionFailed)
	second := f.do("PUT", entry, `2`, "If-Match", first).want(http.StatusNoContent).header.Get("ETag")
	if got := f.do("GET", entry, "").want(http.StatusOK).header.Get("ETag"); got != second || got == first {
		t.Errorf("the tag is %s after %s and %s", got, first, second)
	}
	tag := f.do("GET", whole, "").want(http.StatusOK).header.Get("ETag")
	f.do("PATCH", whole, `{"state":{"k":3}}`, "If-Match", `"x"`).refused(coordinator.CodePreconditionFailed)
	next := f.do("PATCH", whole, `{"state":{"k":3}}`, "If-Match", tag).want(http.StatusNoContent).header.Get("ETag")
	f.do("DELETE", whole, "", "If-Match", tag).refused(coordinator.CodePreconditionFailed)
	f.do("DELETE", entry, "", "If-Match", second).refused(coordinator.CodePreconditionFailed)
	f.do("DELETE", whole, "", "If-Match", next).want(http.StatusNoContent)
	same(t, f.do("GET", whole, "").want(http.StatusOK), `{"version":1,"status":"pending","state":{}}`)
	f.do("DELETE", entry, "").refused(coordinator.CodeKeyNotFound)
}

func TestSharedStateIsWritableOnlyWhilePending(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	f.do("PUT", path+"/state/k", `1`).want(http.StatusCreated)
	f.do("POST", path+"/complete?force=true", "").want(http.StatusOK)
	for _, call := range [][3]string{
		{"PUT", "/state/k", "2"},
		{"PUT", "/entry?key=k", "2"},
		{"PATCH", "/state", `{"state":{"k":2}}`},
		{"DELETE", "/state/k", ""},
		{"DELETE", "/entry?key=k", ""},
		{"DELETE", "/state", ""},
	} {
		f.do(call[0], path+call[1], call[2]).refused(coordinator.CodeCheckpointCompleted)
	}
	same(t, f.do("GET", path+"/state", "").want(http.StatusOK), `{"version":1,"status":"completed","state":{"k":1}}`)
	latest := f.do("GET", "/checkpoints/latest/state", "").want(http.StatusOK)
	if got := latest.header.Get("Checkpoint-Id"); got != "0" {
		t.Errorf("Checkpoint-Id is %q", got)
	}
}

func TestAPatchOfManyKeysIsOneStep(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	f.do("PATCH", path+"/state", `{"state":{}}`).want(http.StatusNoContent)
	problem := f.do("PATCH", path+"/state", `{"state":{"a":1,"":2}}`).refused(coordinator.CodeInvalidRequest)
	if got := *problem.Errors[0].Pointer; got != "/state/" {
		t.Errorf("the pointer is %q", got)
	}
	f.do("PATCH", path+"/state", `{"state":{"a":null,"b":[]}}`).want(http.StatusNoContent)
	same(t, f.do("GET", path+"/state", "").want(http.StatusOK), `{"version":1,"status":"pending","state":{"a":null,"b":[]}}`)
}
