package handlers_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestAJobThatNobodyConfiguredHasTheServersSettings(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{settings: func(s *coordinator.Settings) { s.RequiredTaskAcks, s.TolerableFailures = 3, 2 }})
	want := `{"job":"default","configured":false,"requiredTaskAcks":3,"timeoutMs":60000,"intervalMs":0,"minPauseMs":0,
		"maxConcurrentCheckpoints":16,"checkpointsToKeep":5,"checkpointsMaxAgeMs":0,"checkpointsMaxBytes":0,
		"tolerableFailedCheckpoints":2,"staleAfterMs":0,"paused":false,
		"status":{"epoch":0,"nextCheckpointId":0,"pendingCheckpoints":0,"failing":false,"consecutiveFailures":0,"freshness":"never"}}`
	same(t, f.do("GET", "/jobs/default", "").want(http.StatusOK), want)
	same(t, f.do("GET", "/jobs", "").want(http.StatusOK), `{"jobs":[`+want+`]}`)
}

func TestSettingsOfAJobAreReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	f := serve(t)
	created := f.do("PUT", "/jobs/orders", `{"tasks":["task-2","task-1"],"timeoutMs":0,"intervalMs":10,"minPauseMs":1,
		"maxConcurrentCheckpoints":2,"checkpointsToKeep":0,"checkpointsMaxAgeMs":3,"checkpointsMaxBytes":4,
		"tolerableFailedCheckpoints":5,"staleAfterMs":6,"paused":true,"description":"<nightly>"}`).want(http.StatusCreated)
	const status = `"status":{"epoch":0,"nextCheckpointId":0,"pendingCheckpoints":0,"failing":false,"consecutiveFailures":0,"freshness":"never"}`
	whole := `{"job":"orders","configured":true,"requiredTaskAcks":2,"tasks":["task-2","task-1"],"timeoutMs":0,"intervalMs":50,"minPauseMs":1,
		"maxConcurrentCheckpoints":2,"checkpointsToKeep":0,"checkpointsMaxAgeMs":3,"checkpointsMaxBytes":4,
		"tolerableFailedCheckpoints":5,"staleAfterMs":6,"paused":true,"description":"<nightly>",` + status + `}`
	same(t, created, whole)
	if got := created.header.Get("Location"); got != "/jobs/orders" {
		t.Errorf("Location is %q", got)
	}
	got := f.do("GET", "/jobs/orders", "").want(http.StatusOK)
	same(t, got, whole)
	if tag := got.header.Get("ETag"); tag == "" || tag != created.header.Get("ETag") {
		t.Errorf("the tags are %q and %q", created.header.Get("ETag"), tag)
	}
	var list api.JobList
	f.do("GET", "/jobs", "").want(http.StatusOK).into(&list)
	if len(list.Jobs) != 2 || list.Jobs[1].Tasks != nil || list.Jobs[1].RequiredTaskAcks != 2 {
		t.Errorf("the list is %+v", list)
	}
	replaced := f.do("PUT", "/jobs/orders", `{"requiredTaskAcks":7}`).want(http.StatusOK)
	same(t, replaced, `{"job":"orders","configured":true,"requiredTaskAcks":7,"timeoutMs":60000,"intervalMs":0,"minPauseMs":0,
		"maxConcurrentCheckpoints":16,"checkpointsToKeep":5,"checkpointsMaxAgeMs":0,"checkpointsMaxBytes":0,
		"tolerableFailedCheckpoints":0,"staleAfterMs":0,"paused":false,`+status+`}`)
	if replaced.header.Get("ETag") == created.header.Get("ETag") {
		t.Error("the tag stayed although the settings changed")
	}
}

