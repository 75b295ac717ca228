package processtest

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// answeredWithin is how long a trigger may take whatever Redis does.
const answeredWithin = 2 * time.Second

// refusesAll checks that a server whose store is away says so, in time, and never "none yet".
func refusesAll(t *testing.T, p *process) {
	t.Helper()
	p.must(t, http.StatusOK, "GET", "/healthz", "")
	var all sync.WaitGroup
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/checkpoints", `{"requiredTaskAcks":1}`},
		{"GET", "/checkpoints/latest", ""},
		{"GET", "/checkpoints/latest/restore", ""},
		{"GET", "/checkpoints/0", ""},
		{"GET", "/checkpoints", ""},
		{"PUT", "/checkpoints/0/state/key", "1"},
		{"POST", "/checkpoints/0/acks", `{"taskId":"late"}`},
		{"POST", "/checkpoints/recover", ""},
		{"GET", "/readyz", ""},
	} {
		all.Go(func() {
			began := time.Now()
			got, err := newRequest(call.method, p.url+call.path, call.body).send(t.Context())
			took := time.Since(began)
			// A change that was on its way when Redis went may have been made.
			known := got.code() == "store_unavailable" || call.method != "GET" && got.code() == "outcome_unknown"
			if err != nil || got.status != http.StatusServiceUnavailable || !known || took > answeredWithin {
				t.Errorf("%s %s without a store answers %s after %s (%v)", call.method, call.path, got, took, err)
			}
			if got.header.Get("Retry-After") == "" || !strings.Contains(got.message().Detail, "storage") {
				t.Errorf("%s %s does not say what is wrong and when to come again: %v %s", call.method, call.path, got.header, got)
			}
		})
	}
	all.Wait()
}

// ready waits until a server serves requests again.
func (p *process) ready(t *testing.T) {
	t.Helper()
	eventually(t, "the server is ready", func() bool { return p.call(t, "GET", "/readyz", "").status == http.StatusOK })
}

// above triggers on each server and fails when an id is not higher than all before. It
// gives the highest.
func above(t *testing.T, highest int64, servers ...*process) int64 {
	t.Helper()
	for _, p := range servers {
		id := p.trigger(t, `{"requiredTaskAcks":1}`)
		if id <= highest {
			t.Errorf("id %d was given after %d", id, highest)
		}
		highest = max(highest, id)
	}
	return highest
}

func TestAServerStartsWithoutRedisAndGoesOnWithHigherIDsWhenItIsBack(t *testing.T) {
	t.Parallel()
	where := onRedis(t, "--appendonly", "yes")
	before := serve(t, where)
	before.complete(t)
	highest := above(t, before.complete(t), before)
	before.kill()
	where.redis.Stop(t)

	p := serve(t, where)
	refusesAll(t, p)
	where.redis.Start(t)
	p.ready(t)
	highest = above(t, highest, p)
	if got := p.must(t, http.StatusOK, "GET", "/checkpoints/latest", "").message(); got.CheckpointID != 1 {
		t.Errorf("the latest checkpoint was 1 and is now %+v", got)
	}

	// Now it goes away under a server that runs, in good order and as kill -9 does.
	for _, end := range []func(testing.TB){where.redis.Stop, where.redis.Kill} {
		end(t)
		refusesAll(t, p)
		where.redis.Start(t)
		p.ready(t)
		highest = above(t, highest, p)
	}
	if got := p.must(t, http.StatusOK, "GET", "/checkpoints/latest", "").message(); got.CheckpointID != 1 {
		t.Errorf("the latest checkpoint was 1 and is now %+v", got)
	}
}

func TestARedisThatHangsIsAnsweredForInTime(t *testing.T) {
	t.Parallel()
	where := onRedis(t)
	p := serve(t, where)
	id := p.complete(t)
	where.redis.Pause(t)
	refusesAll(t, p)
	where.redis.Resume(t)
	p.ready(t)
	above(t, id, p)
	if got := p.must(t, http.StatusOK, "GET", "/checkpoints/latest", "").message(); got.CheckpointID != id {
		t.Errorf("the latest checkpoint was %d and is now %+v", id, got)
	}
}

func TestIDsGoOnAboveAllOthersWhenRedisWasEmptiedBehindRunningServers(t *testing.T) {
	t.Parallel()
	where := onRedis(t)
	a, b := serve(t, where), serve(t, where)
	highest := above(t, -1, b, a, a, a)
	for name, empty := range map[string]func(){
		"emptied": func() {
			if err := where.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		},
		"killed without persistence": func() {
			where.redis.Kill(t)
			where.redis.Start(t)
		},
	} {
		empty()
		a.ready(t)
		b.ready(t)
		// B may know of its own ids only, and still gives higher ones than A has given.
		highest = above(t, highest, b, a)
		if got := a.call(t, "GET", "/checkpoints/latest", ""); got.code() != "no_completed_checkpoint" {
			t.Errorf("the latest one of a Redis that was %s is %s", name, got)
		}
		if t.Failed() {
			t.Fatalf("after Redis was %s", name)
		}
	}
}

// Nobody listens at the Redis of this server. Left alone it would wait for it for half a minute and fail then.
func TestAServerThatWaitsToAdoptHeedsTheSignalToStop(t *testing.T) {
	t.Parallel()
	p := launch(t, "--listen", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1", "--adopt")
	p.await(t, "waiting for Redis, to adopt before serving")
	p.signal(t, syscall.SIGTERM)
	if code := p.exitCode(t); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	p.await(t, "checkpointd stopped")
}
