package processtest

import (
	"net/http"
	"testing"
)

const walkthroughLines = `{"key":"offsets","value":{"p0":11,"p1":22}}` + "\n" + `{"key":"user-count","value":1000}` + "\n"

func TestAnyReplicaTakesAnyRequest(t *testing.T) {
	t.Parallel()
	where := onRedis(t)
	a, b := serve(t, where), serve(t, where)

	id := a.trigger(t, `{"requiredTaskAcks":3}`)
	a.must(t, http.StatusCreated, "PUT", at(id, "/state/user-count"), "1000")
	b.must(t, http.StatusCreated, "PUT", at(id, "/state/offsets"), `{"p0":11,"p1":22}`)
	for i, replica := range []*process{a, b, a} {
		got := replica.acknowledge(t, id, []string{"task-1", "task-2", "task-3"}[i])
		if got.AcknowledgedTasks != i+1 || (got.Status == "completed") != (i == 2) {
			t.Errorf("acknowledgement %d answers %+v", i+1, got)
		}
	}
	for name, replica := range map[string]*process{"A": a, "B": b} {
		if got := replica.must(t, http.StatusOK, "GET", "/checkpoints/latest", "").message(); got.CheckpointID != id || !got.Completed {
			t.Errorf("the latest one of %s is %+v", name, got)
		}
		same(t, "the restore of "+name, replica.must(t, http.StatusOK, "GET", at(id, "/restore"), "").body, walkthroughLines)
		same(t, "the latest restore of "+name, replica.must(t, http.StatusOK, "GET", "/checkpoints/latest/restore", "").body, walkthroughLines)
	}
}

func TestKilledServersGoOnWithAPendingCheckpoint(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			start := func() (a, b *process) {
				a = serve(t, where)
				if where.redis == nil {
					return a, a // the embedded store is for one process
				}
				return a, serve(t, where)
			}
			a, b := start()
			id := a.trigger(t, `{"requiredTaskAcks":3}`)
			a.must(t, http.StatusCreated, "PUT", at(id, "/state/user-count"), "1000")
			a.must(t, http.StatusCreated, "PUT", at(id, "/state/offsets"), `{"p0":11,"p1":22}`)
			b.acknowledge(t, id, "task-1")
			a.kill()
			b.kill()

			a, b = start()
			if got := a.acknowledge(t, id, "task-1"); !got.Duplicate {
				t.Errorf("the acknowledgement from before was forgotten: %+v", got)
			}
			if got := a.acknowledge(t, id, "task-2"); got.Status != "pending" || got.AcknowledgedTasks != 2 {
				t.Errorf("the second acknowledgement answers %+v", got)
			}
			if got := b.acknowledge(t, id, "task-3"); got.Status != "completed" || got.AcknowledgedTasks != 3 {
				t.Errorf("the third acknowledgement answers %+v", got)
			}
			same(t, "the restore", b.must(t, http.StatusOK, "GET", "/checkpoints/latest/restore", "").body, walkthroughLines)
			if next := b.trigger(t, "{}"); next <= id {
				t.Errorf("id %d was given after %d", next, id)
			}
		})
	}
}
