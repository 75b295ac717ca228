package processtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// How often the address moves, and how often a password changes. At full scale, as make moving-address and make rotation have
// it: 20.
const (
	movesVariable     = "CHECKPOINTD_MOVES"
	rotationsVariable = "CHECKPOINTD_ROTATIONS"
)

// How long readiness and triggers may contradict each other, and how long all may take to go on after a password is right
// again. CI has busy machines, where only a multiple of it is a fault.
const (
	agreedWithin  = 2 * time.Second
	resumedWithin = 2 * time.Second
)

// bound is such a time, stretched where nobody asked for the long form.
func bound(asked string, within time.Duration) time.Duration {
	if os.Getenv(asked) != "" {
		return within
	}
	return 5 * within
}

// contradiction asks for readiness after each trigger, and notes for how long the two said different things.
type contradiction struct {
	began   time.Time // zero while they agree
	longest time.Duration
	// told is what they said at the end of the longest.
	told string
	// pairs are how many answers were compared.
	pairs int
}

// run asks every 100 ms until ctx ends. It has a job of its own.
func (c *contradiction) run(ctx context.Context, server string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		trigger, err := newRequest("POST", server+"/checkpoints?job=watched", `{"requiredTaskAcks":1}`).send(ctx)
		if err == nil {
			var ready answer
			if ready, err = newRequest("GET", server+"/readyz", "").send(ctx); err == nil {
				c.compare(trigger, ready)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *contradiction) compare(trigger, ready answer) {
	c.pairs++
	now := time.Now()
	if (trigger.status < http.StatusInternalServerError) == (ready.status < http.StatusInternalServerError) {
		c.began = time.Time{}
		return
	}
	if c.began.IsZero() {
		c.began = now
	}
	if lasted := now.Sub(c.began); lasted >= c.longest {
		c.longest, c.told = lasted, fmt.Sprintf("a trigger %s and readiness %s", trigger, ready)
	}
}

// steady takes a checkpoint with a part that was uploaded, again and again, and notes what it was answered.
type steady struct {
	mu sync.Mutex
	// completed are the checkpoints that were answered as completed, highest is the last of them.
	completed map[int64]bool
	highest   int64
	// triggered and uploaded are when each was last answered with success.
	triggered, uploaded time.Time
	// unexpected is what must never be answered.
	unexpected []string
}

// beat is how often a checkpoint is taken.
const beat = 500 * time.Millisecond

func (s *steady) run(ctx context.Context, server string) {
	s.completed = map[int64]bool{}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.checkpoint(ctx, server)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (s *steady) checkpoint(ctx context.Context, server string) {
	made, err := newRequest("POST", server+"/checkpoints", `{"requiredTaskAcks":1}`).send(ctx)
	if !s.answered(err, made, http.StatusCreated, &s.triggered) {
		return
	}
	id := made.message().CheckpointID
	part := fmt.Sprintf("{\"key\":\"k\",\"value\":\"%d\"}\n", id)
	put := newRequest("PUT", server+at(id, "/tasks/task-1/state?ack=true"), part)
	put.header = map[string]string{"Content-Type": "application/x-ndjson"}
	got, err := put.send(ctx)
	if s.answered(err, got, http.StatusOK, &s.uploaded) {
		s.mu.Lock()
		s.completed[id], s.highest = true, max(s.highest, id)
		s.mu.Unlock()
	}
}

// answered notes a success. A failover may refuse, and may have taken back what was asked for.
func (s *steady) answered(err error, got answer, want int, at *time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return false
	case got.status == want:
		*at = time.Now()
		return true
	case got.status != http.StatusServiceUnavailable && got.status != http.StatusNotFound && got.status != http.StatusConflict:
		s.unexpected = append(s.unexpected, got.String())
	}
	return false
}

// since waits until both triggers and uploads were answered after a moment, and gives how far apart they resumed.
func (s *steady) since(t *testing.T, moment time.Time) time.Duration {
	t.Helper()
	var apart time.Duration
	eventually(t, "triggers and uploads go on", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		apart = s.uploaded.Sub(s.triggered).Abs()
		return s.triggered.After(moment) && s.uploaded.After(moment)
	})
	return apart
}

// A Redis is reached by an address that is moved to its replica, while connections to the former master stay open, which lives on
// as a replica that is cut off. What it lacks must not be taken for lost.
func TestAnAddressThatMovesMarksNothingAsDamaged(t *testing.T) {
	t.Parallel()
	for _, livesOn := range []bool{true, false} {
		t.Run(map[bool]string{true: "the former master lives on", false: "the former master dies"}[livesOn], func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t, redistest.Options{Own: true})
			replica := redistest.Start(t, redistest.Options{Config: master.ReplicaConfig()})
			door := redistest.OpenDoor(t, master)
			p := serve(t, redisAt(door.URL, master.Prefix), "--checkpoints-to-keep", "0",
				"--checkpoint-timeout", "10s", "--max-concurrent-checkpoints", "1000")
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			work := &steady{}
			watch := &contradiction{}
			running.Go(func() { work.run(ctx, p.url) })
			running.Go(func() { watch.run(ctx, p.url) })
			defer func() { cancel(); running.Wait() }()
			work.since(t, time.Now())
			for range setting(t, movesVariable, 2) {
				master.AwaitInSync(t, replica)
				work.since(t, time.Now())
				moved := time.Now()
				replica.Promote(t)
				door.Move(replica)
				master.FollowNobody(t)
				if !livesOn {
					master.Kill(t)
				}
				apart := work.since(t, moved.Add(time.Second))
				t.Logf("triggers and uploads went on %s apart", apart)
				// Readiness says what triggers hear.
				ready := p.call(t, "GET", "/readyz", "")
				if ready.status != http.StatusOK {
					t.Errorf("triggers are answered, and readiness is %s", ready)
				}
				confirmed := work.confirmed(moved.Add(time.Second))
				recovered := p.must(t, http.StatusOK, "GET", "/checkpoints/latest", "").message().CheckpointID
				if recovered < confirmed {
					t.Errorf("the latest is %d, and %d was completed", recovered, confirmed)
				}
				p.must(t, http.StatusOK, "GET", "/checkpoints/latest/restore", "")
				// A fleet that goes back goes back to the newest that this master has, not to one that it once had.
				confirmed = work.confirmed(moved.Add(time.Second))
				back := p.must(t, http.StatusOK, "POST", "/checkpoints/recover", "")
				if to := back.message().Checkpoint; to == nil || to.CheckpointID < confirmed {
					t.Errorf("a fleet recovers to %s, and %d was completed", back, confirmed)
				}
				if !livesOn {
					master.Start(t)
				}
				master.Follow(t, replica)
				master, replica = replica, master
			}
			cancel()
			running.Wait()
			for sample, value := range p.metrics(t) {
				if strings.HasPrefix(sample, "checkpointd_damage_found_total") && value != "0" {
					t.Errorf("%s is %s", sample, value)
				}
			}
			listed := p.must(t, http.StatusOK, "GET", "/checkpoints?status=completed&limit=1000", "").body
			if strings.Contains(listed, `"damage"`) {
				t.Errorf("a checkpoint is marked: %s", listed)
			}
			t.Logf("readiness and triggers contradicted each other for %s at most, in %d pairs", watch.longest.Round(time.Millisecond), watch.pairs)
			if allowed := bound(movesVariable, agreedWithin); watch.pairs == 0 || watch.longest > allowed {
				t.Errorf("for %s, want at most %s: %s", watch.longest, allowed, watch.told)
			}
			if len(work.unexpected) > 0 {
				t.Errorf("not answered 2xx, 404, 409 or 503: %v", work.unexpected)
			}
		})
	}
}

