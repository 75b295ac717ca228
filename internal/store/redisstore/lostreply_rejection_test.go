package redisstore

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// rejection is a state of a server in which it answers that it runs no script that writes.
type rejection struct {
	name   string
	config []string
	// reads is that it answers them so, too. Where strangers is set new connections are given up, so that
	// nothing more is sent.
	reads, strangers bool
	impose           func(t testing.TB, server *redistest.Server, client *redis.Client)
	lift             func(ctx context.Context, client *redis.Client) error
}

func rejectionsOf(t testing.TB) []rejection {
	t.Helper()
	gone := t.TempDir()
	return []rejection{
		{
			// A failover has made the server a replica of one that is not there.
			name: "READONLY", config: []string{"--appendonly", "no"}, reads: true, strangers: true,
			impose: func(t testing.TB, _ *redistest.Server, client *redis.Client) {
				t.Helper()
				must(t, client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
			},
			lift: func(ctx context.Context, client *redis.Client) error {
				return client.Do(ctx, "REPLICAOF", "NO", "ONE").Err()
			},
		},
		{
			// The server has fewer replicas than it is told to have.
			name: "NOREPLICAS", config: []string{"--appendonly", "no"},
			impose: func(t testing.TB, _ *redistest.Server, client *redis.Client) {
				t.Helper()
				must(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
			},
			lift: func(ctx context.Context, client *redis.Client) error {
				return client.ConfigSet(ctx, "min-replicas-to-write", "0").Err()
			},
		},
		{
			// The server has become a replica, and has not heard of its master yet.
			name: "MASTERDOWN", config: []string{"--replica-serve-stale-data", "no"}, reads: true, strangers: true,
			impose: func(t testing.TB, _ *redistest.Server, client *redis.Client) {
				t.Helper()
				must(t, client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
			},
			lift: func(ctx context.Context, client *redis.Client) error {
				return client.Do(ctx, "REPLICAOF", "NO", "ONE").Err()
			},
		},
		{
			// The server cannot write its RDB file.
			name: "MISCONF", config: []string{"--save", "900 1", "--dir", gone},
			impose: func(t testing.TB, _ *redistest.Server, client *redis.Client) {
				t.Helper()
				must(t, os.RemoveAll(gone))
				must(t, client.BgSave(t.Context()).Err())
				waitUntil(t, client, "rdb_last_bgsave_status:err")
			},
			lift: func(ctx context.Context, client *redis.Client) error {
				return client.ConfigSet(ctx, "stop-writes-on-bgsave-error", "no").Err()
			},
		},
		{
			// The server has restarted and reads its file, slowly.
			name: "LOADING", reads: true, config: []string{
				"--save", "900 1", "--rdbcompression", "no", "--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024",
			},
			impose: func(t testing.TB, server *redistest.Server, client *redis.Client) {
				t.Helper()
				fill := "for i = 1, 5000 do redis.call('SET', 'ballast:' .. i, string.rep('x', 500)) end return 1"
				must(t, client.Eval(t.Context(), fill, nil).Err())
				server.Restart(t)
			},
			lift: func(ctx context.Context, client *redis.Client) error {
				return client.ConfigSet(ctx, "key-load-delay", "0").Err()
			},
		},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Every mutating call waits for the server within its budget, and changes nothing.
//
//nolint:paralleltest // Dozens of calls run against their budgets here, which would use up those of other tests.
func TestAServerThatRejectsWrites(t *testing.T) {
	leaveOut(t)
	for _, r := range rejectionsOf(t) {
		t.Run(r.name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Options{Config: r.config})
			client := server.Client(t)
			newCalmLab(t, server).loadScripts()
			var all []*stranded
			for _, m := range mutations() {
				u := watchedOnce(t, m)
				l := newCalmLab(t, server)
				all = append(all, &stranded{lossyLab: l, mutation: m, undisturbed: u, call: m.arrange(l)})
			}
			r.impose(t, server, client)
			var calls sync.WaitGroup
			for _, s := range all {
				s.cutOff()
				s.heard.forget()
				s.wire.count(noFault, -1)
				calls.Go(func() { s.got = s.make(s.call, s.patience()) })
			}
			calls.Wait()
			must(t, r.lift(t.Context(), client))
			waitUntil(t, client, "loading:0")
			for _, s := range all {
				t.Run(s.name, func(t *testing.T) {
					s.TB = t
					s.checkRejected(r)
				})
			}
		})
	}
}

func (s *stranded) checkRejected(r rejection) {
	s.Helper()
	if slices.ContainsFunc(s.got.commands, command.unanswered) {
		s.Skip("this machine is too busy: Redis did not even reject an attempt in time")
	}
	writes := !cmp.Equal(s.steps[0], s.steps[len(s.steps)-1])
	if !writes && (!r.reads || s.got.err == nil && s.err == nil) { // a repeat is told so wherever it is known
		s.same("the refusal", s.got.err, s.err) // it writes nothing
	} else {
		s.refused(s.got.err, coordinator.CodeStoreUnavailable)
		if len(s.got.commands) < 3 && !r.strangers {
			s.Errorf("%d commands were sent: it did not wait", len(s.got.commands))
		}
	}
	s.same("reports", s.heard.sorted(""), []string{})
	s.same("what is stored", s.contents(), s.steps[0])
}

// A rejection that ends while a call waits is not seen by the caller, also of a verb that is
// not sent again after a lost reply.
func TestAServerThatRejectsWritesForAMoment(t *testing.T) {
	t.Parallel()
	for _, r := range rejectionsOf(t) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{Config: r.config})
			client := server.Client(t)
			newCalmLab(t, server).loadScripts()
			for _, m := range mutations() {
				if m.name == "acknowledge with a part" || m.name == "delete a pending one" {
					t.Run(m.name, func(t *testing.T) { rejectForAMoment(t, r, server, client, m) })
				}
			}
		})
	}
}

func rejectForAMoment(t *testing.T, r rejection, server *redistest.Server, client *redis.Client, m mutation) {
	t.Helper()
	u := watchedOnce(t, m)
	l := newCalmLab(t, server)
	c := m.arrange(l)
	r.impose(t, server, client)
	l.cutOff()
	l.wire.after = func(number int) {
		if number == 2 {
			l.ok(r.lift(context.WithoutCancel(t.Context()), client))
		}
	}
	l.wire.count(noFault, -1)
	got := l.make(c, time.Minute)
	waitUntil(t, client, "loading:0")
	if slices.ContainsFunc(got.commands, command.unanswered) {
		t.Skip("this machine is too busy: Redis did not even reject an attempt in time")
	}
	l.same("the refusal", got.err, nil)
	l.same("the answer", got.answer, u.answer)
	l.same("what is stored", l.contents(), u.steps[len(u.steps)-1])
}

// waitUntil polls INFO until it has a line.
func waitUntil(t testing.TB, client *redis.Client, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if text, err := client.Info(ctx, "persistence").Result(); err == nil && strings.Contains(text, "\n"+line+"\r\n") {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("Redis does not get to %s", line)
		}
	}
}
