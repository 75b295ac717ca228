package redisstore

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// refusing is a Redis that answers, and does not do what it is asked.
type refusing struct {
	config []string
	// url makes the URL of the store from the server's address.
	url func(addr string) string
	// impose has the server refuse, after the store has used it.
	impose func(t testing.TB, client *redis.Client)
	says   string
}

func refusals(t testing.TB) map[string]refusing {
	t.Helper()
	plainly := func(addr string) string { return "redis://" + addr }
	asUser := func(addr string) string { return "redis://worker:pw@" + addr }
	do := func(commands ...string) func(testing.TB, *redis.Client) {
		return func(t testing.TB, client *redis.Client) {
			t.Helper()
			for _, command := range commands {
				var args []any
				for word := range strings.FieldsSeq(command) {
					args = append(args, word)
				}
				must(t, client.Do(t.Context(), args...).Err())
			}
		}
	}
	user := []string{"--user", "worker", "on", ">pw", "~*", "&*", "+@all"}
	gone := t.TempDir()
	return map[string]refusing{
		"the password is wrong":     {config: user, url: func(addr string) string { return "redis://worker:other@" + addr }, says: "password in --redis is wrong"},
		"no password is given":      {url: plainly, impose: do("CONFIG SET requirepass secret", "CLIENT KILL TYPE normal"), says: "wants a password"},
		"the user was switched off": {config: user, url: asUser, impose: do("ACL SETUSER worker off", "CLIENT KILL TYPE normal"), says: "switched off"},
		"scripts are forbidden":     {config: user, url: asUser, impose: do("ACL SETUSER worker -@scripting"), says: "may not run a command"},
		"writes are forbidden":      {config: user, url: asUser, impose: do("ACL SETUSER worker -@write"), says: "may not run a command"},
		"its keys are forbidden":    {config: user, url: asUser, impose: do("ACL SETUSER worker resetkeys ~other:*"), says: "may not touch a key"},
		"EVAL was renamed":          {config: []string{"--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""}, url: plainly, says: "does not know a command"},
		"there is no such database": {url: func(addr string) string { return "redis://" + addr + "/99" }, says: "database"},
		"it cannot write its file": {config: []string{"--save", "900 1", "--dir", gone}, url: plainly, impose: func(t testing.TB, client *redis.Client) {
			t.Helper()
			must(t, os.RemoveAll(gone))
			must(t, client.BgSave(t.Context()).Err())
			waitUntil(t, client, "rdb_last_bgsave_status:err")
		}, says: "MISCONF"},
		"it misses replicas":          {url: plainly, impose: do("CONFIG SET min-replicas-to-write 1"), says: "min-replicas-to-write"},
		"it became a replica":         {url: plainly, impose: do("REPLICAOF 127.0.0.1 1"), says: "replica"},
		"it never heard its master":   {config: []string{"--replicaof", "127.0.0.1 1"}, url: plainly, says: "replica"},
		"a writable one of that kind": {config: []string{"--replicaof", "127.0.0.1 1", "--replica-read-only", "no"}, url: plainly, says: "does not hear its master"},
	}
}

// Who is refused by Redis hears what it refuses, from every call and from readiness alike, and never that there is nothing, that
// the server failed, or that the storage does not answer.
func TestWhatRedisRefusesIsSaid(t *testing.T) {
	t.Parallel()
	for name, r := range refusals(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{Own: true, Config: r.config})
			s := openAt(t, Options{URL: r.url(server.Addr), KeyPrefix: server.Prefix})
			if r.impose != nil {
				trigger(t, s)
				if _, err := s.Health(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.impose(t, server.Client(t))
			}
			_, unhealthy := s.Health(t.Context())
			_, untriggered := s.Trigger(t.Context(), aTriggerCall())
			all := map[string]error{"health": unhealthy, "trigger": untriggered}
			if name != "it misses replicas" && name != "it cannot write its file" && name != "writes are forbidden" { // where reads of what is there go on
				_, all["get"] = s.Get(t.Context(), coordinator.Ref{Job: coordinator.DefaultJob, ID: coordinator.Latest})
				_, all["jobs"] = s.Jobs(t.Context())
				all["sweep"] = s.Sweep(t.Context(), coordinator.SweepCall{})
			}
			for what, err := range all {
				wantCode(t, what, err, coordinator.CodeStoreUnavailable)
				if text := detailOf(err); !strings.Contains(text, "Redis refuses: ") || !strings.Contains(text, r.says) || strings.Contains(text, "does not answer") {
					t.Errorf("%s says %q, want something about %q", what, text, r.says)
				}
			}
		})
	}
}

