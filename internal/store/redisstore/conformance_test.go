package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
	"github.com/checkpointd/checkpointd/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Storage {
		t.Helper()
		server := redistest.Start(t, redistest.Options{})
		return storageOf(server.Client(t), Options{URL: server.URL, KeyPrefix: server.Prefix}, newKeyspace)
	})
}

// storageOf is a storage below a key prefix, for the suite. The client is for what goes around the store.
func storageOf(client redis.UniversalClient, options Options, keysOf func(prefix, job string) keyspace) storetest.Storage {
	return storetest.Storage{
		Replicas: true,
		Open: func(t testing.TB, o storetest.Options) coordinator.Store {
			t.Helper()
			options.Clock, options.Observer = o.Clock, o.Observer
			s, err := New(options)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return s
		},
		Leftovers: func(t testing.TB) []string {
			t.Helper()
			return leftoversOf(t, client, options.KeyPrefix, keysOf)
		},
		Damage: func(t testing.TB, damage storetest.Damage) {
			t.Helper()
			damagePart(t, client, keysOf(options.KeyPrefix, damage.Job), damage)
		},
		Spoil: func(t testing.TB, job string, id int64, kind storetest.SpoilKind) {
			t.Helper()
			spoil(t, client, keysOf(options.KeyPrefix, job), id, kind)
		},
	}
}

// leftovers lists the keys under a prefix that no record, lease or index accounts for.
func leftovers(t testing.TB, client redis.UniversalClient, prefix string) []string {
	t.Helper()
	return leftoversOf(t, client, prefix, newKeyspace)
}

func leftoversOf(t testing.TB, client redis.UniversalClient, prefix string, keysOf func(prefix, job string) keyspace) []string {
	t.Helper()
	keys := keysBelow(t, client, prefix)
	expected := map[string]bool{jobsKey(prefix): true}
	jobs := append(client.SMembers(t.Context(), jobsKey(prefix)).Val(), coordinator.DefaultJob)
	// A deleted job has left the list, and its counters and its log stay.
	for _, key := range keys {
		job, isJob := strings.CutSuffix(strings.TrimPrefix(key, prefix+"{"), "}:job")
		if isJob && client.HGet(t.Context(), key, "gone").Val() == "1" {
			jobs = append(jobs, job)
		}
	}
	var left []string
	for _, job := range jobs {
		j := jobKeys{TB: t, client: client, keyspace: keysOf(prefix, job), expected: expected}
		left = append(left, j.check()...)
	}
	for _, key := range keys {
		if !expected[key] && !strings.Contains(key, "idem:") {
			left = append(left, key)
		}
	}
	return left
}

