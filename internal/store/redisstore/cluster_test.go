package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
	"github.com/checkpointd/checkpointd/internal/store/storetest"
)

// wholeSuites, set to anything, has the whole suite run on a cluster too, and behind sentinels with every change
// waited for.
const wholeSuites = "CHECKPOINTD_TEST_CLUSTER_WHOLE"

// onClusters are the nouns whose rules need several keys, several jobs, or something of the server itself.
var onClusters = []string{"ids", "ack", "upload", "shared state", "restore", "recover", "jobs", "delete job", "schedule", "listen", "sweep"}

// clusterClient goes around the store.
func clusterClient(t testing.TB, c *redistest.Cluster) *redis.ClusterClient {
	t.Helper()
	a, err := parseURL(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: a.hosts})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func ownPrefix() string { return "test-" + strings.ToLower(rand.Text()[:12]) + ":" }

func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	client := clusterClient(t, c)
	nouns := onClusters
	if os.Getenv(wholeSuites) != "" {
		nouns = nil
	}
	storetest.Run(t, func(t testing.TB) storetest.Storage {
		t.Helper()
		return storageOf(client, Options{URL: c.URL(), KeyPrefix: ownPrefix()}, taggedKeyspace)
	}, nouns...)
}

// What is asked about many jobs at once goes to each of the masters that have some of them.
func TestJobsOfAllMasters(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	s := openAt(t, Options{URL: c.URL(), KeyPrefix: c.Prefix})
	masters := map[*redis.Client]bool{}
	for i := range 20 {
		call := aTriggerCall()
		call.Job = fmt.Sprintf("job-%d", i)
		if _, err := s.Trigger(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		node, err := s.client.node(t.Context(), s.keys(call.Job).job())
		if err != nil {
			t.Fatal(err)
		}
		masters[node] = true
	}
	if len(masters) != 3 {
		t.Fatalf("%d masters have the jobs, want 3", len(masters))
	}
	jobs, err := s.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 21 { // and the default one
		t.Errorf("%d jobs, want 21", len(jobs))
	}
	for _, job := range jobs {
		if job.Job != coordinator.DefaultJob && job.NextID != 1 {
			t.Errorf("job %s: next id %d, want 1", job.Job, job.NextID)
		}
	}
	if err := s.client.cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.ScriptFlush(ctx).Err()
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Jobs(t.Context()); err != nil {
		t.Errorf("after every master forgot the scripts: %v", err)
	}
}

// ofSlot gives a job, its slot and the slot's master, and makes the job.
func ofSlot(t testing.TB, c *redistest.Cluster, s *Store, job string) (call coordinator.TriggerCall, slot int) {
	t.Helper()
	call = aTriggerCall()
	call.Job = job
	_, err := s.Trigger(t.Context(), call)
	must(t, err)
	return call, c.Slot(t, s.keys(job).job())
}

func TestACallFollowsASlotThatHasMoved(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	s := openAt(t, Options{URL: c.URL(), KeyPrefix: c.Prefix})
	call, slot := ofSlot(t, c, s, "orders")
	from := c.Master(t, slot)
	for _, to := range c.Nodes[:3] {
		if to == from {
			continue
		}
		c.MoveSlot(t, slot, to)
		if _, err := s.Trigger(t.Context(), call); err != nil {
			t.Errorf("trigger: %v", err)
		}
		if left := keysBelow(t, clusterClient(t, c), c.Prefix+"{orders}:job"); len(left) != 1 {
			t.Errorf("the job is at %d servers", len(left))
		}
	}
}

// Keys of a job lie at two masters while its slot moves. No script may run on a half of them.
//
//nolint:tparallel,paralleltest // The steps of a move come one after another.
func TestNothingRunsOnHalfOfAJob(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	s := openAt(t, Options{URL: c.URL(), KeyPrefix: c.Prefix})
	call, slot := ofSlot(t, c, s, "orders")
	client := clusterClient(t, c)
	from := c.Master(t, slot)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	ref := coordinator.Ref{Job: "orders", ID: 0}
	calls := map[string]func() error{
		"trigger": func() error { _, err := s.Trigger(t.Context(), call); return err },
		"ack": func() error {
			_, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: "orders", ID: 0, Items: []coordinator.AckItem{{TaskID: "a"}}})
			return err
		},
		"complete": func() error {
			_, err := s.Complete(t.Context(), coordinator.CompleteCall{Job: "orders", ID: 0, Force: true})
			return err
		},
		"get": func() error { _, err := s.Get(t.Context(), ref); return err },
		"write": func() error {
			_, err := s.WriteShared(t.Context(), coordinator.SharedWrite{
				Job: "orders", ID: 0, Op: coordinator.SharedPut,
				Entries: []coordinator.SharedEntry{{Key: "k", Value: []byte("1")}},
			})
			return err
		},
	}
	before := dumps(t, client, c.Prefix)
	move, gone := c.BeginMove(t, slot, to), 0
	for _, moved := range []int{0, len(before) / 2, len(before) - 1} {
		for gone < moved {
			gone += move.Keys(t, 1)
		}
		t.Run(fmt.Sprintf("after %d of its keys have moved", moved), func(t *testing.T) {
			var sent sync.WaitGroup
			for what, call := range calls {
				sent.Go(func() {
					soon(t, what, func() { wantCode(t, what, call(), coordinator.CodeStoreUnavailable) })
				})
			}
			sent.Wait()
			if diff := cmp.Diff(before, dumps(t, client, c.Prefix)); diff != "" {
				t.Errorf("something was written (-before +after):\n%s", diff)
			}
		})
	}
	move.Finish(t)
	for _, what := range []string{"write", "ack", "get", "trigger"} {
		if err := calls[what](); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// dumps are all values below a prefix, wherever they are.
func dumps(t testing.TB, client *redis.ClusterClient, prefix string) map[string]string {
	t.Helper()
	var mu sync.Mutex
	found := map[string]string{}
	must(t, client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys := keysBelow(t, node, prefix)
		for _, key := range keys {
			pipe := node.Pipeline()
			pipe.Do(ctx, "ASKING")
			dump := pipe.Dump(ctx, key)
			if _, err := pipe.Exec(ctx); err != nil {
				return fmt.Errorf("DUMP %s: %w", key, err)
			}
			mu.Lock()
			found[key] = dump.Val()
			mu.Unlock()
		}
		return nil
	}))
	return found
}

