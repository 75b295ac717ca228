package redisstore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
	"github.com/checkpointd/checkpointd/internal/store/storetest"
)

// The rules hold behind sentinels; and with every change waited for, where the machine has time for it.
func TestConformanceBehindSentinels(t *testing.T) {
	t.Parallel()
	minReplicas := 0
	if os.Getenv(wholeSuites) != "" {
		minReplicas = 2
	}
	s := redistest.StartSentinel(t, redistest.SentinelOptions{})
	client := s.Nodes[0].Client(t)
	storetest.Run(t, func(t testing.TB) storetest.Storage {
		t.Helper()
		return storageOf(client, Options{URL: s.URL(), KeyPrefix: ownPrefix(), MinReplicas: minReplicas}, newKeyspace)
	}, "trigger", "ack", "bulk ack", "upload", "complete", "shared state", "restore")
}

// Every change that no replica has is answered so, is there, is reported once, and waits again when it is repeated.
//
//nolint:paralleltest // Dozens of calls run against their budgets here, which would use up those of other tests.
func TestAChangeWithoutReplicas(t *testing.T) {
	leaveOut(t)
	server := redistest.Start(t, redistest.Options{})
	var all []*stranded
	for _, m := range mutations() {
		u := watchedOnce(t, m)
		if at := slices.IndexFunc(u.commands, waitsForReplicas); at >= 0 {
			l := newCalmLab(t, server)
			all = append(all, &stranded{lossyLab: l, mutation: m, undisturbed: u, at: at, call: m.arrange(l)})
		}
	}
	each := func(f func(s *stranded)) {
		for some := range slices.Chunk(all, 16) {
			var calls sync.WaitGroup
			for _, s := range some {
				calls.Go(func() { f(s) })
			}
			calls.Wait()
		}
	}
	each(func(s *stranded) {
		s.begin(noFault, -1)
		s.lossyLab.store.minReplicas = 1
		s.got = s.make(s.call, s.patience())
	})
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			s.TB = t
			s.skipIfBusy()
			s.refused(s.got.err, coordinator.CodeNotReplicated)
			s.same("what is stored", s.besidesThePulse(), s.steps[s.at+1])
			attempts := len(s.got.commands) - s.at
			if s.is(onceVerbs) && attempts != 1 || s.is(tokenVerbs) && attempts < 2 {
				s.Errorf("%d attempts at %s", attempts, s.verb())
			}
			if s.at == len(s.commands)-1 && s.is(tokenVerbs) && !s.unheard {
				s.same("reported ends", s.heard.sorted("ended"), s.ended)
			}
			s.heardAtMost(s.undisturbed)
		})
	}
	each(func(s *stranded) {
		s.TB = t
		s.begin(noFault, -1)
		s.got = s.make(s.call, s.patience())
	})
	for _, s := range all {
		if len(s.commands) > s.at+1 || s.at > 0 && s.verb() == commitUploadScript.verb {
			continue // its steps before the last one are not made again as they were
		}
		t.Run(s.name+", repeated", func(t *testing.T) {
			s.TB = t
			s.skipIfBusy()
			s.refused(s.got.err, coordinator.CodeNotReplicated)
		})
	}
}

func (s *stranded) skipIfBusy() {
	s.Helper()
	if slices.ContainsFunc(s.got.commands, command.unanswered) {
		s.Skip("this machine is too busy: Redis did not answer an attempt in time")
	}
}

func waitsForReplicas(c command) bool {
	return slices.Contains(tokenVerbs, c.verb) || slices.Contains(onceVerbs, c.verb)
}

// besidesThePulse is what is stored but for what only the wait has written.
func (s *stranded) besidesThePulse() contents {
	s.Helper()
	for _, job := range []string{s.job, coordinator.DefaultJob} {
		s.ok(s.redis.Del(s.Context(), newKeyspace(s.server.Prefix, job).pulse()).Err())
	}
	return s.contents()
}