func TestSettingsAreWrittenUnderConditions(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do("PUT", "/jobs/orders", `{}`, "If-Match", "*").refused(coordinator.CodePreconditionFailed)
	first := f.do("PUT", "/jobs/orders", `{}`, "If-None-Match", "*").want(http.StatusCreated).header.Get("ETag")
	f.do("PUT", "/jobs/orders", `{}`, "If-None-Match", "*").refused(coordinator.CodePreconditionFailed)
	second := f.do("PUT", "/jobs/orders", `{"requiredTaskAcks":2}`, "If-Match", first).want(http.StatusOK).header.Get("ETag")
	f.do("PUT", "/jobs/orders", `{}`, "If-Match", first).refused(coordinator.CodePreconditionFailed)
	f.do("DELETE", "/jobs/orders", "", "If-Match", first).refused(coordinator.CodePreconditionFailed)
	f.do("PUT", "/jobs/orders", `{}`, "If-None-Match", first).refused(coordinator.CodeInvalidParameter)
	f.do("PUT", "/jobs/orders", `{}`, "If-Match", "x").refused(coordinator.CodeInvalidParameter)
	f.do("POST", "/checkpoints?job=orders", "").want(http.StatusCreated)
	got := f.do("GET", "/jobs/orders", "", "If-None-Match", second).want(http.StatusOK) // its status has changed
	if got.header.Get("ETag") != second {
		t.Errorf("a checkpoint changed the tag of the settings from %s to %s", second, got.header.Get("ETag"))
	}
	f.do("DELETE", "/jobs/orders?force=true", "", "If-Match", second).want(http.StatusNoContent)
}

func TestAPatchOfAJobLeavesWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do("PATCH", "/jobs/orders", `{"paused":true}`).refused(coordinator.CodeJobNotFound)
	tag := f.do("PUT", "/jobs/orders", `{"tasks":["a","b"],"intervalMs":1000,"description":"d"}`).want(http.StatusCreated).header.Get("ETag")
	paused := f.do("PATCH", "/jobs/orders", `{"paused":true}`, "If-Match", tag).want(http.StatusOK)
	for _, member := range []string{`"tasks":["a","b"]`, `"intervalMs":1000`, `"description":"d"`, `"paused":true`} {
		if !strings.Contains(paused.body, member) {
			t.Errorf("after the patch %s is not in %s", member, paused.body)
		}
	}
	f.do("PATCH", "/jobs/orders", `{"paused":false}`, "If-Match", tag).refused(coordinator.CodePreconditionFailed)
	f.do("PATCH", "/jobs/orders", `{"paused":false}`).want(http.StatusOK)
	f.do("PATCH", "/jobs/orders", `{"requiredTaskAcks":0}`).refused(coordinator.CodeInvalidRequest)
	f.do("PATCH", "/jobs/orders", `{"job":"orders"}`).refused(coordinator.CodeInvalidRequest)
	f.do("PATCH", "/jobs/default", `{"intervalMs":60000}`).want(http.StatusOK) // nobody has configured it yet
}

func TestSettingsThatCannotHoldAreRefused(t *testing.T) {
	t.Parallel()
	f := serve(t)
	for body, pointer := range map[string]string{
		`{"requiredTaskAcks":null}`:                "/requiredTaskAcks",
		`{"requiredTaskAcks":0}`:                   "/requiredTaskAcks",
		`{"requiredTaskAcks":3,"tasks":["a","b"]}`: "/requiredTaskAcks",
		`{"tasks":[]}`:                             "/tasks",
		`{"tasks":["a","a"]}`:                      "/tasks/1",
		`{"intervalMs":-1}`:                        "/intervalMs",
		`{"intervalMs":1.5}`:                       "/intervalMs",
		`{"minPauseMs":-1}`:                        "/minPauseMs",
		`{"maxConcurrentCheckpoints":0}`:           "/maxConcurrentCheckpoints",
		`{"checkpointsToKeep":-1}`:                 "/checkpointsToKeep",
		`{"paused":"yes"}`:                         "/paused",
		`{"status":{}}`:                            "/status",
		`{"staleAfterMs":99999999999999999999999}`: "/staleAfterMs",
		`{"tolerableFailedCheckpoints":-1}`:        "/tolerableFailedCheckpoints",
		`{"checkpointsMaxBytes":9007199254740992}`: "/checkpointsMaxBytes",
		`{"checkpointsMaxAgeMs":3153600000001}`:    "/checkpointsMaxAgeMs",
		`{"timeoutMs":3153600000001}`:              "/timeoutMs",
	} {
		problem := f.do("PUT", "/jobs/orders", body).refused(coordinator.CodeInvalidRequest)
		if len(problem.Errors) != 1 || problem.Errors[0].Pointer == nil || *problem.Errors[0].Pointer != pointer {
			t.Errorf("%.80s: errors are %+v, want %s", body, problem.Errors, pointer)
		}
	}
	f.do("PUT", "/jobs/orders", "").refused(coordinator.CodeInvalidRequest)
	f.do("PUT", "/jobs/-orders", "{}").refused(coordinator.CodeInvalidParameter)
	f.do("GET", "/jobs/orders", "").refused(coordinator.CodeJobNotFound)
}