func TestTheOtherMastersServeOnWhileOneIsReplaced(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Config: []string{"--cluster-require-full-coverage", "no", "--appendonly", "yes"}})
	s := openAt(t, Options{URL: c.URL(), KeyPrefix: c.Prefix})
	lists := c.Master(t, c.Slot(t, jobsKey(c.Prefix)))
	var lost *redistest.Server
	var gone, there coordinator.TriggerCall
	var slot int
	for i := 0; gone.Job == "" || there.Job == ""; i++ {
		call, at := ofSlot(t, c, s, fmt.Sprintf("job-%d", i))
		if master := c.Master(t, at); master != lists && (lost == nil || lost == master) {
			lost, gone, slot = master, call, at
		} else {
			there = call
		}
	}
	c.AwaitInSync(t)
	if diff := cmp.Diff([]string{}, codes(t, s)); diff != "" {
		t.Errorf("warnings:\n%s", diff)
	}
	lost.Kill(t)
	_, err := s.Trigger(t.Context(), gone)
	if code := coordinator.CodeOf(err); code != coordinator.CodeStoreUnavailable && code != coordinator.CodeOutcomeUnknown {
		t.Errorf("a trigger at the lost master: %v", err)
	}
	if _, err := s.Trigger(t.Context(), there); err != nil {
		t.Errorf("a trigger at another: %v", err)
	}
	if diff := cmp.Diff([]string{WarnClusterPart}, codes(t, s)); diff != "" {
		t.Errorf("warnings:\n%s", diff)
	}
	c.AwaitFailover(t, slot, lost)
	result, err := s.Trigger(t.Context(), gone)
	if err != nil || result.Checkpoint.ID != 1001 {
		t.Errorf("after the failover: id %d, want 1001; %v", result.Checkpoint.ID, err)
	}
}

// A cluster that has lost a slot answers nobody until somebody has it again.
func TestACallWaitsForAClusterThatIsDown(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	s := openAt(t, Options{URL: c.URL(), KeyPrefix: c.Prefix})
	call, slot := ofSlot(t, c, s, "orders")
	other := (slot + 1) % 16384
	owner := c.Master(t, other)
	client := clusterClient(t, c)
	before := dumps(t, client, c.Prefix)
	for _, node := range c.Nodes {
		must(t, node.Client(t).Do(t.Context(), "CLUSTER", "DELSLOTS", other).Err())
	}
	awaitClusterDown(t, c.Master(t, slot).Client(t))
	for what, code := range map[string]func() error{
		"trigger": func() error { _, err := s.Trigger(t.Context(), call); return err },
		"delete": func() error {
			return s.Delete(t.Context(), coordinator.DeleteCall{Job: "orders", ID: 0, Force: true})
		},
		"health": func() error { _, err := s.Health(t.Context()); return err },
	} {
		wantCode(t, what, code(), coordinator.CodeStoreUnavailable)
	}
	for _, node := range c.Nodes[:3] {
		if node == owner {
			must(t, node.Client(t).Do(t.Context(), "CLUSTER", "ADDSLOTS", other).Err())
		}
	}
	c.AwaitOK(t)
	if diff := cmp.Diff(before, dumps(t, client, c.Prefix)); diff != "" {
		t.Errorf("something was written (-before +after):\n%s", diff)
	}
	if _, err := s.Trigger(t.Context(), call); err != nil {
		t.Errorf("trigger: %v", err)
	}
}

// awaitClusterDown polls until a node answers no key any more.
func awaitClusterDown(t testing.TB, client *redis.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !strings.Contains(client.ClusterInfo(ctx).Val(), "cluster_state:fail") {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatal("the cluster goes on")
		}
	}
}
