package processtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// What is killed here is the process, with everything it holds in memory. That a machine
// which loses power loses nothing either rests on the store's fsync before each answer.
func TestKillingTheEmbeddedServerUnderLoadLosesNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	rounds := setting(t, "CHECKPOINTD_KILL_ROUNDS", 5)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	where := embedded(t)
	heard := newLedger()
	p := serve(t, where, underLoad()...)
	for round := range rounds {
		answers := 40 + random.IntN(200)
		heard.loadUntil(t, p, answers, fmt.Sprintf("round-%d-", round), p.kill)
		p = serve(t, where, underLoad()...)
		heard.verify(t, p)
		if t.Failed() {
			t.Fatalf("in round %d, killed after %d answers", round, answers)
		}
	}
	t.Logf("%d rounds, %d checkpoints, the latest is %d", rounds, len(heard.given), heard.latest)
}

// underLoad are flags that leave everything in the store that was answered.
func underLoad() []string {
	return []string{"--checkpoints-to-keep", "0", "--checkpoint-timeout", "0s", "--max-concurrent-checkpoints", "1000"}
}

// progress is how far a checkpoint was answered to have come.
type progress int

const (
	triggered progress = iota
	written            // its shared state
	acknowledged
	completed
)

// ledger is what servers were heard to answer, over all of their lives.
type ledger struct {
	mu      sync.Mutex
	given   map[int64]progress
	settled map[int64]bool   // verified as completed, or completed by force
	keys    map[string]int64 // Idempotency-Key → id, -1 while unanswered; of one life
	latest  int64            // highest completed id that any answer told of
}

func newLedger() *ledger {
	return &ledger{given: map[int64]progress{}, settled: map[int64]bool{}, keys: map[string]int64{}, latest: -1}
}

