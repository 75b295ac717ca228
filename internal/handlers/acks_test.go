package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

func TestASingleAcknowledgementIsAnsweredAsOfItsPlace(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":2}`)
	same(t, f.do("POST", path+"/acks", `{"taskId":"task-1","state":{"a":1}}`).want(http.StatusOK),
		`{"checkpointId":0,"status":"pending","acknowledgedTasks":1,"requiredTaskAcks":2,"duplicate":false}`)
	same(t, f.do("POST", path+"/acks", `{"taskId":"task-1","state":{"a": 1}}`).want(http.StatusOK),
		`{"checkpointId":0,"status":"pending","acknowledgedTasks":1,"requiredTaskAcks":2,"duplicate":true}`)
	f.do("POST", path+"/acks", `{"taskId":"task-1","state":{"a":2}}`).refused(coordinator.CodeAckConflict)
	same(t, f.do("POST", path+"/acks", `{"taskId":"task-2"}`).want(http.StatusOK),
		`{"checkpointId":0,"status":"completed","acknowledgedTasks":2,"requiredTaskAcks":2,"duplicate":false}`)
	same(t, f.do("POST", path+"/acks", `{"taskId":"task-2"}`).want(http.StatusOK),
		`{"checkpointId":0,"status":"completed","acknowledgedTasks":2,"requiredTaskAcks":2,"duplicate":true}`)
}

func TestABulkAcknowledgementAnswersEachItem(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":2}`)
	same(t, f.do("POST", path+"/acks", `{"acks":[{"taskId":"a"},{"taskId":"a"},{"taskId":"b","epoch":9},{"taskId":"c"},{"taskId":"d"}]}`).want(http.StatusOK),
		`{"checkpointId":0,"status":"completed","acknowledgedTasks":2,"requiredTaskAcks":2,"results":[
		{"taskId":"a","status":"acknowledged"},{"taskId":"a","status":"duplicate"},{"taskId":"b","status":"refused","code":"stale_epoch"},
		{"taskId":"c","status":"acknowledged"},{"taskId":"d","status":"refused","code":"checkpoint_completed"}]}`)
}

func TestABulkAcknowledgementHasALimit(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":1}`)
	problem := f.do("POST", path+"/acks", `{"acks":[{"taskId":"a"}`+strings.Repeat(`,{"taskId":"a"}`, 1000)+`]}`).refused(coordinator.CodeLimitExceeded)
	if problem.Limit == nil || *problem.Limit != api.LimitNameBulkAcks {
		t.Errorf("the limit is %v", problem.Limit)
	}
}

func TestALateAcknowledgementLearnsWhereToGoOn(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.completed(`{}`)
	late := f.trigger(`{"timeoutMs":100}`)
	f.clock.advance(time.Second)
	f.trigger("")
	for _, body := range []string{`{"taskId":"task-1"}`, `{"acks":[{"taskId":"task-1"}]}`} {
		problem := f.do("POST", late+"/acks", body).refused(coordinator.CodeCheckpointExpired)
		if problem.Current == nil || *problem.Current != 2 || problem.Latest == nil || *problem.Latest != 0 {
			t.Errorf("%s: current %v, latest %v", body, problem.Current, problem.Latest)
		}
	}
}

