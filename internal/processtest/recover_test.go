package processtest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
)

func TestWorkersThatRecoverAtOnceWhileACheckpointCompletesGetOneAnswer(t *testing.T) {
	t.Parallel()
	where := onRedis(t)
	a, b := serve(t, where), serve(t, where)
	won := map[bool]int{}
	for round := range 20 {
		job := fmt.Sprintf("?job=race-%d", round)
		r := &recovery{a: a, b: b, job: job}
		r.prepare(t)
		won[r.race(t)]++
		r.refuseOldRun(t)
		r.surviveCleanup(t)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("the last acknowledgement came first %d times, the recovery %d times", won[true], won[false])
}

// recovery is a crash of a fleet of a job of its own.
type recovery struct {
	a, b          *process
	job           string
	first, second int64   // a completed checkpoint, and one that lacks an acknowledgement
	epoch         int64   // after the recovery
	from          message // the checkpoint to go on from
}

func (r *recovery) prepare(t *testing.T) {
	t.Helper()
	trigger := func() int64 {
		return r.a.must(t, http.StatusCreated, "POST", "/checkpoints"+r.job, `{"tasks":["task-1","task-2"]}`).message().CheckpointID
	}
	r.first = trigger()
	r.b.must(t, http.StatusOK, "POST", at(r.first, "/acks")+r.job, `{"acks":[{"taskId":"task-1","epoch":0},{"taskId":"task-2","epoch":0}]}`)
	r.second = trigger()
	r.b.must(t, http.StatusOK, "POST", at(r.second, "/acks")+r.job, `{"taskId":"task-1","epoch":0}`)
}

// race sends the last acknowledgement and three recoveries at once. It tells whether the
// acknowledgement came first.
func (r *recovery) race(t *testing.T) bool {
	t.Helper()
	var all sync.WaitGroup
	start := make(chan struct{})
	send := func(p *process, path, body string, headers ...string) *answer {
		got := new(answer)
		all.Go(func() {
			<-start
			var err error
			if *got, err = newRequest("POST", p.url+path+r.job, body, headers...).send(t.Context()); err != nil {
				t.Error(err)
			}
		})
		return got
	}
	last := send(r.b, at(r.second, "/acks"), `{"taskId":"task-2","epoch":0}`)
	var recoveries []*answer
	for _, p := range []*process{r.a, r.b, r.a} {
		recoveries = append(recoveries, send(p, "/checkpoints/recover", "", "Idempotency-Key", "crash-1"))
	}
	close(start)
	all.Wait()

	completed := last.status == http.StatusOK
	if !completed && last.code() != "stale_epoch" {
		t.Errorf("the last acknowledgement answers %s", last)
	}
	want := r.first
	if completed {
		want = r.second
	}
	for _, got := range recoveries {
		m := got.message()
		if got.status != http.StatusOK || m.Epoch != 1 || m.Checkpoint == nil || m.Checkpoint.CheckpointID != want {
			t.Fatalf("a worker recovers to %s, want epoch 1 and checkpoint %d", got, want)
		}
		r.epoch, r.from = m.Epoch, *m.Checkpoint
	}
	return completed
}

// refuseOldRun checks that nothing of the run before the crash is taken any more.
func (r *recovery) refuseOldRun(t *testing.T) {
	t.Helper()
	acks := at(r.second, "/acks") + r.job
	r.a.refused(t, http.StatusConflict, "stale_epoch", "POST", acks, `{"taskId":"task-1","epoch":0}`)
	if r.from.CheckpointID == r.first {
		got := r.b.refused(t, http.StatusConflict, "checkpoint_aborted", "POST", acks, `{"taskId":"task-2"}`).message()
		if got.Current != nil || got.Latest == nil || *got.Latest != r.first {
			t.Errorf("a late acknowledgement is told of %v and %v as the next steps", got.Current, got.Latest)
		}
	}
	next := r.b.must(t, http.StatusCreated, "POST", "/checkpoints"+r.job, `{"tasks":["task-1","task-2"]}`).message()
	if next.Epoch != r.epoch || next.CheckpointID <= r.second {
		t.Errorf("the first checkpoint after the recovery is %+v", next)
	}
	r.a.refused(t, http.StatusConflict, "stale_epoch", "POST", at(next.CheckpointID, "/acks")+r.job, `{"taskId":"task-1","epoch":0}`)
	r.a.refused(t, http.StatusConflict, "stale_epoch", "PUT", at(next.CheckpointID, "/tasks/task-1/state")+r.job+"&epoch=0", `{"key":"k","value":1}`, "Content-Type", typeNDJSON)
	r.a.must(t, http.StatusOK, "POST", at(next.CheckpointID, "/acks")+r.job, `{"taskId":"task-1","epoch":1}`)
}

// surviveCleanup checks that the checkpoint which the fleet is about to restore stays.
func (r *recovery) surviveCleanup(t *testing.T) {
	t.Helper()
	got := r.b.must(t, http.StatusOK, "POST", "/checkpoints/cleanup"+r.job, `{"keep":0}`).message()
	id := r.from.CheckpointID
	if !slices.Equal(got.Skipped, []int64{id}) || slices.Contains(got.Deleted, id) {
		t.Errorf("a cleanup deleted %v and skipped %v while %d is leased", got.Deleted, got.Skipped, id)
	}
	r.a.must(t, http.StatusOK, "GET", at(id, "/restore")+r.job, "")
	again := r.a.must(t, http.StatusOK, "POST", "/checkpoints/recover"+r.job, "", "Idempotency-Key", "crash-1").message()
	if again.Epoch != r.epoch || again.Checkpoint == nil || again.Checkpoint.CheckpointID != id {
		t.Errorf("a worker that recovers later gets %+v, want epoch %d and checkpoint %d", again, r.epoch, id)
	}
}
