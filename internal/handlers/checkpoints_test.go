package handlers_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// start is when the clock of a fixture begins.
const start = 1_795_977_600_000

// same compares a whole JSON answer with what is wanted, member by member.
func same(t *testing.T, a answer, want string) {
	t.Helper()
	var got, wanted any
	a.into(&got)
	answer{t: t, call: "the test", body: want}.into(&wanted)
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", a.call, diff)
	}
}

func TestAPendingCheckpointHasExactlyTheDocumentedMembers(t *testing.T) {
	t.Parallel()
	f := serve(t)
	a := f.do("POST", "/checkpoints?job=orders", `{"tasks":["task-2","task-1"],"labels":{"build":"<417>"},"description":"before the upgrade","pinned":true}`).want(http.StatusCreated)
	same(t, a, `{"checkpointId":0,"job":"orders","epoch":0,"status":"pending","completed":false,"timestamp":1795977600000,
		"deadline":1795977660000,"requiredTaskAcks":2,"acknowledgedTasks":0,"missingTasks":["task-1","task-2"],"pinned":true,
		"labels":{"build":"<417>"},"description":"before the upgrade"}`)
	if got, want := a.header.Get("Location"), "/checkpoints/0?job=orders"; got != want {
		t.Errorf("Location is %q, want %q", got, want)
	}
	f.do("GET", a.header.Get("Location"), "").want(http.StatusOK)
}

func TestACheckpointThatNeverExpiresHasNoDeadline(t *testing.T) {
	t.Parallel()
	f := serve(t)
	same(t, f.do("POST", "/checkpoints", `{"requiredTaskAcks":1,"timeoutMs":-5}`).want(http.StatusCreated),
		`{"checkpointId":0,"job":"default","epoch":0,"status":"pending","completed":false,"timestamp":1795977600000,
		"requiredTaskAcks":1,"acknowledgedTasks":0,"pinned":false,"labels":{}}`)
}

func TestACompletedCheckpointHasExactlyTheDocumentedMembers(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":1}`)
	f.clock.advance(850 * time.Millisecond)
	f.do("POST", path+"/acks", `{"taskId":"task-1","attempt":3,"state":{"offsets":{"p0":11}}}`).want(http.StatusOK)
	part := "sha256:d7c4f3a6f8fc90a795da4c485f772fc1504bf921f37ad37e3ae79facfe09f8e9"
	manifest := coordinator.ManifestDigest([]coordinator.ManifestPart{
		{Shared: true, PartInfo: coordinator.PartInfo{Digest: coordinator.EmptyDigest}},
		{TaskID: "task-1", PartInfo: coordinator.PartInfo{Entries: 1, Bytes: 54, Digest: part}},
	})
	members := `"checkpointId":0,"job":"default","epoch":0,"status":"completed","completed":true,"timestamp":1795977600000,
		"deadline":1795977660000,"requiredTaskAcks":1,"acknowledgedTasks":1,"completedAt":1795977600850,"endedAt":1795977600850,
		"durationMs":850,"pinned":false,"labels":{}`
	list := f.do("GET", "/checkpoints", "").want(http.StatusOK)
	same(t, list, `{"checkpoints":[{`+members+`,"snapshot":{"version":1,"entries":1,"bytes":54}}]}`)
	one := `{` + members + `,"snapshot":{"version":1,"entries":1,"bytes":54,"digest":"` + manifest + `"},
		"acks":[{"taskId":"task-1","attempt":3,"acknowledgedAt":1795977600850,"latencyMs":850,"entries":1,"bytes":54,"digest":"` + part + `"}]}`
	f.clock.advance(17*time.Second + 900*time.Millisecond)
	same(t, f.do("GET", path, "").want(http.StatusOK), one)
	latest := f.do("GET", "/checkpoints/latest", "").want(http.StatusOK)
	same(t, latest, one)
	if latest.header.Get("Age") != "17" || latest.header.Get("Checkpoint-Id") != "0" {
		t.Errorf("Age is %q and Checkpoint-Id %q", latest.header.Get("Age"), latest.header.Get("Checkpoint-Id"))
	}
	same(t, f.do("GET", "/checkpoints", "").want(http.StatusOK), // the digest is known from now on
		`{"checkpoints":[{`+members+`,"snapshot":{"version":1,"entries":1,"bytes":54,"digest":"`+manifest+`"}}]}`)
}