// loadUntil has fleets of workers at work until so many answers came, has the server
// ended, and waits until the workers have noticed. Names begin their Idempotency-Keys.
func (l *ledger) loadUntil(t *testing.T, p *process, answers int, names string, end func()) {
	t.Helper()
	var workers sync.WaitGroup
	var heard atomic.Int64
	enough := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	load := &load{ledger: l, url: p.url, answered: func() {
		if heard.Add(1) == int64(answers) {
			close(enough)
		}
	}}
	for worker := range 6 {
		workers.Go(func() {
			for i := 0; ctx.Err() == nil && !load.over.Load(); i++ {
				if err := load.oneCheckpoint(ctx, fmt.Sprintf("%sworker-%d-%d", names, worker, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Go(func() {
		for ctx.Err() == nil && !load.over.Load() {
			if err := load.lookAtLatest(ctx); err != nil {
				t.Error(err)
				return
			}
		}
	})
	select {
	case <-enough:
	case <-ctx.Done():
		t.Errorf("only %d of %d answers came", heard.Load(), answers)
	}
	end()
	workers.Wait()
}

// load is what workers do to one server. The first call that gets no answer ends it.
type load struct {
	*ledger

	url      string
	answered func()
	over     atomic.Bool
}

// ask sends a call; ok is false when no answer came, or that a busy disk kept the server
// from doing it in time. Any other answer than one of these statuses is an error.
func (l *load) ask(ctx context.Context, call request, statuses ...int) (got answer, ok bool, err error) {
	got, err = call.send(ctx)
	if err != nil {
		l.over.Store(true)
		return got, false, nil //nolint:nilerr // The server was ended, which is what this is about.
	}
	switch {
	case slices.Contains(statuses, got.status):
		return got, true, nil
	case got.code() == "store_unavailable":
		return got, false, nil
	}
	return got, false, fmt.Errorf("%s %s answered %s", call.method, call.url, got)
}

// oneCheckpoint takes a checkpoint of two tasks, one with a small and one with a large part.
func (l *load) oneCheckpoint(ctx context.Context, key string) error {
	l.note(func() { l.keys[key] = -1 })
	got, ok, err := l.ask(ctx, newRequest("POST", l.url+"/checkpoints", triggerOfTwo, "Idempotency-Key", key), http.StatusCreated)
	if !ok {
		return err
	}
	id := got.message().CheckpointID
	l.answered()
	l.note(func() {
		if _, twice := l.given[id]; twice {
			err = fmt.Errorf("id %d was given twice", id)
		}
		l.given[id], l.keys[key] = triggered, id
	})
	if err != nil {
		return err
	}
	for _, step := range []struct {
		reached progress
		call    request
		status  int
	}{
		{written, newRequest("PUT", l.url+at(id, "/state/id"), fmt.Sprint(id)), http.StatusCreated},
		{acknowledged, newRequest("POST", l.url+at(id, "/acks"), fmt.Sprintf(`{"taskId":"small","state":{"id":%d}}`, id)), http.StatusOK},
		{completed, newRequest("PUT", l.url+at(id, "/tasks/large/state?ack=true"), killedPart(id, ""), "Content-Type", typeNDJSON), http.StatusOK},
	} {
		if _, ok, err = l.ask(ctx, step.call, step.status); !ok {
			return err
		}
		l.answered()
		l.note(func() {
			l.given[id] = step.reached
			if step.reached == completed {
				l.latest = max(l.latest, id)
			}
		})
	}
	return nil
}

const triggerOfTwo = `{"tasks":["large","small"]}`

// killedPart is more than the store keeps within a record, so that it becomes a file.
func killedPart(id int64, taskID string) string {
	var part strings.Builder
	for line := range 20 {
		fmt.Fprintf(&part, "{%s\"key\":\"%d/%d\",\"value\":\"%s\"}\n", taskID, id, line, strings.Repeat("large", 1000))
	}
	return part.String()
}

// lookAtLatest checks that the latest completed checkpoint is not older than what was
// answered before.
func (l *load) lookAtLatest(ctx context.Context) error {
	var before int64
	l.note(func() { before = l.latest })
	got, ok, err := l.ask(ctx, newRequest("GET", l.url+"/checkpoints/latest", ""), http.StatusOK, http.StatusNotFound)
	if !ok {
		return err
	}
	return l.seeLatest(before, got)
}

func (l *ledger) seeLatest(before int64, got answer) error {
	latest := int64(-1)
	if got.status == http.StatusOK {
		latest = got.message().CheckpointID
	}
	if latest < before {
		return fmt.Errorf("the latest checkpoint went back from %d to %s", before, got)
	}
	l.note(func() { l.latest = max(l.latest, latest) })
	return nil
}

func (l *ledger) note(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// verify looks for everything that was answered in a server that was just started.
func (l *ledger) verify(t *testing.T, p *process) {
	t.Helper()
	if err := l.seeLatest(l.latest, p.call(t, "GET", "/checkpoints/latest", "")); err != nil {
		t.Error(err)
	}
	stored := map[int64]message{}
	for before := ""; ; {
		page := p.must(t, http.StatusOK, "GET", "/checkpoints?limit=1000"+before, "").message()
		for _, c := range page.Checkpoints {
			stored[c.CheckpointID] = c
		}
		if page.Next == "" {
			break
		}
		before = "&before=" + page.Next
	}
	for id, reached := range l.given {
		c, there := stored[id]
		acks := map[progress]int{acknowledged: 1, completed: 2}[reached]
		if l.settled[id] {
			reached = completed
		}
		if !there || c.AcknowledgedTasks < acks || (reached == completed && !c.Completed) {
			t.Errorf("checkpoint %d has come to %d and is now %+v (%v)", id, reached, c, there)
			continue
		}
		if l.settled[id] {
			continue
		}
		if l.settled[id] = c.Completed; c.Completed {
			want := fmt.Sprintf("{\"key\":\"id\",\"value\":%d}\n", id) + killedPart(id, `"taskId":"large",`) +
				fmt.Sprintf("{\"taskId\":\"small\",\"key\":\"id\",\"value\":%d}\n", id)
			same(t, fmt.Sprint("the restore of ", id), p.must(t, http.StatusOK, "GET", at(id, "/restore"), "").body, want)
		} else if reached >= written {
			same(t, fmt.Sprint("the shared state of ", id), p.must(t, http.StatusOK, "GET", at(id, "/state/id"), "").body, fmt.Sprint(id))
		}
	}
	l.repeatKeys(t, p)
	l.settle(t, p)
}

// repeatKeys sends the triggers of the last life again: an answered one must give its id,
// an unanswered one gives an id that was not given to anybody else.
func (l *ledger) repeatKeys(t *testing.T, p *process) {
	t.Helper()
	for key, id := range l.keys {
		got := p.call(t, "POST", "/checkpoints", triggerOfTwo, "Idempotency-Key", key)
		again := got.message().CheckpointID
		switch {
		case id >= 0 && (got.status != http.StatusOK || again != id):
			t.Errorf("the key of %d answers %s", id, got)
		case id < 0 && got.status != http.StatusOK && got.status != http.StatusCreated:
			t.Errorf("a key that was not answered answers %s", got)
		case id < 0:
			if _, twice := l.given[again]; twice {
				t.Errorf("id %d was given twice", again)
			}
			l.given[again] = triggered
		}
	}
	l.keys = map[string]int64{}
}

// settle completes what workers left behind, so that pending ones do not pile up.
func (l *ledger) settle(t *testing.T, p *process) {
	t.Helper()
	for id := range l.given {
		if l.settled[id] {
			continue
		}
		p.must(t, http.StatusOK, "POST", at(id, "/complete?force=true"), "")
		l.settled[id] = true
		l.latest = max(l.latest, id)
	}
}
