package redisstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// durabilityRuns is how often TestWhatIsLost kills a server in each setting: its table is in
// docs/durability.md. It takes minutes, so it is run by whoever sets it.
const durabilityRuns = "CHECKPOINTD_DURABILITY_RUNS"

// setting is a Redis, and what happens to it while workers complete checkpoints.
type setting struct {
	name string
	// nothing is that nothing may be lost.
	nothing bool
	// begin gives the options to reach it, and how it dies and comes back.
	begin func(t testing.TB) (options Options, die, comeBack func())
}

// settings are the rows of the table.
func settings() []setting {
	return []setting{
		{name: "appendfsync always", nothing: true, begin: alone("--appendonly", "yes", "--appendfsync", "always")},
		{name: "appendfsync everysec", begin: alone("--appendonly", "yes", "--appendfsync", "everysec")},
		{name: "appendfsync no", begin: alone("--appendonly", "yes", "--appendfsync", "no")},
		{name: "RDB every 2 s", begin: alone("--save", "2 1")},
		{name: "nothing persisted", begin: alone()},
		{name: "sentinels, master killed", begin: watched(0, false)},
		{name: "sentinels, master cut off for 200 ms, then killed", begin: watched(0, true)},
		{name: "sentinels, min-replicas 1, master killed", nothing: true, begin: watched(1, false)},
		{name: "sentinels, min-replicas 1, master cut off for 200 ms, then killed", nothing: true, begin: watched(1, true)},
		{name: "cluster, master killed", begin: clustered(0, false)},
		{name: "cluster, master cut off for 200 ms, then killed", begin: clustered(0, true)},
		{name: "cluster, min-replicas 1, master cut off for 200 ms, then killed", nothing: true, begin: clustered(1, true)},
	}
}

func alone(config ...string) func(t testing.TB) (Options, func(), func()) {
	return func(t testing.TB) (Options, func(), func()) {
		t.Helper()
		server := redistest.Start(t, redistest.Options{Own: true, Config: config})
		return Options{URL: server.URL, KeyPrefix: server.Prefix}, func() { server.Kill(t) }, func() { server.Start(t) }
	}
}

// cutFor is how long a master that is cut off goes on.
const cutFor = 200 * time.Millisecond

func watched(minReplicas int, cut bool) func(t testing.TB) (Options, func(), func()) {
	return func(t testing.TB) (Options, func(), func()) {
		t.Helper()
		s := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: 500 * time.Millisecond})
		master := s.Master(t)
		die := func() { cutAndKill(t, master, cut) }
		return Options{URL: s.URL(), KeyPrefix: s.Prefix, MinReplicas: minReplicas}, die, func() { s.AwaitFailover(t, master) }
	}
}

func clustered(minReplicas int, cut bool) func(t testing.TB) (Options, func(), func()) {
	return func(t testing.TB) (Options, func(), func()) {
		t.Helper()
		c := redistest.StartCluster(t, redistest.ClusterOptions{})
		slot := c.Slot(t, taggedKeyspace(c.Prefix, coordinator.DefaultJob).job())
		master := c.Master(t, slot)
		die := func() { cutAndKill(t, master, cut) }
		return Options{URL: c.URL(), KeyPrefix: c.Prefix, MinReplicas: minReplicas}, die, func() { c.AwaitFailover(t, slot, master) }
	}
}

func cutAndKill(t testing.TB, master *redistest.Server, cut bool) {
	t.Helper()
	if cut {
		master.Cut(t)
		<-time.After(cutFor)
	}
	master.Kill(t)
}

// TestWhatIsLost counts the completed checkpoints that workers were told of and that are not there after a kill -9.
//
//nolint:paralleltest // What is measured is one Redis on this machine.
func TestWhatIsLost(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv(durabilityRuns))
	if err != nil {
		t.Skipf("set %s to a number of runs", durabilityRuns)
	}
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			confirmed, lost, runsWithLoss, most := 0, 0, 0, 0
			oldest := time.Duration(0)
			for range runs {
				t.Run("run", func(t *testing.T) {
					r := loseSome(t, s)
					confirmed, lost, most = confirmed+r.confirmed, lost+r.lost, max(most, r.lost)
					oldest = max(oldest, r.oldest)
					if r.lost > 0 {
						runsWithLoss++
					}
				})
			}
			fmt.Printf("| %s | %d | %d | %d | %d | %d | %d ms |\n", s.name, runs, confirmed, lost, runsWithLoss, most, oldest.Milliseconds())
			if s.nothing && lost > 0 {
				t.Errorf("%d checkpoints are lost", lost)
			}
		})
	}
}

// loss is what one kill took.
type loss struct {
	confirmed, lost int
	// oldest is how long before the kill the first of those was confirmed that are lost.
	oldest time.Duration
}

func loseSome(t testing.TB, s setting) loss {
	t.Helper()
	options, die, comeBack := s.begin(t)
	store := openAt(t, options)
	triggerAtLast(t, store)
	var mu sync.Mutex
	done := map[int64]time.Time{}
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				result, err := store.Trigger(t.Context(), aTriggerCall())
				if err != nil {
					continue
				}
				id := result.Checkpoint.ID
				if ackOf(t, store, id) == nil {
					mu.Lock()
					done[id] = time.Now()
					mu.Unlock()
				}
			}
		})
	}
	<-time.After(time.Second + rand.N(2*time.Second))
	die()
	killed := time.Now()
	close(stop)
	workers.Wait()
	comeBack()
	kept := completedOf(t, openAt(t, options))
	r := loss{confirmed: len(done)}
	for id, at := range done {
		if !kept[id] {
			r.lost++
			r.oldest = max(r.oldest, killed.Sub(at))
		}
	}
	return r
}

// completedOf are the ids of all completed checkpoints of the default job.
func completedOf(t testing.TB, s *Store) map[int64]bool {
	t.Helper()
	found := map[int64]bool{}
	for before := int64(-1); ; {
		var page coordinator.ListResult
		must(t, atLast(t, func() (err error) {
			page, err = s.List(t.Context(), coordinator.ListCall{Job: coordinator.DefaultJob, Status: coordinator.StatusCompleted, Before: before, Limit: 1000})
			return err
		}))
		for _, checkpoint := range page.Checkpoints {
			found[checkpoint.ID] = true
		}
		if before = page.Next; before < 0 {
			return found
		}
	}
}
