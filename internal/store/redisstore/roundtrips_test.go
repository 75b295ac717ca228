package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// tripped is an operation of the store, and what it costs on connections that are open, with scripts that
// Redis knows.
type tripped struct {
	verb string // the method of coordinator.Store
	what string // which call of it, as the table in docs/performance.md says
	// arrange prepares a fresh job.
	arrange func(l *lossyLab) call
	trips   int
	sent    map[string]int // commands by name
}

// oneScript is an operation of one script in one round trip.
func oneScript(verb, what string, arrange func(l *lossyLab) call) tripped {
	return tripped{verb, what, arrange, 1, map[string]int{"evalsha": 1}}
}

// mutationNamed takes the arrangement of a mutation.
func mutationNamed(t *testing.T, name string) func(l *lossyLab) call {
	t.Helper()
	for _, m := range mutations() {
		if m.name == name {
			return m.arrange
		}
	}
	t.Fatalf("there is no mutation %q", name)
	return nil
}

// reading arranges a call about a completed checkpoint.
func reading(read func(ctx context.Context, s *Store, ref coordinator.Ref) error) func(l *lossyLab) call {
	return func(l *lossyLab) call {
		ref := l.ref(l.completed())
		return func(ctx context.Context) (any, error) { return nil, read(ctx, l.store, ref) }
	}
}

// none is for methods that are no operations; the value says why.
var none = map[string]string{
	"Alive":  "asks nothing",
	"Listen": "waits on a connection of its own and asks nothing",
	"Close":  "closes connections",
}

func operations(t *testing.T) []tripped {
	t.Helper()
	type sent = map[string]int
	named := func(name string) func(l *lossyLab) call { return mutationNamed(t, name) }
	return slices.Concat(
		[]tripped{
			oneScript("Trigger", "trigger", named("trigger")),
			{"Trigger", "first trigger of a job", named("first trigger of a job"), 4, sent{"evalsha": 2, "sadd": 2}},
			{"Trigger", "trigger that names 2 500 tasks", namedTasks(2500), 6, sent{"evalsha": 4, "sadd": 2}},
			oneScript("TriggerIfDue", "trigger by schedule", named("tick that triggers")),
			oneScript("Acknowledge", "acknowledgement", named("acknowledge")),
			oneScript("Acknowledge", "bulk of 64 acknowledgements", bulkOf(64)),
			oneScript("Acknowledge", "acknowledgement that completes", bulkOf(1)),
			oneScript("Complete", "complete", named("complete by hand")),
			oneScript("Abort", "abort, decline", named("decline")),
			oneScript("Extend", "extend", named("extend")),
			oneScript("Update", "update", named("update")),
			oneScript("Delete", "delete", named("delete a completed one")),
			oneScript("Cleanup", "cleanup, each step", named("a step of a cleanup")),
			oneScript("Recover", "recover", named("recover")),
			oneScript("WriteShared", "write of shared state", named("put shared entries")),
		},
		[]tripped{
			oneScript("Get", "get", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.Get(ctx, ref)
				return err
			})),
			oneScript("Get", "latest", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.Get(ctx, coordinator.Ref{Job: ref.Job, ID: coordinator.Latest})
				return err
			})),
			oneScript("List", "list of 20", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.List(ctx, coordinator.ListCall{Job: ref.Job, Before: -1, Limit: 20})
				return err
			})),
			oneScript("Tasks", "tasks", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.Tasks(ctx, coordinator.TasksCall{Ref: ref, Limit: 100})
				return err
			})),
			oneScript("Task", "task", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.Task(ctx, ref, "a")
				return err
			})),
			oneScript("SharedState", "shared state", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.SharedState(ctx, ref)
				return err
			})),
			oneScript("SharedEntry", "shared entry", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.SharedEntry(ctx, ref, "offsets")
				return err
			})),
			oneScript("Events", "events", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.Events(ctx, coordinator.EventsCall{Job: ref.Job, After: new(coordinator.EventID), Limit: 100})
				return err
			})),
			oneScript("History", "statistics", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
				_, err := s.History(ctx, ref.Job)
				return err
			})),
		},
		transfers(named), aboutJobs(named),
	)
}

