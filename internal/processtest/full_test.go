package processtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// fullRedis is a Redis that never evicts, and the server on it.
type fullRedis struct {
	*process

	redis  *redis.Client
	prefix string
}

func serveFull(t *testing.T) fullRedis {
	t.Helper()
	where := onRedis(t, "--maxmemory-policy", "noeviction")
	return fullRedis{process: serve(t, where), redis: where.redis.Client(t), prefix: where.redis.Prefix}
}

// limit says how many bytes Redis may have; 0 is as many as it wants.
func (f fullRedis) limit(t *testing.T, bytes int64) {
	t.Helper()
	if err := f.redis.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(bytes)).Err(); err != nil {
		t.Fatal(err)
	}
}

// used is how many bytes Redis has.
func (f fullRedis) used(t *testing.T) int64 {
	t.Helper()
	info, err := f.redis.InfoMap(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	if _, err := fmt.Sscan(info["Memory"]["used_memory"], &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// everything is the content of every key of the server, in a form that can be compared.
func (f fullRedis) everything(t *testing.T) map[string]string {
	t.Helper()
	content := map[string]string{}
	keys := f.redis.Scan(t.Context(), 0, f.prefix+"*", 1000).Iterator()
	for keys.Next(t.Context()) {
		key := keys.Val()
		text, err := f.read(t.Context(), key)
		if errors.Is(err, redis.Nil) {
			continue // the sweep was faster
		}
		if err != nil {
			t.Fatalf("read %q: %v", key, err)
		}
		content[strings.TrimPrefix(key, f.prefix)] = text
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	return content
}

func (f fullRedis) read(ctx context.Context, key string) (string, error) {
	kind, err := f.redis.Type(ctx, key).Result()
	if err != nil {
		return "", err
	}
	switch kind {
	case "string":
		return f.redis.Get(ctx, key).Result()
	case "hash":
		fields, err := f.redis.HGetAll(ctx, key).Result()
		return fmt.Sprint(fields), err // maps print in order
	case "set":
		members, err := f.redis.SMembers(ctx, key).Result()
		slices.Sort(members)
		return fmt.Sprintf("%q", members), err
	case "zset":
		members, err := f.redis.ZRangeWithScores(ctx, key, 0, -1).Result()
		return fmt.Sprintf("%v", members), err
	case "stream":
		events, err := f.redis.XRange(ctx, key, "-", "+").Result()
		return fmt.Sprintf("%v", events), err
	case "list":
		items, err := f.redis.LRange(ctx, key, 0, -1).Result()
		return fmt.Sprintf("%q", items), err
	case "none":
		return "", redis.Nil
	default:
		return "", fmt.Errorf("a %s is none of ours", kind)
	}
}

// changes tells which keys differ.
func changes(before, after map[string]string) []string {
	var found []string
	for key, was := range before {
		if is, there := after[key]; !there {
			found = append(found, key+" is gone")
		} else if is != was {
			found = append(found, fmt.Sprintf("%s was %.300s and is %.300s", key, was, is))
		}
	}
	for key := range maps.Keys(after) {
		if _, was := before[key]; !was {
			found = append(found, fmt.Sprintf("%s is new: %.300s", key, after[key]))
		}
	}
	return found
}

const onePart = `{"key":"k","value":1}` + "\n"

func TestAFullRedisRefusesWritesWholeAndStillFreesMemory(t *testing.T) { //nolint:tparallel // Its parts are steps.
	t.Parallel()
	f := serveFull(t)
	old, latest := f.complete(t), f.trigger(t, `{"requiredTaskAcks":1}`)
	f.must(t, http.StatusCreated, "PUT", at(latest, "/state/shared"), "1.0")
	f.must(t, http.StatusOK, "PUT", at(latest, "/tasks/task-1/state?ack=true"), onePart, "Content-Type", typeNDJSON)
	var pending []int64
	for i := range 4 {
		id := f.trigger(t, fmt.Sprintf(`{"requiredTaskAcks":2,"timeoutMs":0,"pinned":%t}`, i == 0))
		f.must(t, http.StatusCreated, "PUT", at(id, "/state/shared"), "1.0")
		f.must(t, http.StatusOK, "PUT", at(id, "/tasks/task-1/state"), onePart, "Content-Type", typeNDJSON)
		f.acknowledge(t, id, "task-2")
		pending = append(pending, id)
	}
	id := pending[0]

	f.limit(t, 1)
	before := f.everything(t)
	for _, call := range []struct{ method, path, body, mediaType string }{
		{"POST", "/checkpoints", `{"requiredTaskAcks":1}`, typeJSON},
		{"POST", "/checkpoints", `{"tasks":["a","b"]}`, typeJSON},
		{"POST", "/checkpoints?job=new", `{"requiredTaskAcks":1}`, typeJSON},
		{"PUT", "/jobs/default", `{"intervalMs":60000}`, typeJSON},
		{"PUT", "/jobs/new", `{"tasks":["a","b"]}`, typeJSON},
		{"POST", at(id, "/acks"), `{"taskId":"task-1"}`, typeJSON},
		{"POST", at(id, "/acks"), `{"taskId":"task-1","state":{"k":2}}`, typeJSON},
		{"POST", at(id, "/acks"), `{"acks":[{"taskId":"task-1"},{"taskId":"task-3","state":{"k":2}}]}`, typeJSON},
		{"PUT", at(id, "/state/shared"), "2", typeJSON},
		{"PUT", at(id, "/state/other"), "2", typeJSON},
		{"PATCH", at(id, "/state"), `{"state":{"shared":2,"other":2}}`, typeJSON},
		{"PUT", at(id, "/tasks/task-1/state"), onePart, typeNDJSON},
		{"PUT", at(id, "/tasks/task-3/state?ack=true"), onePart, typeNDJSON},
	} {
		f.refused(t, http.StatusInsufficientStorage, "store_full", call.method, call.path, call.body, "Content-Type", call.mediaType)
	}
	f.refused(t, http.StatusInsufficientStorage, "store_full", "POST", "/checkpoints", `{"requiredTaskAcks":1}`, "Idempotency-Key", "while-full")
	for _, change := range changes(before, f.everything(t)) {
		t.Errorf("something was half written: %s", change)
	}

	t.Run("reads go on", func(t *testing.T) {
		f.must(t, http.StatusOK, "GET", "/readyz", "")
		if got := f.must(t, http.StatusOK, "GET", "/checkpoints/latest", "").message(); got.CheckpointID != latest {
			t.Errorf("the latest checkpoint is %+v, want %d", got, latest)
		}
		same(t, "the restore", f.must(t, http.StatusOK, "GET", at(latest, "/restore"), "").body, line("", "shared", "1.0")+line("task-1", "k", "1"))
		for _, path := range []string{"/checkpoints", at(id, ""), at(id, "/tasks"), at(id, "/state"), at(id, "/state/shared"), at(latest, "/manifest"), at(latest, "/snapshot")} {
			f.must(t, http.StatusOK, "GET", path, "")
		}
	})
	f.freesMemory(t, pending, old)

	f.limit(t, 0)
	key := []string{"Idempotency-Key", "while-full"}
	f.must(t, http.StatusCreated, "POST", "/checkpoints", `{"requiredTaskAcks":1}`, key...) // the refusal has not burnt it
	if got := f.acknowledge(t, id, "task-1"); got.Status != "completed" {
		t.Errorf("the part from before was acknowledged, and the checkpoint is %+v", got)
	}
	same(t, "the restore of what was pending", f.must(t, http.StatusOK, "GET", at(id, "/restore"), "").body, line("", "shared", "1.0")+line("task-1", "k", "1"))
}

// freesMemory does what must work because it gives memory back.
func (f fullRedis) freesMemory(t *testing.T, pending []int64, old int64) {
	t.Helper()
	t.Run("abort works", func(t *testing.T) {
		id := pending[1]
		f.must(t, http.StatusOK, "POST", at(id, "/abort"), "")
		f.refused(t, http.StatusConflict, "checkpoint_aborted", "POST", at(id, "/acks"), `{"taskId":"task-1"}`)
		f.gone(t, id)
	})
	t.Run("delete works", func(t *testing.T) {
		id := pending[2]
		f.must(t, http.StatusNoContent, "DELETE", at(id, ""), "")
		f.refused(t, http.StatusNotFound, "checkpoint_deleted", "GET", at(id, ""), "")
		f.gone(t, id)
	})
	var short int64
	t.Run("expiry works", func(t *testing.T) {
		f.limit(t, 0)
		short = f.trigger(t, `{"requiredTaskAcks":1,"timeoutMs":300}`)
		f.must(t, http.StatusCreated, "PUT", at(short, "/state/shared"), "1")
		f.limit(t, 1)
		f.awaitEntry(t, "checkpoint ended", func(e entry) bool {
			return e.Message == "checkpoint ended" && e.CheckpointID == short && e.Status == "expired"
		})
		f.gone(t, short)
	})
	t.Run("cleanup works", func(t *testing.T) {
		got := f.must(t, http.StatusOK, "POST", "/checkpoints/cleanup", `{"keep":1}`).message()
		if want := []int64{old, pending[1], pending[3], short}; !slices.Equal(slices.Sorted(slices.Values(got.Deleted)), want) {
			t.Errorf("the cleanup deleted %v, want %v", got.Deleted, want)
		}
		for _, id := range got.Deleted {
			f.refused(t, http.StatusNotFound, "checkpoint_deleted", "GET", at(id, ""), "")
			f.gone(t, id)
		}
	})
}

// gone waits until a checkpoint has no data any more: the sweep unlinks what nobody names.
func (f fullRedis) gone(t *testing.T, id int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("the data of %d is gone", id), func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(f.everything(t))), func(key string) bool {
			return strings.HasPrefix(key, fmt.Sprintf("%d:part", id)) || key == fmt.Sprintf("%d:state", id)
		})
	})
}

func TestAnUploadThatFillsRedisLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	f := serveFull(t)
	id := f.trigger(t, `{"requiredTaskAcks":1,"timeoutMs":0}`)
	f.must(t, http.StatusOK, "PUT", at(id, "/tasks/task-1/state"), onePart, "Content-Type", typeNDJSON)
	before := f.everything(t)
	f.limit(t, f.used(t)+4<<20)
	upload := newLargePart(12 << 20)
	got, err := request{
		method: "PUT", url: f.url + at(id, "/tasks/task-1/state?ack=true"), body: upload.lines(""),
		header: map[string]string{"Content-Type": typeNDJSON},
	}.send(t.Context())
	if err != nil || got.code() != "store_full" {
		t.Errorf("an upload that is too much for Redis answers %s (%v)", got, err)
	}
	eventually(t, "what was uploaded is gone", func() bool { return len(changes(before, f.everything(t))) == 0 })
	f.acknowledge(t, id, "task-1")
	same(t, "the restore", f.must(t, http.StatusOK, "GET", at(id, "/restore"), "").body, line("task-1", "k", "1"))
}
