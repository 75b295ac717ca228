package checkpointtest_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAServerComesBackOnItsAddressWithItsData(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	url, id := server.URL, server.Trigger("task-1").ID
	server.Stop()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if answer, err := client.Get(url + "/healthz"); err == nil {
		answer.Body.Close()
		t.Error("a server that was stopped answers")
	}
	server.Restart()
	if got := server.Checkpoint(id); server.URL != url || got.Status != "pending" || got.MissingTasks[0] != "task-1" {
		t.Errorf("at %s the checkpoint is %+v", server.URL, got)
	}
	server.Abort(id)
	if got := server.Ended(id); got.Status != "aborted" || got.Failure.Reason != "aborted" {
		t.Errorf("the checkpoint ended as %+v", got)
	}
	server.Recover()
	if got := server.Trigger(); got.Epoch != 1 || got.ID <= id {
		t.Errorf("after the recovery there is %+v", got)
	}
}

func TestOptionsAreTheDefaultsOfWhatTriggersLeaveOut(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t, checkpointtest.Timeout(50*time.Millisecond), checkpointtest.RequiredTaskAcks(3))
	if got := server.Ended(server.Trigger().ID); got.Status != "expired" {
		t.Errorf("the checkpoint ended as %+v", got)
	}
	rhythm := checkpointtest.Start(t, checkpointtest.Interval(50*time.Millisecond), checkpointtest.Timeout(time.Millisecond))
	deadline := time.Now().Add(10 * time.Second)
	for own := int64(1); time.Now().Before(deadline); own++ { // the first one makes the job
		if got := rhythm.Ended(rhythm.Trigger().ID); got.ID > own+2 { // three are the schedule's
			return
		}
	}
	t.Error("nothing was triggered")
}

func TestWhatIsClosedLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	server := checkpointtest.NewServer()
	server.Trigger()
	server.Close()
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
}

func ExampleStart() {
	// In a test, with its t: server := checkpointtest.Start(t)
	server := checkpointtest.NewServer(checkpointtest.Timeout(10 * time.Millisecond))
	defer server.Close()

	id := server.Trigger("task-1").ID
	ended := server.Ended(id)
	fmt.Println(ended.Status, ended.MissingTasks)
	// Output: expired [task-1]
}