// transfers are uploads and restores.
func transfers(named func(string) func(l *lossyLab) call) []tripped {
	type sent = map[string]int
	return []tripped{
		oneScript("BeginUpload", "begin of an upload", func(l *lossyLab) call {
			c := l.uploadCall(l.pending(1), "up")
			return func(ctx context.Context) (any, error) { return l.store.BeginUpload(ctx, c) }
		}),
		{"BeginUpload", "upload of 3 chunks with its acknowledgement", uploadOf(3), 5, sent{"evalsha": 5, "multi": 3, "set": 3, "exec": 3}},
		{"OpenRestore", "first restore of a checkpoint, opened", named("open a restore"), 6, sent{"evalsha": 3, "hkeys": 1, "hmget": 1, "strlen": 1}},
		{"OpenRestore", "the same, read to the end of its one chunk, and released", restoreOfOne, 8, sent{"evalsha": 4, "hkeys": 1, "hmget": 1, "strlen": 1, "get": 1}},
		oneScript("OpenRestore", "renewal of a restore's lease", named("renew the lease of a restore")),
		oneScript("SaveDigest", "digest of a manifest", named("save a digest")),
		oneScript("MarkDamaged", "mark of a damaged checkpoint", named("mark a checkpoint as damaged")),
		oneScript("RecordRestore", "record of a restore", named("record a restore of bytes")),
		oneScript("Import", "each step of an import", func(l *lossyLab) call {
			l.ok(l.store.Import(l.Context(), coordinator.ImportCall{Step: coordinator.ImportOpen, Job: l.job}))
			begin := coordinator.ImportCall{Step: coordinator.ImportBegin, Job: l.job, Checkpoint: coordinator.Checkpoint{ID: 3}, LeaseMs: 60_000, Token: "import"}
			return func(ctx context.Context) (any, error) { return nil, l.store.Import(ctx, begin) }
		}),
	}
}

func aboutJobs(named func(string) func(l *lossyLab) call) []tripped {
	type sent = map[string]int
	jobs := func(n int, settled bool, f func(ctx context.Context, s *Store) error) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			l.idle(n)
			if settled {
				l.settle(l.store, newTap(l.TB, l.store))
				_, err := l.store.Jobs(l.Context())
				l.ok(err)
			}
			return func(ctx context.Context) (any, error) { return nil, f(ctx, l.store) }
		}
	}
	list := func(ctx context.Context, s *Store) error {
		_, err := s.Jobs(ctx)
		return err
	}
	sweep := func(ctx context.Context, s *Store) error { return s.Sweep(ctx, coordinator.SweepCall{}) }
	return []tripped{
		{"Jobs", "jobs, 999 at which nothing happens", jobs(999, true, list), 3, sent{"smembers": 1, "hmget": 1000, "evalsha": 1}},
		{"Jobs", "jobs, 999 for the first time", jobs(999, false, list), 14, sent{"smembers": 1, "hmget": 1000, "evalsha": 1002}},
		{"Sweep", "sweep of 999 jobs at which nothing happens", jobs(999, true, sweep), 3, sent{"smembers": 1, "hmget": 1000, "evalsha": 1}},
		{"Sweep", "sweep with something to do in one job", named("a sweep"), 4, sent{"smembers": 1, "hmget": 2, "evalsha": 4}},
		oneScript("Job", "job", reading(func(ctx context.Context, s *Store, ref coordinator.Ref) error {
			_, err := s.Job(ctx, ref.Job)
			return err
		})),
		{"Job", "job whose settings name tasks", func(l *lossyLab) call {
			_, err := l.store.PutJob(l.Context(), coordinator.PutJobCall{
				Job: l.job, Settings: coordinator.JobSettings{Tasks: []string{"a"}, NamedTasks: 1}, Defaults: labDefaults(),
			})
			l.ok(err)
			return func(ctx context.Context) (any, error) { return l.store.Job(ctx, l.job) }
		}, 2, sent{"evalsha": 1, "zrange": 1}},
		oneScript("PutJob", "settings of a job", named("settings in place of others")),
		oneScript("DeleteJob", "deletion of a job, each step", named("delete a job")),
		oneScript("ForgetTask", "task forgotten", named("forget a task")),
		{"Health", "health", func(l *lossyLab) call {
			_, err := l.store.Health(l.Context())
			l.ok(err)
			return func(ctx context.Context) (any, error) { return l.store.Health(ctx) }
		}, 1, sent{"evalsha": 1, "info": 2}},
	}
}

func namedTasks(n int) func(l *lossyLab) call {
	return func(l *lossyLab) call {
		l.pending(1)
		c := aTriggerCall()
		c.Job, c.RequiredTaskAcks = l.job, 0
		for i := range n {
			c.Tasks = append(c.Tasks, fmt.Sprintf("task-%d", i))
		}
		return func(ctx context.Context) (any, error) { return l.store.Trigger(ctx, c) }
	}
}

// bulkOf acknowledges for so many tasks in one call, which completes the checkpoint.
func bulkOf(n int) func(l *lossyLab) call {
	return func(l *lossyLab) call {
		c := coordinator.AckCall{Job: l.job, ID: l.pending(n), Token: theToken}
		for i := range n {
			c.Items = append(c.Items, coordinator.AckItem{TaskID: fmt.Sprintf("task-%d", i)})
		}
		return func(ctx context.Context) (any, error) { return l.store.Acknowledge(ctx, c) }
	}
}