// keysBelow lists the keys under a prefix in order, on every master of a cluster.
func keysBelow(t testing.TB, client redis.UniversalClient, prefix string) []string {
	t.Helper()
	var mu sync.Mutex
	var keys []string
	scan := func(ctx context.Context, node *redis.Client) error {
		found := node.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for found.Next(ctx) {
			mu.Lock()
			keys = append(keys, found.Val())
			mu.Unlock()
		}
		return found.Err()
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), scan)
	case *redis.Client:
		err = scan(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// jobKeys collects the keys that one job may have.
type jobKeys struct {
	testing.TB
	keyspace
	client   redis.UniversalClient
	expected map[string]bool
	odd      []string
}

func (j *jobKeys) expect(keys ...string) {
	for _, key := range keys {
		j.expected[key] = true
	}
}

func (j *jobKeys) check() []string {
	ctx := j.Context()
	j.expect(j.job(), j.index(), j.pending(), j.deadlines(), j.completed(), j.retained(), j.ended(), j.remains(), j.pinned(), j.attempts(),
		j.events(), j.stats(), j.samples(), j.restores(), j.pulse())
	if token := j.client.HGet(ctx, j.job(), "s_names").Val(); token != "" {
		j.expect(j.tasks(token))
	}
	records := map[string]string{}
	for _, id := range j.client.ZRange(ctx, j.index(), 0, -1).Val() {
		records[id] = j.client.HGet(ctx, j.base+id, "status").Val()
		if records[id] == "" {
			j.odd = append(j.odd, fmt.Sprintf("%s lists %s, which is gone", j.index(), id))
			continue
		}
		j.checkRecord(id, records[id])
	}
	for index, statuses := range map[string]string{
		j.pending(): "pending", j.deadlines(): "pending", j.completed(): "completed", j.retained(): "completed",
		j.ended(): "expired aborted", j.remains(): "expired aborted",
	} {
		for _, id := range j.client.ZRange(ctx, index, 0, -1).Val() {
			if records[id] == "" || !strings.Contains(statuses, records[id]) {
				j.odd = append(j.odd, fmt.Sprintf("%s lists %s, which is %q", index, id, records[id]))
			}
		}
	}
	for _, id := range j.client.SMembers(ctx, j.pinned()).Val() {
		if records[id] == "" {
			j.odd = append(j.odd, fmt.Sprintf("%s lists %s, which is gone", j.pinned(), id))
		}
	}
	return j.odd
}

func (j *jobKeys) checkRecord(id, status string) {
	ctx := j.Context()
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		j.Fatal(err)
	}
	j.expect(j.record(n), j.acks(n), j.acked(n), j.unsorted(n), j.leases(n))
	if token := j.client.HGet(ctx, j.record(n), "tasks").Val(); token != "" {
		j.expect(j.tasks(token), j.missing(token))
	}
	if status == "expired" || status == "aborted" {
		return
	}
	j.expect(j.state(n), j.parts(n))
	if status == "pending" {
		j.expect(j.staged(n))
	}
	for task, text := range j.client.HGetAll(ctx, j.parts(n)).Val() {
		acked := j.client.HExists(ctx, j.acks(n), task).Val()
		staged := j.client.SIsMember(ctx, j.staged(n), task).Val()
		if acked == staged || staged && status != "pending" {
			j.odd = append(j.odd, fmt.Sprintf("%s has a part of %q: acknowledged %t, staged %t, in a %s one", j.parts(n), task, acked, staged, status))
		}
		upload, rest, _ := strings.Cut(text, "|")
		chunks, _, _ := strings.Cut(rest, "|")
		for i := range labNumber(chunks) {
			j.expect(j.chunk(n, upload, int(i)))
		}
	}
}

// damagePart falsifies a record, or the last chunk of a part.
func damagePart(t testing.TB, client redis.UniversalClient, keys keyspace, damage storetest.Damage) {
	t.Helper()
	ctx := t.Context()
	lastChunk := func() string {
		text, err := client.HGet(ctx, keys.parts(damage.ID), damage.TaskID).Result()
		if err != nil {
			t.Fatalf("find the part: %v", err)
		}
		fields := strings.Split(text, "|")
		return keys.chunk(damage.ID, fields[0], int(labNumber(fields[1]))-1)
	}
	var err error
	switch damage.Kind {
	case storetest.NewerVersion:
		err = client.HSet(ctx, keys.record(damage.ID), "version", 2).Err()
	case storetest.LoseLast:
		err = client.Del(ctx, lastChunk()).Err()
	case storetest.Cut:
		key := lastChunk()
		var chunk string
		if chunk, err = client.Get(ctx, key).Result(); err == nil {
			err = client.Set(ctx, key, chunk[:len(chunk)-1], 0).Err()
		}
	}
	if err != nil {
		t.Fatalf("do the damage: %v", err)
	}
}

// spoil makes what is recorded of a checkpoint contradict itself.
func spoil(t testing.TB, client redis.UniversalClient, keys keyspace, id int64, kind storetest.SpoilKind) {
	t.Helper()
	ctx := t.Context()
	var err error
	switch kind {
	case storetest.RecordGone:
		err = client.Del(ctx, keys.record(id)).Err()
	case storetest.RecordCut:
		err = client.HDel(ctx, keys.record(id), "bytes").Err()
	case storetest.RecordNewer:
		err = client.HSet(ctx, keys.record(id), "v", "9").Err()
	case storetest.AckGone:
		err = client.HDel(ctx, keys.acks(id), "a").Err()
	case storetest.TotalChanged:
		err = client.HIncrBy(ctx, keys.record(id), "bytes", 1).Err()
	case storetest.SharedChanged:
		err = client.HSet(ctx, keys.state(id), "s", "12").Err()
	default:
		t.Fatalf("no way to make it so that %s", kind)
	}
	if err != nil {
		t.Fatalf("spoil a record: %v", err)
	}
}