func long(n int) string { return strings.Repeat("x", n) }

func TestAJobSaysHowItFares(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{settings: func(s *coordinator.Settings) { s.StaleAfterMs = 5000 }})
	f.completed(`{}`)
	f.clock.advance(2 * time.Second)
	declined := f.trigger("")
	f.do("POST", declined+"/abort", `{"taskId":"task-1","reason":"disk is full"}`).want(http.StatusOK)
	f.trigger("")
	status := func() api.JobStatus {
		var job api.JobState
		f.do("GET", "/jobs/default", "").want(http.StatusOK).into(&job)
		return job.Status
	}
	want := api.JobStatus{
		NextCheckpointID: 3, PendingCheckpoints: 1, Failing: true, ConsecutiveFailures: 1, Freshness: api.FreshnessHealthy,
		LastCompletedID: new(int64(0)), LastCompletedAt: new(int64(start)), LastCompletedAgeMs: new(int64(2000)),
		LastFailure: &api.JobFailure{
			CheckpointID: 1, Reason: api.FailureReasonDeclined, TaskID: new("task-1"), Message: new("disk is full"), At: start + 2000,
		},
	}
	if diff := cmp.Diff(want, status()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	f.clock.advance(4 * time.Second)
	want.Freshness, want.LastCompletedAgeMs = api.FreshnessStale, new(int64(6000))
	if diff := cmp.Diff(want, status()); diff != "" {
		t.Errorf("status after a while (-want +got):\n%s", diff)
	}
}

func TestReadinessTellsHowJobsFareWhenAsked(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do("POST", f.trigger("")+"/abort", `{"taskId":"task-1"}`).want(http.StatusOK)
	const failing = `{"status":"ready","warnings":[],"jobs":[{"job":"default","failing":true,"consecutiveFailures":1,"freshness":"never"}]}`
	for _, query := range []string{"?verbose", "?verbose=", "?verbose=true"} {
		same(t, f.do("GET", "/readyz"+query, "").want(http.StatusOK), failing)
	}
	for _, query := range []string{"", "?verbose=false"} {
		same(t, f.do("GET", "/readyz"+query, "").want(http.StatusOK), `{"status":"ready","warnings":[]}`)
	}
	for _, query := range []string{"?verbose=yes", "?verbose&verbose", "?verbos"} {
		f.do("GET", "/readyz"+query, "").refused(coordinator.CodeInvalidParameter)
	}
	f.completed(`{}`)
	same(t, f.do("GET", "/readyz?verbose", "").want(http.StatusOK),
		`{"status":"ready","warnings":[],"jobs":[{"job":"default","failing":false,"consecutiveFailures":0,"freshness":"healthy","lastCompletedAgeMs":0}]}`)
}

