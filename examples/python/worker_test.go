package python_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
)

// python starts a program and gives the function that kills it as kill -9 does.
func python(t *testing.T, arguments ...string) (kill func(), wait func() *os.ProcessState) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("THE PYTHON WORKER CANNOT BE TESTED: there is no python3, and CI must not skip")
		}
		t.Skip("THE PYTHON WORKER IS NOT TESTED: there is no python3 on this machine")
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "python3", arguments...)
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = command.Wait() // its state tells how it ended
	}()
	kill = func() {
		_ = command.Process.Kill() // it may have ended by itself
		<-done
	}
	t.Cleanup(kill)
	return kill, func() *os.ProcessState {
		<-done
		return command.ProcessState
	}
}

func TestAPythonWorkerThatIsKilledAndWhoseServerRestartsTakesPartInEveryCheckpoint(t *testing.T) {
	t.Parallel()
	const checkpoints = 40
	server := checkpointtest.Start(t, checkpointtest.Timeout(0))
	const task = "täsk/1 & more"
	kill, _ := python(t, "worker.py", server.URL, task)
	kills, restarts := 0, 0
	for range checkpoints {
		id := server.Trigger(task).ID
		switch rand.IntN(5) {
		case 0:
			<-time.After(rand.N(100 * time.Millisecond)) // a random moment
			kill()
			kill, _ = python(t, "worker.py", server.URL, task)
			kills++
		case 1:
			server.Restart()
			restarts++
		}
		if got := server.Ended(id); got.Status != "completed" {
			t.Fatalf("checkpoint %d ended as %+v", id, got)
		}
	}
	t.Logf("the worker was killed %d times, the server restarted %d times", kills, restarts)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(server.URL + "/checkpoints/latest/restore")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	restored, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	// Its state went through the kills: it never counted back.
	_, text, _ := strings.Cut(string(restored), `"value":`)
	count := 0
	if _, err := fmt.Sscan(strings.TrimRight(text, "}\n"), &count); err != nil || count < checkpoints {
		t.Errorf("after %d checkpoints the worker's state is %s (%v)", checkpoints, restored, err)
	}
}

// failing runs the worker with a snapshot that fails once.
const failing = `
import json, runpy
dumps, failed = json.dumps, []
def fail(value):
    if "key" in value and not failed:
        failed.append(value)
        raise OSError("disk is full")
    return dumps(value)
json.dumps = fail
runpy.run_path("worker.py", run_name="__main__")
`

func TestAPythonWorkerDeclinesWhenItsSnapshotFailsAndGoesOn(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	python(t, "-c", failing, server.URL, "task-1")
	got := server.Ended(server.Trigger("task-1").ID)
	if got.Failure.Reason != "declined" || got.Failure.TaskID != "task-1" || got.Failure.Message != "disk is full" {
		t.Errorf("the checkpoint ended as %+v", got)
	}
	if got := server.Ended(server.Trigger("task-1").ID); got.Status != "completed" {
		t.Errorf("the next checkpoint ended as %+v", got)
	}
}

func TestAPythonWorkerEndsWhenTheFleetHasRecoveredWithoutIt(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	kill, wait := python(t, "worker.py", server.URL, "task-1")
	server.Ended(server.Trigger("task-1").ID)
	server.Recover()
	server.Trigger("task-1")
	defer time.AfterFunc(30*time.Second, kill).Stop()
	if state := wait(); state.ExitCode() != 1 {
		t.Errorf("it ended as %v", state)
	}
}

func TestThePythonWorkerFitsOnAPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("worker.py")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.HasPrefix(line, `"""`) {
			lines++
		}
	}
	if lines >= 40 {
		t.Errorf("it has %d lines of code", lines)
	}
}