func TestAcknowledgementsThatTravelTogetherWaitForReplicas(t *testing.T) {
	t.Parallel()
	// Nobody is taken for dead here, however busy the machine is.
	s := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: time.Minute})
	master := s.Nodes[0]
	store := openAt(t, Options{URL: master.URL, KeyPrefix: s.Prefix, MinReplicas: 1})
	ids := []int64{}
	for range 8 {
		ids = append(ids, triggerAtLast(t, store))
	}
	// 32 callers for eight checkpoints, so that most of them share a round trip with others.
	acknowledge := func(acknowledge func(id int64) error) {
		t.Helper()
		var callers sync.WaitGroup
		for i := range 32 {
			callers.Go(func() {
				if err := acknowledge(ids[i%len(ids)]); err != nil {
					t.Errorf("acknowledgement %d: %v", i, err)
				}
			})
		}
		callers.Wait()
	}
	confirmed := func(id int64) error { return atLast(t, func() error { return ackOf(t, store, id) }) }
	acknowledge(confirmed)
	master.Cut(t)
	acknowledge(func(id int64) error {
		err := ackOf(t, store, id)
		if code := coordinator.CodeOf(err); code == coordinator.CodeNotReplicated || code == coordinator.CodeOutcomeUnknown { // on a busy machine
			return nil
		}
		return fmt.Errorf("without replicas: %w", err)
	})
	for _, id := range ids {
		if _, err := store.Get(t.Context(), coordinator.Ref{Job: coordinator.DefaultJob, ID: id}); err != nil {
			t.Errorf("a read waits for replicas: %v", err)
		}
	}
	if got := codes(t, store); !slices.Contains(got, WarnReplicas) {
		t.Errorf("warnings %q have nothing about replicas", got)
	}
	master.Heal(t)
	acknowledge(confirmed)
}

// atLast makes a call until the machine is quick enough for it.
func atLast(t testing.TB, call func() error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := call()
		switch coordinator.CodeOf(err) {
		case coordinator.CodeNotReplicated, coordinator.CodeOutcomeUnknown, coordinator.CodeStoreUnavailable:
			if ctx.Err() == nil {
				continue
			}
		default:
		}
		return err
	}
}

func triggerAtLast(t testing.TB, s *Store) (id int64) {
	t.Helper()
	must(t, atLast(t, func() error {
		result, err := s.Trigger(t.Context(), aTriggerCall())
		id = result.Checkpoint.ID
		return err
	}))
	return id
}

func ackOf(t testing.TB, s *Store, id int64) error {
	t.Helper()
	_, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{{TaskID: "a"}}})
	return err
}

// From Redis 7.2 on WAIT is over at once after a script that wrote nothing. The write before it is sent with every change.
func TestTheWaitFollowsAWriteInTheSameRoundTrip(t *testing.T) {
	t.Parallel()
	l := newLossyLab(t, redistest.Start(t, redistest.Options{}))
	sent := &pipelines{}
	l.store.client.AddHook(sent)
	l.store.minReplicas = 1
	_, err := l.store.Complete(l.Context(), coordinator.CompleteCall{Job: l.job, ID: l.pendingNow(), Force: true, Token: l.token()})
	if err == nil {
		l.Error("there is no replica, and the call was answered")
	}
	l.same("the first pipeline", sent.sent[0], []string{"evalsha", "eval", "wait"})
	for _, names := range sent.sent[1:] {
		l.same("what follows the script", names[1:], []string{"eval", "wait"})
	}
	if len(sent.sent) < 2 {
		l.Errorf("%d pipelines, want at least two", len(sent.sent))
	}
	l.same("the write", l.exists(l.keys.pulse()), true)
}

// pendingNow makes a checkpoint without waiting for replicas.
func (l *lossyLab) pendingNow() int64 {
	l.Helper()
	replicas := l.store.minReplicas
	defer func() { l.store.minReplicas = replicas }()
	l.store.minReplicas = 0
	return l.pending(1)
}

// pipelines is a hook that notes the commands of each pipeline.
type pipelines struct{ sent [][]string }

// DialHook leaves dialing alone.
func (*pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook leaves lone commands alone.
func (*pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook notes a pipeline that waits.
func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		if slices.Contains(names, "wait") {
			p.sent = append(p.sent, names)
		}
		return next(ctx, cmds)
	}
}

// A full server refuses the write before WAIT no more than it refuses to free memory.
func TestAFullServerStillConfirms(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	client := server.Client(t)
	must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	keys := newKeyspace(server.Prefix, "orders")
	if err := client.Eval(t.Context(), pulse, []string{keys.void(), keys.pulse()}).Err(); err != nil {
		t.Error(err)
	}
}

// What was confirmed by a replica outlives the master.
func TestWhatReplicasHaveIsThereAfterAFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: 300 * time.Millisecond})
	store := openAt(t, Options{URL: s.URL(), KeyPrefix: s.Prefix, MinReplicas: 2})
	var ids []int64
	for range 20 {
		id := triggerAtLast(t, store)
		must(t, atLast(t, func() error { return ackOf(t, store, id) }))
		ids = append(ids, id)
	}
	master := s.Master(t)
	master.Kill(t)
	s.AwaitFailover(t, master)
	for _, id := range ids {
		checkpoint, err := store.Get(t.Context(), coordinator.Ref{Job: coordinator.DefaultJob, ID: id})
		if err != nil || checkpoint.Status != coordinator.StatusCompleted {
			t.Errorf("checkpoint %d is %s, %v", id, checkpoint.Status, err)
		}
	}
}