func TestAJobIsDeletedWithWhatItHas(t *testing.T) {
	t.Parallel()
	f := serve(t)
	pinned := f.do("POST", "/checkpoints?job=orders", `{"pinned":true}`).want(http.StatusCreated).header.Get("Location")
	f.do("DELETE", "/jobs/orders", "").refused(coordinator.CodePinned)
	f.do("PATCH", pinned, `{"pinned":false}`).want(http.StatusOK)
	f.do("DELETE", "/jobs/orders?force=false", "").refused(coordinator.CodeCheckpointNotCompleted)
	if a := f.do("DELETE", "/jobs/orders?force=true", "").want(http.StatusNoContent); a.body != "" {
		t.Errorf("%s has the body %q", a.call, a.body)
	}
	f.do("DELETE", "/jobs/orders", "").refused(coordinator.CodeJobNotFound)
	f.do("GET", "/checkpoints?job=orders", "").refused(coordinator.CodeJobNotFound)
	if got := f.do("POST", "/checkpoints?job=orders", "").want(http.StatusCreated).header.Get("Location"); got != "/checkpoints/1?job=orders" {
		t.Errorf("an id was given twice: %s", got)
	}
}

func TestATasksAttemptIsForgotten(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":3}`)
	f.do("POST", path+"/acks", `{"taskId":"a/b","attempt":7}`).want(http.StatusOK)
	next := f.trigger(`{"requiredTaskAcks":3}`)
	f.do("POST", next+"/acks", `{"taskId":"a/b"}`).refused(coordinator.CodeStaleAttempt)
	f.do("DELETE", "/jobs/default/tasks/a%2Fb", "").want(http.StatusNoContent)
	f.do("POST", next+"/acks", `{"taskId":"a/b"}`).want(http.StatusOK)
	f.do("DELETE", "/jobs/default/tasks/unheard-of", "").want(http.StatusNoContent)
	f.do("DELETE", "/jobs/orders/tasks/a", "").refused(coordinator.CodeJobNotFound)
	f.do("DELETE", "/jobs/default/tasks/-", "").refused(coordinator.CodeInvalidParameter)
}

func TestAScheduleSaysWhenItTriggersAndWhyNotNow(t *testing.T) {
	t.Parallel()
	f := serve(t)
	same(t, f.do("GET", "/jobs/default/schedule", "").want(http.StatusOK), `{"job":"default","intervalMs":0,"paused":false,
		"triggered":0,"skipped":0,"missed":0,"observedAt":1795977600000,
		"delays":[{"reason":"off","detail":"The job has no schedule. Set intervalMs with PATCH /jobs/default."}]}`)
	f.do("PUT", "/jobs/orders", `{"intervalMs":60000,"minPauseMs":90000,"maxConcurrentCheckpoints":1}`).want(http.StatusCreated)
	path := f.do("POST", "/checkpoints?job=orders", "").want(http.StatusCreated).header.Get("Location")
	f.do("POST", strings.Replace(path, "?", "/acks?", 1), `{"taskId":"task-1"}`).want(http.StatusOK)
	f.do("POST", "/checkpoints?job=orders&force=true", "").want(http.StatusCreated)
	var schedule api.Schedule
	f.do("GET", "/jobs/orders/schedule", "").want(http.StatusOK).into(&schedule)
	if schedule.NextDue == nil || *schedule.NextDue <= start || *schedule.NextDue > start+60_000 || schedule.Last != nil || schedule.LastCheckpointID != nil {
		t.Errorf("the schedule is %+v", schedule)
	}
	var reasons []api.ScheduleDelayReason
	for _, delay := range schedule.Delays {
		reasons = append(reasons, delay.Reason)
		if delay.Reason == api.ScheduleDelayReasonMinPause && (delay.Until == nil || *delay.Until != start+90_000) {
			t.Errorf("the pause is until %v", delay.Until)
		}
	}
	if diff := cmp.Diff([]api.ScheduleDelayReason{"not_due", "min_pause", "too_many_pending"}, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	f.do("GET", "/jobs/unheard-of/schedule", "").refused(coordinator.CodeJobNotFound)
}

func TestAScheduleSaysWhatItDidLast(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{live: true})
	f.do("PUT", "/jobs/orders", `{"intervalMs":1000,"maxConcurrentCheckpoints":1}`).want(http.StatusCreated)
	f.clock.advance(time.Second)
	eventually(t, func() bool {
		var schedule api.Schedule
		f.do("GET", "/jobs/orders/schedule", "").want(http.StatusOK).into(&schedule)
		last := schedule.Last
		return schedule.Triggered == 1 && last != nil && last.Result == api.ScheduleLastResultTriggered && last.At == start+1000 &&
			schedule.LastCheckpointID != nil && *schedule.LastCheckpointID == 0
	})
}