func detailOf(err error) string {
	if cause, known := coordinator.CauseOf(err); known {
		return cause.Says
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// The connection of a pipeline cannot be set up, since the password has changed: go-redis leaves its commands
// without error and without value then, and who reads one would take it for an answer.
func TestAPipelineWithoutAConnectionFailsWholeWhereverOneIsSent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	client := server.Client(t)
	l := newCalmLab(t, server)
	s := l.store
	completed := l.completed()
	pending := l.pending(2)
	upload := l.beginUpload(l.Context(), pending, "up")
	open, err := s.OpenRestore(l.Context(), l.restoreCall(completed))
	l.ok(err)
	restored, ok := open.(*restore)
	if !ok {
		t.Fatalf("a restore is a %T", open)
	}
	must(t, client.ConfigSet(t.Context(), "requirepass", "another").Err())
	node := s.client.server
	for what, call := range map[string]func() error{
		"health":                func() error { _, err := s.Health(t.Context()); return err },
		"configuration":         func() error { _, err := factsOf(t.Context(), node); return err },
		"state":                 func() error { _, err := stateOf(t.Context(), node, ""); return err },
		"names of jobs":         func() error { _, err := s.jobNames(t.Context()); return err },
		"glance":                func() error { _, err := s.look(t.Context(), []string{"orders"}); return err },
		"states of jobs":        func() error { _, err := s.askJobs(t.Context(), []string{"orders"}); return err },
		"deadlines":             func() error { return s.findLate(t.Context(), node, []candidate{{job: "orders"}}, []int{0}) },
		"sweep":                 func() error { return s.Sweep(t.Context(), coordinator.SweepCall{}) },
		"checkpoints of others": func() error { _, err := s.glanceAtForeign(t.Context(), []int64{1}); return err },
		"chunk":                 func() error { return upload.writeChunk(t.Context(), 0, []byte("x\n")) },
		"lengths of chunks": func() error {
			return restored.checkLengths(t.Context(), l.keys.job(), []expectedChunk{{name: l.keys.chunk(completed, "up", 0), length: 1}})
		},
		"shared state": func() error {
			_, _, err := s.sharedAtRevision(t.Context(), coordinator.Checkpoint{Job: "orders", ID: pending})
			return err
		},
		"proof": func() error { _, err := proven(t.Context(), node, l.keys.job(), nil); return err },
		"change that waits for replicas": func() error {
			s.minReplicas = 1
			defer func() { s.minReplicas = 0 }()
			err := s.deliver(t.Context(), node, redis.NewCmd(t.Context(), "evalsha", proveScript.text.Hash(), 1, l.keys.job(), ""), l.keys.job(), true)
			return err
		},
	} {
		must(t, cutAll(t, server))
		err := call()
		_, isReply := err.(redis.Error) //nolint:errorlint // Where nobody has judged it yet.
		if code := coordinator.CodeOf(err); err == nil || code != coordinator.CodeStoreUnavailable && !isReply {
			t.Errorf("%s without a connection: %v", what, err)
		}
	}
	must(t, cutAll(t, server))
	together := s.sweepTogether(t.Context(), []candidate{{job: "orders"}}, "0|0|0")
	if together[0] != nil {
		t.Errorf("a sweep without a connection was answered %+v", together[0])
	}
	g := &ackGroup{}
	g.job, g.id = "orders", pending
	q := &queuedAck{call: coordinator.AckCall{Job: "orders", ID: pending, Token: "token", Items: []coordinator.AckItem{{TaskID: "a", Attempt: 1}}}, done: make(chan struct{}, 1)}
	g.calls, g.items = []*queuedAck{q}, 1
	g.pack(s)
	must(t, cutAll(t, server))
	s.carryTogether(t.Context(), []ackParcel{{groups: []*ackGroup{g}}})
	<-q.done
	wantCode(t, "an acknowledgement without a connection", q.err, coordinator.CodeStoreUnavailable)
}

// cutAll ends all connections but its own.
func cutAll(t testing.TB, server *redistest.Server) error {
	t.Helper()
	options := *server.Client(t).Options()
	options.Password = "another"
	client := redis.NewClient(&options)
	defer func() { _ = client.Close() }()
	return client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err()
}