func TestCheckpointsThatEndedOtherwiseSayWhy(t *testing.T) {
	t.Parallel()
	f := serve(t)
	declined := f.trigger(`{"requiredTaskAcks":2}`)
	f.clock.advance(300 * time.Millisecond)
	same(t, f.do("POST", declined+"/abort", `{"reason":"disk is full","taskId":"task-1"}`).want(http.StatusOK),
		`{"checkpointId":0,"job":"default","epoch":0,"status":"aborted","completed":false,"timestamp":1795977600000,
		"deadline":1795977660000,"requiredTaskAcks":2,"acknowledgedTasks":0,"endedAt":1795977600300,"durationMs":300,
		"pinned":false,"labels":{},"failure":{"reason":"declined","taskId":"task-1","message":"disk is full"}}`)
	expired := f.trigger(`{"requiredTaskAcks":2,"timeoutMs":100}`)
	f.clock.advance(time.Second)
	var checkpoint api.Checkpoint
	f.do("GET", expired, "").want(http.StatusOK).into(&checkpoint)
	if checkpoint.Status != api.CheckpointStatusExpired || checkpoint.EndedAt == nil || checkpoint.CompletedAt != nil ||
		checkpoint.Failure == nil || checkpoint.Failure.Reason != api.FailureReasonExpired || checkpoint.Snapshot != nil {
		t.Errorf("the expired checkpoint is %+v", checkpoint)
	}
}

func TestEntityTagsOfACheckpoint(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.completed(`{}`)
	first := f.do("GET", path, "").want(http.StatusOK).header.Get("ETag")
	for _, route := range []string{path, "/checkpoints/latest"} {
		for _, header := range []string{first, "W/" + first, `"x", ` + first, "*"} {
			a := f.do("GET", route, "", "If-None-Match", header).want(http.StatusNotModified)
			if a.body != "" || a.header.Get("ETag") != first {
				t.Errorf("%s: tag %s, body %q", a.call, a.header.Get("ETag"), a.body)
			}
		}
		f.do("GET", route, "", "If-None-Match", `"x"`).want(http.StatusOK)
		for _, header := range []string{"x", `"a" "b"`, `*, "a"`, `"a`} {
			f.do("GET", route, "", "If-None-Match", header).refused(coordinator.CodeInvalidParameter)
			// Nobody is asked for the checkpoint before, and nothing is waited for.
			f.do("GET", route+"?job=nowhere&wait=60", "", "If-None-Match", header).refused(coordinator.CodeInvalidParameter)
		}
	}
	for _, header := range []string{`"x"`, "W/" + first, `"x", "y"`} {
		f.do("PATCH", path, `{"pinned":true}`, "If-Match", header).refused(coordinator.CodePreconditionFailed)
		f.do("DELETE", path, "", "If-Match", header).refused(coordinator.CodePreconditionFailed)
	}
	second := f.do("PATCH", path, `{"pinned":true}`, "If-Match", `"x",`+first).want(http.StatusOK).header.Get("ETag")
	if second == first {
		t.Error("the change left the tag as it was")
	}
	f.do("GET", path, "", "If-None-Match", first).want(http.StatusOK)
	f.do("PATCH", path, `{"pinned":false}`, "If-Match", "*").want(http.StatusOK)
	f.do("DELETE", path, "", "If-Match", second).refused(coordinator.CodePreconditionFailed)
	f.do("DELETE", path, "", "If-Match", "*").want(http.StatusNoContent)
	f.do("DELETE", path, "").refused(coordinator.CodeCheckpointDeleted)
}