func TestATriggerRestsAfterACompletionUnlessItIsForced(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do("PUT", "/jobs/default", `{"minPauseMs":2500,"requiredTaskAcks":2,"maxConcurrentCheckpoints":1}`).want(http.StatusCreated)
	var first api.Checkpoint
	f.do("POST", "/checkpoints", "").want(http.StatusCreated).into(&first)
	if first.RequiredTaskAcks != 2 {
		t.Errorf("the job's settings did not hold: %+v", first)
	}
	f.do("POST", "/checkpoints/0/complete?force=true", "").want(http.StatusOK)
	f.clock.advance(time.Second)
	a := f.do("POST", "/checkpoints", "")
	a.refused(coordinator.CodeMinPause)
	if got := a.header.Get("Retry-After"); got != "2" { // 1500 ms, rounded up
		t.Errorf("Retry-After is %q, want 2", got)
	}
	f.do("POST", "/checkpoints?force=false", "").refused(coordinator.CodeMinPause)
	f.do("POST", "/checkpoints?force=true", "").want(http.StatusCreated)
	f.do("POST", "/checkpoints?force=true", "").refused(coordinator.CodeTooManyPending)
	f.do("POST", "/checkpoints?force=1", "").refused(coordinator.CodeInvalidParameter)
}

func TestOfManyWhoPatchOneJobAllSucceedAndNoChangeIsLost(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do("PUT", "/jobs/orders", `{}`).want(http.StatusCreated)
	fields := []string{
		`"timeoutMs":11`, `"intervalMs":1200`, `"minPauseMs":13`, `"maxConcurrentCheckpoints":14`, `"tolerableFailedCheckpoints":15`,
		`"staleAfterMs":16`, `"checkpointsToKeep":17`, `"checkpointsMaxAgeMs":18`, `"checkpointsMaxBytes":19`, `"description":"d"`,
	}
	const callers = 40
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			a, err := f.try("PATCH", "/jobs/orders", strings.NewReader("{"+fields[i%len(fields)]+"}"))
			if err != nil || a.status != http.StatusOK {
				t.Errorf("patch %d answered %d %v\n%s", i, a.status, err, a.body)
			}
		})
	}
	all.Wait()
	body := f.do("GET", "/jobs/orders", "").want(http.StatusOK).body
	for _, field := range fields {
		if !strings.Contains(body, field) {
			t.Errorf("the change %s is lost:\n%s", field, body)
		}
	}
}

func TestJobsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	f := serve(t)
	large := strings.Repeat("x", coordinator.MaxDescriptionBytes)
	const jobs = 300
	for i := range jobs {
		f.do("PUT", fmt.Sprintf("/jobs/job-%03d", i), `{"description":"`+large+`"}`).want(http.StatusCreated)
	}
	for _, limit := range []string{"", "limit=7&", "limit=1000&"} {
		var names []string
		pages, next := 0, ""
		for ok := true; ok; ok = next != "" {
			query := "/jobs?" + limit
			if next != "" {
				query += "after=" + next
			}
			var page api.JobList
			answered := f.do("GET", strings.TrimRight(query, "?&"), "").want(http.StatusOK)
			answered.into(&page)
			for _, job := range page.Jobs {
				names = append(names, job.Job)
			}
			pages++
			next = ""
			if page.Next != nil {
				next = *page.Next
			}
		}
		if len(names) != jobs+1 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("with %q the pages have %d jobs of %d, in order: %v", limit, len(names), jobs+1, slices.IsSorted(names))
		}
		if pages < 2 { // 1.2 MB of descriptions are no page
			t.Errorf("with %q everything is one page", limit)
		}
	}
	for _, wrong := range []string{"limit=0", "limit=1001", "after=", "after=a/b", "before=x"} {
		f.do("GET", "/jobs?"+wrong, "").refused(coordinator.CodeInvalidParameter)
	}
}
