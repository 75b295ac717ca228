package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestAJobThatNamesTasksTakesNoOtherNumberAlone(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do("PUT", "/jobs/default", `{"tasks":["a","b"]}`).want(http.StatusCreated)
	for _, number := range []string{"1", "3"} {
		problem := f.do("POST", "/checkpoints", `{"requiredTaskAcks":`+number+`}`).refused(coordinator.CodeInvalidRequest)
		if len(problem.Errors) != 1 || *problem.Errors[0].Pointer != "/requiredTaskAcks" || !strings.Contains(problem.Errors[0].Detail, "2 tasks") {
			t.Errorf("the refusal points at %+v", problem.Errors)
		}
	}
	path := f.trigger(`{"requiredTaskAcks":2}`)
	f.do("POST", path+"/acks", `{"taskId":"stranger"}`).refused(coordinator.CodeTaskNotExpected)
}

func TestARestoreOfATaskThatACompletionByForceDidWithoutIsNoFreshStart(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"tasks":["a","b","c"]}`)
	f.do("POST", path+"/acks", `{"taskId":"a","state":{"k":1}}`).want(http.StatusOK)
	f.do("POST", path+"/complete?force=true", "").want(http.StatusOK)
	for _, restore := range []string{path + "/restore?taskId=b", path + "/restore?taskId=a&taskId=c", "/checkpoints/latest/restore?taskId=b", "/checkpoints/latest/restore?taskId=b&shared=true"} {
		f.do("GET", restore, "").refused(coordinator.CodeTaskAbsent)
		if head := f.do("HEAD", restore, ""); head.status != http.StatusConflict {
			t.Errorf("HEAD %s answered %d", restore, head.status)
		}
	}
	f.do("GET", path+"/restore?taskId=a", "").want(http.StatusOK)
	f.do("GET", path+"/restore?taskId=stranger", "").refused(coordinator.CodeTaskNotInCheckpoint)
}