func TestAPatchChangesWhatItNames(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"labels":{"a":"1"},"description":"text"}`)
	var checkpoint api.Checkpoint
	for _, step := range []struct {
		body        string
		labels      api.Labels
		description string
		pinned      bool
	}{
		{`{}`, api.Labels{"a": "1"}, "text", false},
		{`{"pinned":true}`, api.Labels{"a": "1"}, "text", true},
		{`{"description":null}`, api.Labels{"a": "1"}, "", true},
		{`{"description":"new"}`, api.Labels{"a": "1"}, "new", true},
		{`{"labels":{"b":"2"}}`, api.Labels{"b": "2"}, "new", true},
		{`{"labels":{},"pinned":false}`, api.Labels{}, "new", false},
	} {
		checkpoint = api.Checkpoint{}
		f.do("PATCH", path, step.body).want(http.StatusOK).into(&checkpoint)
		description := ""
		if checkpoint.Description != nil {
			description = *checkpoint.Description
		}
		if !cmp.Equal(checkpoint.Labels, step.labels) || description != step.description || checkpoint.Pinned != step.pinned {
			t.Errorf("after %s: labels %v, description %q, pinned %v", step.body, checkpoint.Labels, description, checkpoint.Pinned)
		}
	}
}

func TestListsPageByTheirCursor(t *testing.T) {
	t.Parallel()
	f := serve(t)
	for range 5 {
		f.trigger("")
	}
	f.do("POST", "/checkpoints/2/acks", `{"taskId":"a"}`).want(http.StatusOK)
	var ids []int64
	for before := ""; ; {
		var page api.CheckpointList
		f.do("GET", "/checkpoints?status=pending&limit=2"+before, "").want(http.StatusOK).into(&page)
		for _, checkpoint := range page.Checkpoints {
			ids = append(ids, checkpoint.CheckpointID)
		}
		if page.Next == nil {
			break
		}
		before = "&before=" + *page.Next
	}
	if diff := cmp.Diff([]int64{4, 3, 1, 0}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	same(t, f.do("GET", "/checkpoints?status=aborted", "").want(http.StatusOK), `{"checkpoints":[]}`)
	for _, query := range []string{"before=x", "before=-1", "before=01", "status=done", "limit=0", "limit=1001"} {
		f.do("GET", "/checkpoints?"+query, "").refused(coordinator.CodeInvalidParameter)
	}
}

func TestAnIdempotencyKeyAnswersTheSameAgain(t *testing.T) {
	t.Parallel()
	f := serve(t)
	key := []string{"Idempotency-Key", "nightly-1"}
	first := f.do("POST", "/checkpoints", `{"requiredTaskAcks":1}`, key...).want(http.StatusCreated)
	again := f.do("POST", "/checkpoints", ` {"requiredTaskAcks": 1}`, key...).want(http.StatusOK)
	if first.body != again.body || first.header.Get("Location") != again.header.Get("Location") || first.header.Get("ETag") != again.header.Get("ETag") {
		t.Errorf("first\n%s\nagain\n%s", first.body, again.body)
	}
	f.do("POST", "/checkpoints", `{"requiredTaskAcks":2}`, key...).refused(coordinator.CodeIdempotencyKeyReused)
	f.do("DELETE", first.header.Get("Location"), "").want(http.StatusNoContent)
	problem := f.do("POST", "/checkpoints", `{"requiredTaskAcks":1}`, key...).refused(coordinator.CodeIdempotencyTargetDeleted)
	if problem.CheckpointID == nil || *problem.CheckpointID != 0 {
		t.Errorf("the problem names checkpoint %v, want 0", problem.CheckpointID)
	}
}

func TestRecoverTellsANullFromACheckpoint(t *testing.T) {
	t.Parallel()
	f := serve(t)
	same(t, f.do("POST", "/checkpoints/recover", "").want(http.StatusOK), `{"epoch":1,"checkpoint":null}`)
	f.completed(`{}`)
	var recovery api.Recovery
	f.do("POST", "/checkpoints/recover", "{}", "Idempotency-Key", "crash-1").want(http.StatusOK).into(&recovery)
	if recovery.Epoch != 2 || recovery.Checkpoint == nil || recovery.Checkpoint.CheckpointID != 0 || recovery.Checkpoint.Snapshot.Digest == nil {
		t.Errorf("the recovery is %+v", recovery)
	}
	f.do("POST", "/checkpoints/recover", "", "Idempotency-Key", "crash-1").want(http.StatusOK).into(&recovery)
	if recovery.Epoch != 2 {
		t.Errorf("the same crash raised the epoch to %d", recovery.Epoch)
	}
}

func TestTooManyPendingSaysWhenToComeAgain(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{settings: func(s *coordinator.Settings) { s.MaxConcurrent = 1 }})
	f.trigger(`{"timeoutMs":30000}`)
	a := f.do("POST", "/checkpoints", "")
	problem := a.refused(coordinator.CodeTooManyPending)
	if problem.Limit == nil || *problem.Limit != api.LimitNameMaxConcurrentCheckpoints || a.header.Get("Retry-After") != "31" && a.header.Get("Retry-After") != "30" {
		t.Errorf("limit %v, Retry-After %s", problem.Limit, a.header.Get("Retry-After"))
	}
}

func TestCleanupAnswersListsAndNeverNull(t *testing.T) {
	t.Parallel()
	f := serve(t)
	same(t, f.do("POST", "/checkpoints/cleanup", `{"keep":0}`).want(http.StatusOK), `{"deleted":[],"skipped":[],"kept":0,"more":false}`)
	for range 4 {
		f.completed(`{}`)
	}
	want := `{"deleted":[0,1],"skipped":[],"kept":2,"more":false}`
	same(t, f.do("POST", "/checkpoints/cleanup?dryRun=true", `{"keep":2}`).want(http.StatusOK), want)
	same(t, f.do("POST", "/checkpoints/cleanup", `{"keep":2}`).want(http.StatusOK), want)
	same(t, f.do("POST", "/checkpoints/cleanup", `{"keep":2}`).want(http.StatusOK), `{"deleted":[],"skipped":[],"kept":2,"more":false}`)
}

func TestLimitsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	f := serve(t, setup{settings: func(s *coordinator.Settings) { s.MaxPartBytes, s.MaxConcurrent = 12345, 7 }})
	var limits api.Limits
	f.do("GET", "/limits", "").want(http.StatusOK).into(&limits)
	if limits.PartBytes != 12345 || limits.MaxConcurrentCheckpoints != 7 || limits.ValueBytes != 16<<20 || limits.Counter != 1<<53-1 {
		t.Errorf("the limits are %+v", limits)
	}
}

func TestOneTaskOfACheckpoint(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"tasks":["task-1","task-2"]}`)
	same(t, f.do("GET", path+"/tasks/task-1", "").want(http.StatusOK), `{"taskId":"task-1","status":"missing"}`)
	f.do("PUT", path+"/tasks/task-1/state", ``, "Content-Type", ndjson).want(http.StatusOK)
	same(t, f.do("GET", path+"/tasks/task-1", "").want(http.StatusOK),
		`{"taskId":"task-1","status":"missing","uploaded":{"entries":0,"bytes":0,"digest":"`+coordinator.EmptyDigest+`"}}`)
	f.clock.advance(time.Second)
	f.do("POST", path+"/acks", `{"taskId":"task-1"}`).want(http.StatusOK)
	acknowledged := fmt.Sprintf(`{"taskId":"task-1","status":"acknowledged","acknowledgedAt":%d,"latencyMs":1000,"entries":0,"bytes":0,"digest":"%s"}`,
		int64(start+1000), coordinator.EmptyDigest)
	same(t, f.do("GET", path+"/tasks/task-1", "").want(http.StatusOK), acknowledged)
	same(t, f.do("GET", path+"/tasks", "").want(http.StatusOK), `{"checkpointId":0,"tasks":[`+acknowledged+`,{"taskId":"task-2","status":"missing"}]}`)
	same(t, f.do("GET", path+"/tasks?status=missing", "").want(http.StatusOK), `{"checkpointId":0,"tasks":[{"taskId":"task-2","status":"missing"}]}`)
	f.do("GET", path+"/tasks/task-3", "").refused(coordinator.CodeTaskNotInCheckpoint)
}