func uploadOf(chunks int) func(l *lossyLab) call {
	return func(l *lossyLab) call {
		all := string(content(chunks * coordinator.ChunkBytes))
		id := l.pending(1)
		return func(ctx context.Context) (any, error) {
			u := l.beginUpload(ctx, id, "up")
			for index := range chunks {
				l.ok(u.WriteChunk(ctx, index, []byte(all[index*coordinator.ChunkBytes:(index+1)*coordinator.ChunkBytes])))
			}
			// They go side by side, each in a round trip of its own.
			return u.Commit(ctx, coordinator.CommitCall{Part: partInfo(all), Ack: true})
		}
	}
}

func restoreOfOne(l *lossyLab) call {
	c := l.restoreCall(l.completed())
	return func(ctx context.Context) (any, error) {
		source, err := l.store.OpenRestore(ctx, c)
		if err != nil {
			return nil, err
		}
		for i, part := range source.Parts() {
			if _, err := source.ReadAt(ctx, i, make([]byte, part.Bytes), 0); err != nil {
				return nil, err
			}
		}
		return nil, source.Release(ctx)
	}
}

// meter counts round trips of a store where they happen: something was written to a connection, and then it
// is read. A pipeline is one.
type meter struct {
	trips atomic.Int64
}

// DialHook counts on each connection.
func (m *meter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &meteredConn{Conn: conn, meter: m}, nil
	}
}

// ProcessHook leaves commands alone.
func (*meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook leaves them alone, too.
func (*meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// meteredConn is written and read in turn, by whoever has it from the pool.
type meteredConn struct {
	net.Conn

	meter   *meter
	written bool
}

// Write begins a round trip, unless it is of the handshake of a new connection.
func (c *meteredConn) Write(p []byte) (int, error) {
	c.written = !bytes.Contains(p, []byte("\r\nhello\r\n")) && !bytes.Contains(p, []byte("\r\nclient\r\n")) &&
		!bytes.HasPrefix(p, []byte("*2\r\n$4\r\ninfo\r\n"))
	return c.Conn.Write(p)
}

// Read ends it.
func (c *meteredConn) Read(p []byte) (int, error) {
	if c.written {
		c.written = false
		c.meter.trips.Add(1)
	}
	return c.Conn.Read(p)
}

func TestRoundTripsOfEachOperation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	all := operations(t)
	counted := map[string]string{} // rows of the table by what
	for _, o := range all {
		l := newCalmLab(t, server)
		wire := &meter{}
		l.store.client.AddHook(wire)
		l.loadScripts()
		c := o.arrange(l)
		counter := newTap(t, l.store)
		wire.trips.Store(0)
		_, err := c(t.Context())
		l.ok(err)
		trips, sent := int(wire.trips.Load()), counter.counted()
		if n := sent[proveScript.verb]; n > 0 {
			sent["evalsha"] += n
			delete(sent, proveScript.verb)
		}
		delete(sent, "hello")
		delete(sent, "client")
		if trips != o.trips || !maps.Equal(sent, o.sent) {
			t.Errorf("%s: %d round trips with %v, want %d with %v", o.what, trips, sent, o.trips, o.sent)
		}
		counted[o.what] = fmt.Sprintf("| %s | %d | %s |", o.what, trips, commandsText(sent))
	}
	rows := make([]string, 0, len(all))
	for _, o := range all {
		rows = append(rows, counted[o.what])
	}
	text, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, documentedRows(string(text))); diff != "" {
		t.Errorf("the table in docs/performance.md (-counted +documented):\n%s\nIt should be:\n%s", diff, strings.Join(rows, "\n"))
	}
}

func TestEachOperationHasItsRoundTripsCounted(t *testing.T) {
	t.Parallel()
	has := map[string]bool{}
	for _, o := range operations(t) {
		has[o.verb] = true
	}
	for method := range reflect.TypeFor[coordinator.Store]().Methods() {
		if !has[method.Name] && none[method.Name] == "" {
			t.Errorf("the round trips of %s are not counted", method.Name)
		}
	}
}

// loadScripts makes Redis know all of them. Not in a pipeline: go-redis would take the missing reply for
// the script's hash.
func (l *lossyLab) loadScripts() {
	l.Helper()
	for _, sc := range scripts {
		l.ok(sc.text.Load(l.Context(), l.redis).Err())
	}
}

// commandsText is "2 EVALSHA, 1 SADD".
func commandsText(sent map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		parts = append(parts, fmt.Sprintf("%d %s", sent[name], strings.ToUpper(name)))
	}
	return strings.Join(parts, ", ")
}

// documentedRows are those of the table of round trips.
func documentedRows(text string) []string {
	_, text, _ = strings.Cut(text, "\n| operation | round trips | commands |\n|---|---|---|\n")
	table, _, _ := strings.Cut(text, "\n\n")
	return strings.Split(table, "\n")
}
