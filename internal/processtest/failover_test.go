package processtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// How often a master is killed under load, and how long a load goes on before and after. At
// full scale, as make failover has it: CHECKPOINTD_FAILOVERS=20.
const failoversVariable = "CHECKPOINTD_FAILOVERS"

// nodeTimeout is after how long of silence a master is taken for dead: long enough that a busy
// machine does not keep one silent that lives.
const nodeTimeout = 2 * time.Second

// throne is a Redis with more than one node, of which the one that serves can be killed.
type throne struct {
	place place
	// fall kills a master, waits until another node is in its place, and starts the killed one
	// again as its replica. It gives how long the place was empty.
	fall func(t testing.TB) time.Duration
}

var thrones = map[string]func(t testing.TB) throne{
	"sentinel": func(t testing.TB) throne {
		t.Helper()
		s := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: nodeTimeout})
		return throne{place: redisAt(s.URL(), s.Prefix), fall: func(t testing.TB) time.Duration {
			t.Helper()
			master := s.Master(t)
			began := time.Now()
			master.Kill(t)
			s.AwaitFailover(t, master)
			took := time.Since(began)
			master.Start(t)
			s.AwaitQuorum(t)
			s.AwaitInSync(t)
			return took
		}}
	},
	"cluster": func(t testing.TB) throne {
		t.Helper()
		c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: nodeTimeout})
		return throne{place: redisAt(c.URL(), c.Prefix), fall: func(t testing.TB) time.Duration {
			t.Helper()
			slot := rand.IntN(redistest.Slots)
			master := c.Master(t, slot)
			began := time.Now()
			master.Kill(t)
			c.AwaitFailover(t, slot, master)
			took := time.Since(began)
			master.Start(t)
			c.AwaitOK(t)
			c.AwaitInSync(t)
			return took
		}}
	},
}

func redisAt(url, prefix string) place {
	return place{flags: []string{"--redis", url, "--key-prefix", prefix}}
}

func TestAMasterThatDiesUnderLoadLosesNothingThatAReplicaHad(t *testing.T) {
	t.Parallel()
	falls := setting(t, failoversVariable, 1)
	for name, open := range thrones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := open(t)
			flags := append(underLoad(), "--redis-min-replicas", "1")
			a, b := serve(t, on.place, flags...), serve(t, on.place, flags...)
			force := newWorkforce(t, a, b)
			force.work(t, func() {
				for fall := range falls {
					force.goOn(t)
					took := on.fall(t)
					force.goOn(t)
					t.Logf("fall %d: another master after %s", fall+1, took.Round(time.Millisecond))
				}
			})
			force.verify(t)
			force.report(t, falls)
		})
	}
}

// 200 workers: so many jobs, of so many tasks each.
const (
	forceJobs  = 40
	forceTasks = 5
)

// workforce is workers of many jobs, and what they were answered.
type workforce struct {
	servers []*process

	mu        sync.Mutex
	given     map[string]map[int64]bool // by job
	completed map[string]map[int64]bool
	refused   map[string]int // how often by code, or "no answer"
	triggered map[string]time.Time
	// longest is the longest time of any job without a successful trigger, silence that of
	// all jobs together.
	longest, silence time.Duration
	last             time.Time
	progress         chan struct{} // closed and replaced at each completion
}

func newWorkforce(t testing.TB, servers ...*process) *workforce {
	t.Helper()
	return &workforce{
		servers: servers, given: map[string]map[int64]bool{}, completed: map[string]map[int64]bool{}, refused: map[string]int{},
		triggered: map[string]time.Time{}, progress: make(chan struct{}),
	}
}

// work lets all workers work while f runs.
func (w *workforce) work(t *testing.T, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	var workers sync.WaitGroup
	for n := range forceJobs {
		workers.Go(func() { w.job(ctx, t, fmt.Sprintf("job-%d", n), over) })
	}
	// Also when f ends the test.
	defer func() {
		cancel()
		workers.Wait()
	}()
	f()
	close(over)
	workers.Wait()
}

// pace is how often a job triggers when all is well.
const pace = time.Second

// job takes one checkpoint after the other until it is over.
func (w *workforce) job(ctx context.Context, t *testing.T, job string, over <-chan struct{}) {
	t.Helper()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		id, ok := w.trigger(ctx, t, job)
		if !ok {
			return
		}
		var tasks sync.WaitGroup
		for task := range forceTasks {
			tasks.Go(func() { w.acknowledge(ctx, t, job, id, fmt.Sprintf("task-%d", task)) })
		}
		tasks.Wait()
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// insist makes a call at any server until one answers anything but that it cannot now.
func (w *workforce) insist(ctx context.Context, call func(server string) request) (answer, bool) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		got, err := call(w.servers[rand.IntN(len(w.servers))].url).send(ctx)
		switch {
		case ctx.Err() != nil:
			return answer{}, false
		case err != nil:
			w.note(func() { w.refused["no answer"]++ })
		case got.status != http.StatusServiceUnavailable:
			return got, true
		default:
			w.note(func() { w.refused[got.code()]++ })
		}
		select {
		case <-ctx.Done():
			return answer{}, false
		case <-again.C:
		}
	}
}

