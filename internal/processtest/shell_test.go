package processtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// shellWorker is examples/shell/worker.sh with everything that it started.
type shellWorker struct {
	command *exec.Cmd
	ended   chan struct{}
}

func startShellWorker(t *testing.T, url, task string) *shellWorker {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "../../examples/shell/worker.sh", url, task)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	w := &shellWorker{command: command, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		_ = command.Wait() // it is always killed
	}()
	return w
}

// kill ends the shell and its curl at the same moment, as kill -9 of a container does.
func (w *shellWorker) kill() {
	_ = syscall.Kill(-w.command.Process.Pid, syscall.SIGKILL) // it may have ended by itself
	<-w.ended
}

func TestAShellWorkerThatStartsLateAndIsKilledTakesPartInEveryCheckpoint(t *testing.T) {
	t.Parallel()
	const checkpoints = 100
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := serve(t, open(t), "--checkpoints-to-keep", "0")
			triggered := p.trigger(t, `{"tasks":["shell"],"timeoutMs":0}`) // before there is a worker
			worker := startShellWorker(t, p.url, "shell")
			ended, stop := make(chan struct{}), make(chan struct{})
			var kills, done atomic.Int64
			go func() {
				defer close(ended)
				defer func() { worker.kill() }()
				// Where the machine is so busy that no life was long enough, the next one is longer.
				longest, last := 600, int64(0)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(rand.IntN(longest)) * time.Millisecond):
					}
					if now := done.Load(); now > last {
						longest, last = 600, now
					} else {
						longest += 200
					}
					worker.kill()
					worker = startShellWorker(t, p.url, "shell")
					kills.Add(1)
				}
			}()
			defer func() {
				close(stop)
				<-ended
				t.Logf("the worker was killed %d times", kills.Load())
			}()
			for n := 1; ; n++ {
				got := p.must(t, http.StatusOK, "GET", at(triggered, "?until=ended&wait=60"), "").message()
				if got.Status != "completed" || got.AcknowledgedTasks != 1 {
					t.Fatalf("checkpoint %d of %d ended as %+v", n, checkpoints, got)
				}
				done.Add(1)
				if n == checkpoints {
					break
				}
				triggered = p.trigger(t, `{"tasks":["shell"],"timeoutMs":0}`)
			}
			// Its state went through the kills: it never counted back, and took part each time.
			restored := p.must(t, http.StatusOK, "GET", "/checkpoints/latest/restore", "").body
			count := 0
			if _, err := fmt.Sscanf(restored, `{"taskId":"shell","key":"count","value":%d}`, &count); err != nil || count < checkpoints {
				t.Errorf("after %d checkpoints the worker's state is %s (%v)", checkpoints, restored, err)
			}
		})
	}
}