func TestCompletingTooEarlySaysWhoIsMissing(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"tasks":["c","a","b"]}`)
	f.do("POST", path+"/acks", `{"taskId":"b"}`).want(http.StatusOK)
	problem := f.do("POST", path+"/complete", "").refused(coordinator.CodeAcksMissing)
	if problem.Missing == nil || *problem.Missing != 2 || !cmp.Equal(problem.MissingTasks, []string{"a", "c"}) {
		t.Errorf("missing %v, missingTasks %v", problem.Missing, problem.MissingTasks)
	}
	f.do("POST", path+"/complete?force=true", "").want(http.StatusOK)
}

func TestADigestMustBeThatOfThePartThatCounts(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":2}`)
	var part api.UploadResult
	f.do("PUT", path+"/tasks/a/state", `{"k":1}`).want(http.StatusOK).into(&part)
	other := "sha256:" + strings.Repeat("0", 64)
	f.do("POST", path+"/acks", `{"taskId":"a","digest":"`+other+`"}`).refused(coordinator.CodePartChanged)
	f.do("POST", path+"/acks", `{"taskId":"a","digest":"`+part.Digest+`"}`).want(http.StatusOK)
	f.do("POST", path+"/acks", `{"taskId":"b","digest":"`+part.Digest+`","state":{"k":1}}`).refused(coordinator.CodePartChanged)
}

func TestStatesOfManyTinyEntriesDoNotGrowWithoutBounds(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger("")
	var state strings.Builder
	for i := range 100_000 {
		if i > 0 {
			state.WriteByte(',')
		}
		state.WriteString(`"` + string(rune('a'+i%26)) + strings.Repeat("x", i%7) + jsonString(time.Duration(i).String())[1:] + `:0`)
	}
	body := `{"taskId":"` + strings.Repeat("t", 1024) + `","state":{` + state.String() + `}}`
	problem := f.do("POST", path+"/acks", body).refused(coordinator.CodeTooLarge)
	if problem.Limit == nil || *problem.Limit != api.LimitNameAckBodyBytes || !strings.Contains(problem.Detail, "upload") {
		t.Errorf("the problem is %+v", problem)
	}
}

func TestAListIsAnsweredAsTheContractsTypeWouldAnswerIt(t *testing.T) {
	t.Parallel()
	result := coordinator.AckResult{Status: coordinator.StatusCompleted, AcknowledgedTasks: 3, RequiredTaskAcks: 4}
	want := api.BulkAckResult{
		CheckpointID: coordinator.MaxID, Status: api.CheckpointStatusCompleted, AcknowledgedTasks: 3, RequiredTaskAcks: 4, Results: []api.BulkAckItem{},
	}
	compare := func() {
		t.Helper()
		got, generated := httptest.NewRecorder(), httptest.NewRecorder()
		if err := handlers.AnswerToAList(coordinator.MaxID, result).VisitAcknowledgeResponse(got); err != nil {
			t.Fatal(err)
		}
		if err := (api.Acknowledge200JSONResponse{Bulk: &want}).VisitAcknowledgeResponse(generated); err != nil {
			t.Fatal(err)
		}
		generated.Header().Set("Content-Length", strconv.Itoa(generated.Body.Len()))
		if got.Code != generated.Code {
			t.Errorf("status %d, want %d", got.Code, generated.Code)
		}
		if diff := cmp.Diff(generated.Header(), got.Header()); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(generated.Body.String(), got.Body.String()); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
	}
	compare()
	for _, name := range []string{"task-1", "é", "a<", ">a", "&", `a"`, `\`, "\u2028", "a\x7fb", "a\tb", "a b~"} {
		result.Outcomes = append(result.Outcomes, coordinator.AckOutcome{TaskID: name, Outcome: coordinator.AckAccepted})
		want.Results = append(want.Results, api.BulkAckItem{TaskID: name, Status: api.AckStatusAcknowledged})
	}
	result.Outcomes = append(
		result.Outcomes, coordinator.AckOutcome{TaskID: "b", Outcome: coordinator.AckDuplicate},
		coordinator.AckOutcome{TaskID: "c", Outcome: coordinator.AckRefused, Refusal: coordinator.ErrStaleAttempt("c", 1, 2)},
	)
	want.Results = append(
		want.Results, api.BulkAckItem{TaskID: "b", Status: api.AckStatusDuplicate},
		api.BulkAckItem{TaskID: "c", Status: api.AckStatusRefused, Code: new(api.ProblemCodeStaleAttempt)},
	)
	compare()
}