// trigger gives the id of a new checkpoint, which nobody must have been given before.
func (w *workforce) trigger(ctx context.Context, t *testing.T, job string) (int64, bool) {
	t.Helper()
	w.note(func() {
		if w.triggered[job].IsZero() {
			w.triggered[job] = time.Now()
		}
	})
	got, ok := w.insist(ctx, func(server string) request {
		return newRequest("POST", server+"/checkpoints?job="+job, fmt.Sprintf(`{"requiredTaskAcks":%d}`, forceTasks))
	})
	if !ok {
		return 0, false
	}
	if got.status != http.StatusCreated {
		t.Errorf("a trigger of %s answers %s", job, got)
		return 0, false
	}
	id := got.message().CheckpointID
	w.note(func() {
		if w.given[job] == nil {
			w.given[job] = map[int64]bool{}
		}
		if w.given[job][id] {
			t.Errorf("id %d of %s was given twice", id, job)
		}
		w.given[job][id] = true
		now := time.Now()
		w.longest = max(w.longest, now.Sub(w.triggered[job]))
		if !w.last.IsZero() {
			w.silence = max(w.silence, now.Sub(w.last))
		}
		w.triggered[job], w.last = now, now
	})
	return id, true
}

func (w *workforce) acknowledge(ctx context.Context, t *testing.T, job string, id int64, task string) {
	t.Helper()
	got, ok := w.insist(ctx, func(server string) request {
		return newRequest("POST", server+at(id, "/acks")+"?job="+job, fmt.Sprintf(`{"taskId":%q,"state":%s}`, task, stateOf(id, task)))
	})
	if !ok {
		return
	}
	if got.status != http.StatusOK {
		t.Errorf("%s acknowledges checkpoint %d of %s, which was answered before, and is answered %s", task, id, job, got)
		return
	}
	if got.message().Status != "completed" {
		return
	}
	w.note(func() {
		if w.completed[job] == nil {
			w.completed[job] = map[int64]bool{}
		}
		w.completed[job][id] = true
		close(w.progress)
		w.progress = make(chan struct{})
	})
}

func stateOf(id int64, task string) string {
	return fmt.Sprintf(`{"of":"%d/%s","state":%q}`, id, task, strings.Repeat("s", 100))
}

// goOn waits until more checkpoints of every job have completed.
func (w *workforce) goOn(t *testing.T) {
	t.Helper()
	before := map[string]int{}
	w.note(func() {
		for job, ids := range w.completed {
			before[job] = len(ids)
		}
	})
	deadline := time.After(6 * patience)
	for {
		behind, progress := 0, (chan struct{})(nil)
		w.note(func() {
			progress = w.progress
			for n := range forceJobs {
				job := fmt.Sprintf("job-%d", n)
				if len(w.completed[job]) < before[job]+2 {
					behind++
				}
			}
		})
		if behind == 0 {
			return
		}
		select {
		case <-progress:
		case <-deadline:
			t.Fatalf("%d jobs do not go on; refused were %v", behind, w.refusals())
		}
	}
}

func (w *workforce) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *workforce) refusals() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.refused)
}

// verify looks for every checkpoint that was answered as completed, and at the latest of each job.
func (w *workforce) verify(t *testing.T) {
	t.Helper()
	server := w.servers[0]
	for job, ids := range w.completed {
		there := map[int64]bool{}
		for before := ""; ; {
			page := server.must(t, http.StatusOK, "GET", "/checkpoints?status=completed&limit=1000&job="+job+before, "").message()
			for _, found := range page.Checkpoints {
				there[found.CheckpointID] = true
			}
			if page.Next == "" {
				break
			}
			before = "&before=" + page.Next
		}
		for id := range ids {
			if !there[id] {
				t.Errorf("checkpoint %d of %s was answered as completed and is gone", id, job)
			}
		}
		order := slices.Sorted(maps.Keys(ids))
		highest := order[len(order)-1]
		latest := server.must(t, http.StatusOK, "GET", "/checkpoints/latest?job="+job, "").message().CheckpointID
		if latest < highest {
			t.Errorf("the latest of %s is %d, and %d was answered as completed", job, latest, highest)
		}
		for _, id := range []int64{order[0], order[rand.IntN(len(order))], highest} {
			w.restore(t, job, id)
		}
	}
}

// restore checks every byte of a completed checkpoint.
func (w *workforce) restore(t *testing.T, job string, id int64) {
	t.Helper()
	var want strings.Builder
	for n := range forceTasks {
		task := fmt.Sprintf("task-%d", n)
		var state struct{ Of, State string }
		if err := json.Unmarshal([]byte(stateOf(id, task)), &state); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "{\"taskId\":%q,\"key\":\"of\",\"value\":%q}\n{\"taskId\":%q,\"key\":\"state\",\"value\":%q}\n", task, state.Of, task, state.State)
	}
	got := w.servers[len(w.servers)-1].must(t, http.StatusOK, "GET", at(id, "/restore")+"?job="+job, "").body
	same(t, fmt.Sprintf("the restore of checkpoint %d of %s", id, job), got, want.String())
}

// report tells the figures of docs/reliability.md.
func (w *workforce) report(t *testing.T, falls int) {
	t.Helper()
	given, completed := 0, 0
	for _, ids := range w.given {
		given += len(ids)
	}
	for _, ids := range w.completed {
		completed += len(ids)
	}
	t.Logf("%d masters killed: %d triggers answered, no id twice; %d completions answered, all there; the longest stretch of a job without a trigger was %s, of all jobs %s; not answered at first: %v",
		falls, given, completed, w.longest.Round(time.Millisecond), w.silence.Round(time.Millisecond), w.refusals())
}
