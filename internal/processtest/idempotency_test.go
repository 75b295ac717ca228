package processtest

import (
	"net/http"
	"sync"
	"testing"
)

func TestOneIdempotencyKeyOnTwentyRequestsAtOnceMakesOneCheckpoint(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			a := serve(t, where)
			replicas := []*process{a}
			if where.redis != nil {
				replicas = append(replicas, serve(t, where))
			}
			const body, other = `{"requiredTaskAcks":3,"timeoutMs":0}`, `{"requiredTaskAcks":4,"timeoutMs":0}`
			key := []string{"Idempotency-Key", "at-noon"}
			answers := make([]answer, 20)
			var all sync.WaitGroup
			start := make(chan struct{})
			for i := range answers {
				all.Go(func() {
					<-start
					var err error
					if answers[i], err = newRequest("POST", replicas[i%len(replicas)].url+"/checkpoints", body, key...).send(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			close(start)
			all.Wait()
			statuses := map[int]int{}
			for _, got := range answers {
				statuses[got.status]++
				same(t, "an answer", got.body, answers[0].body)
			}
			if statuses[http.StatusCreated] != 1 || statuses[http.StatusOK] != 19 {
				t.Fatalf("twenty requests were answered %v, %s", statuses, answers[0])
			}

			check := func(p *process) {
				t.Helper()
				same(t, "a repeat", p.must(t, http.StatusOK, "POST", "/checkpoints", body, key...).body, answers[0].body)
				same(t, "a repeat in another order", p.must(t, http.StatusOK, "POST", "/checkpoints", ` {"timeoutMs":0, "requiredTaskAcks":3}`, key...).body, answers[0].body)
				p.refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused", "POST", "/checkpoints", other, key...)
				if got := p.must(t, http.StatusOK, "GET", "/checkpoints", "").message(); len(got.Checkpoints) != 1 {
					t.Errorf("there are %d checkpoints", len(got.Checkpoints))
				}
			}
			for _, p := range replicas {
				check(p)
				p.kill()
			}
			p := serve(t, where)
			check(p)

			id := answers[0].message().CheckpointID
			p.must(t, http.StatusNoContent, "DELETE", at(id, ""), "")
			gone := p.refused(t, http.StatusGone, "idempotency_target_deleted", "POST", "/checkpoints", body, key...).message()
			if gone.CheckpointID != id {
				t.Errorf("the refusal names checkpoint %d, want %d", gone.CheckpointID, id)
			}
		})
	}
}