// confirmed is the highest checkpoint that was answered as completed, if any was after a moment; -1 is none.
func (s *steady) confirmed(after time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uploaded.Before(after) {
		return -1
	}
	return s.highest
}

// The password of a Redis changes under load, and changes back: 503 while it is wrong, and then all goes on.
func TestAPasswordThatChangesUnderLoadIsARefusal(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{Own: true, Config: []string{"--appendonly", "yes"}})
	p := serve(t, redisAt(redis.URL, redis.Prefix))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	work := &steady{}
	running.Go(func() { work.run(ctx, p.url) })
	defer func() { cancel(); running.Wait() }()
	admin := redis.Client(t)
	lasting := admin.Conn() // it stays authenticated
	defer func() { _ = lasting.Close() }()
	for round := range setting(t, rotationsVariable, 3) {
		work.since(t, time.Now())
		if err := lasting.ConfigSet(t.Context(), "requirepass", fmt.Sprintf("secret-%d", round)).Err(); err != nil {
			t.Fatal(err)
		}
		if err := lasting.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "readiness says what Redis refuses", func() bool {
			return strings.Contains(p.call(t, "GET", "/readyz", "").body, "Redis refuses: it wants a password")
		})
		refused := p.call(t, "POST", "/checkpoints", `{"requiredTaskAcks":1}`)
		if refused.status != http.StatusServiceUnavailable || !strings.Contains(refused.body, "Redis refuses: ") {
			t.Errorf("a trigger without the password is answered %s", refused)
		}
		eventually(t, "store_up is 0", func() bool { return p.metrics(t)["checkpointd_store_up"] == "0" })
		if err := lasting.ConfigSet(t.Context(), "requirepass", "").Err(); err != nil {
			t.Fatal(err)
		}
		mended := time.Now()
		work.since(t, mended)
		took, allowed := time.Since(mended), bound(rotationsVariable, resumedWithin)
		t.Logf("round %d: went on after %s", round+1, took.Round(time.Millisecond))
		if took > allowed {
			t.Errorf("round %d: went on after %s, want at most %s", round+1, took, allowed)
		}
	}
	p.ready(t)
	p.must(t, http.StatusOK, "GET", "/healthz", "")
}