func TestWhatIsSetAsideIsPassedOverAndARecoveryMayNameItsCheckpoint(t *testing.T) {
	t.Parallel()
	f := serve(t)
	paths := []string{f.completed(`{"k":1}`), f.completed(`{"k":2}`)}
	ids := []int{0, 1}
	wantLatest := func(id int) {
		t.Helper()
		if got := f.do("GET", "/checkpoints/latest/restore", "").want(http.StatusOK).header.Get("Checkpoint-Id"); got != strconv.Itoa(id) {
			t.Errorf("latest is %s, want %d", got, id)
		}
	}
	if body := f.do("PATCH", paths[1], `{"setAside":true}`).want(http.StatusOK).body; !strings.Contains(body, `"setAside":true`) {
		t.Errorf("set aside, it is %s", body)
	}
	wantLatest(ids[0])
	f.do("PATCH", paths[0], `{"setAside":true}`).want(http.StatusOK)
	for _, path := range []string{"", "/state", "/state/k", "/entry?key=k", "/snapshot", "/restore", "/manifest", "?after=0", "?after=0&wait=1"} {
		f.do("GET", "/checkpoints/latest"+path, "").refused(coordinator.CodeAllSetAside)
	}
	f.do("POST", "/checkpoints/recover", "").refused(coordinator.CodeAllSetAside)
	for _, body := range []string{`{"checkpointId":-1}`, `{"checkpointId":"0"}`, `{"checkpointId":0.5}`, `{"checkpointID":0}`, `{"checkpointId":9007199254740992}`} {
		if a := f.do("POST", "/checkpoints/recover", body); a.status != http.StatusBadRequest {
			t.Errorf("%s answered %d", body, a.status)
		}
	}
	f.do("POST", "/checkpoints/recover", `{"checkpointId":2}`).refused(coordinator.CodeCheckpointNotFound)
	recovered := f.do("POST", "/checkpoints/recover", `{"checkpointId":0}`, "Idempotency-Key", "crash").want(http.StatusOK).body
	if !strings.Contains(recovered, `"epoch":1`) || !strings.Contains(recovered, `"checkpointId":0`) {
		t.Errorf("the recovery is %s", recovered)
	}
	f.do("POST", "/checkpoints/recover", `{"checkpointId":1}`, "Idempotency-Key", "crash").refused(coordinator.CodeIdempotencyKeyReused)
	f.do("PATCH", paths[0], `{"setAside":false}`).want(http.StatusOK)
	if body := f.do("GET", paths[0], "").want(http.StatusOK).body; strings.Contains(body, "setAside") {
		t.Errorf("taken back, it is %s", body)
	}
	wantLatest(ids[0])
	pending := f.trigger(`{"requiredTaskAcks":1}`)
	f.do("PATCH", pending, `{"setAside":true}`).refused(coordinator.CodeCheckpointNotCompleted)
}
