package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/worker"
)

func TestWorkersWithOneRecoveryKeyGoOnFromOneCheckpointInOneEpoch(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	var fleet []*counter
	var lives []*life
	begin := func(key string) []worker.Checkpoint {
		fleet, lives = nil, nil
		var from []worker.Checkpoint
		for _, task := range []string{"task-1", "task-2"} {
			c := newCounter(t, server, task)
			c.RecoveryKey = key
			life, origin := c.run(t)
			fleet, lives, from = append(fleet, c), append(lives, life), append(from, origin)
		}
		return from
	}
	if from := begin("start"); from[0] != from[1] || from[0].ID != worker.None || from[0].Epoch != 1 {
		t.Errorf("the fleet began from %+v", from)
	}
	first := server.Trigger("task-1", "task-2").ID
	server.Ended(first)
	before := lives
	from := begin("crash-1") // while the former fleet is still about
	if from[0] != from[1] || from[0].ID != first {
		t.Errorf("the fleet went on from %+v", from)
	}
	for _, life := range before {
		if err := life.end(t); !errors.Is(err, worker.CodeStaleEpoch) {
			t.Errorf("a former life ended with %v", err)
		}
	}
	second := server.Trigger("task-1", "task-2")
	if got := server.Ended(second.ID); got.Status != "completed" || second.Epoch != 2 {
		t.Errorf("in epoch %d the checkpoint ended as %+v", second.Epoch, got)
	}
	for _, c := range fleet {
		if told := receive(t, c.completed); told != second.ID {
			t.Errorf("%s was told of %d", c.TaskID, told)
		}
	}
}

func TestAKeyWhoseCheckpointIsGoneAndAJobThatDoesNotExistAreErrors(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t, checkpointtest.Keep(1))
	c := newCounter(t, server, "task-1")
	c.RecoveryKey = "crash-1"
	life, _ := c.run(t)
	takesPart(t, server, c, 1)
	life.stop()
	c.RecoveryKey = "crash-2"
	life, _ = c.run(t)
	takesPart(t, server, c, 1)
	life.stop()
	server.Delete(0)
	if err := c.Run(t.Context()); !errors.Is(err, worker.CodeIdempotencyTargetDeleted) {
		t.Errorf("the worker ended with %v", err)
	}
	c.RecoveryKey, c.Job = "", "mistyped"
	if err := c.Run(t.Context()); !errors.Is(err, worker.CodeJobNotFound) {
		t.Errorf("the worker ended with %v", err)
	}
}

func TestAKeyThatIsUsedInASecondLifeTakesNothingBack(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	c.RecoveryKey = "crash-1"
	life, _ := c.run(t)
	handedIn(t, server)
	life.stop()
	life, _ = c.run(t) // nothing has completed, so it goes on from the same
	takesPart(t, server, c, 1)
	life.stop()
	c.Work = func(context.Context) error { return nil }
	if err := c.Run(t.Context()); !errors.Is(err, worker.ErrRecoveryKeyUsed) {
		t.Errorf("a life with a key that is used up ended with %v", err)
	}
	server.Recover()
	if err := c.Run(t.Context()); !errors.Is(err, worker.CodeStaleEpoch) {
		t.Errorf("a life with a key from before another recovery ended with %v", err)
	}
	if len(c.restored) > 0 {
		t.Error("such a life brought something back")
	}
}

func TestACheckpointThatIsDeletedBeforeItCameBackIsToldAsAKeyThatIsUsedUp(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	life, _ := c.run(t)
	takesPart(t, server, c, 2)
	life.stop()
	front := server.Front()
	asked, deleted := make(chan struct{}), make(chan struct{})
	front.Script(fault.On(fault.Restore).Before(func() {
		close(asked)
		until(t, deleted)
	}))
	c.URL, c.RecoveryKey = front.URL, "crash-1"
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	receive(t, asked)
	server.Delete(1)
	close(deleted)
	if err := receive(t, ended); !errors.Is(err, worker.CodeIdempotencyTargetDeleted) {
		t.Errorf("the worker ended with %v", err)
	}
}

// fleet are two workers that count their cuts. Both stop when one does, and recover together.
type fleet struct {
	t       *testing.T
	server  *checkpointtest.Server
	crashes int
	workers [2]*counter
	lives   [2]*life
	from    worker.Checkpoint
	// told are the checkpoints that the workers of the present and former lives were told of.
	told map[int64]bool
}

func (f *fleet) begin() {
	f.crashes++
	for n := range f.workers {
		c := newCounter(f.t, f.server, fmt.Sprintf("task-%d", n+1))
		c.RecoveryKey, c.Attempt = fmt.Sprintf("crash-%d", f.crashes), int64(f.crashes)
		c.Snapshot = func(context.Context, worker.Checkpoint) (worker.Entries, error) {
			c.add("cuts", 1)
			return worker.FromMap(maps.Clone(c.counts)), nil
		}
		life, from := c.run(f.t)
		if n > 0 && from != f.from {
			f.t.Fatalf("the fleet went on from %+v and %+v", f.from, from)
		}
		f.workers[n], f.lives[n], f.from = c, life, from
	}
	if a, b := f.workers[0].counts["cuts"], f.workers[1].counts["cuts"]; a != b {
		f.t.Fatalf("from %+v the fleet has %d and %d cuts", f.from, a, b)
	}
}

func (f *fleet) crash() {
	first := rand.IntN(2)
	f.lives[first].stop()
	f.lives[1-first].stop()
	for _, c := range f.workers {
		for len(c.completed) > 0 {
			f.told[<-c.completed] = true
		}
	}
}

func TestTwoWorkersComeThroughFiftyCheckpointsWithRandomStops(t *testing.T) {
	t.Parallel()
	const wanted = 50
	server := checkpointtest.Start(t, checkpointtest.Timeout(0), checkpointtest.Keep(0))
	f := &fleet{t: t, server: server, told: map[int64]bool{}}
	f.begin()
	completed := map[int64]bool{}
	restarts := 0
	for len(completed) < wanted {
		id := server.Trigger("task-1", "task-2").ID
		switch rand.IntN(6) {
		case 0, 1:
			pauseFor(rand.N(8 * time.Millisecond))
			f.crash()
			f.begin()
		case 2:
			pauseFor(rand.N(8 * time.Millisecond))
			server.Restart()
			restarts++
		}
		if got := server.Ended(id); got.Status == "completed" {
			completed[id] = true
		} else if got.Failure.Reason != "superseded" {
			t.Fatalf("checkpoint %d ended as %+v", id, got)
		}
	}
	f.crash()
	f.begin()
	if cuts := f.workers[0].counts["cuts"]; cuts != wanted {
		t.Errorf("after %d checkpoints the state has %d cuts", wanted, cuts)
	}
	for id := range f.told {
		if !completed[id] {
			t.Errorf("a worker was told that %d completed", id)
		}
	}
	t.Logf("%d crashes, %d restarts, told of %d of %d", f.crashes, restarts, len(f.told), wanted)
	if len(f.told) < wanted/2 {
		t.Errorf("of %d completed checkpoints %d were told", wanted, len(f.told))
	}
}

// pauseFor is a random moment, and waits for nothing.
func pauseFor(d time.Duration) { <-time.After(d) }

func TestAFleetWhoseCheckpointIsDamagedGoesBackToAnOlderOneTogether(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	first, second := newCounter(t, server, "task-1"), newCounter(t, server, "task-2")
	first.RecoveryKey, second.RecoveryKey = "start", "start"
	for _, c := range []*counter{first, second} {
		life, _ := c.run(t)
		t.Cleanup(life.stop)
	}
	older := server.Trigger("task-1", "task-2").ID
	server.Ended(older)
	newer := server.Trigger("task-1", "task-2").ID
	server.Ended(newer)

	first.RecoveryKey, second.RecoveryKey = "crash-1", "crash-1"
	early, from := first.run(t) // this one's part is read before the damage is found
	if from.ID != newer {
		t.Fatalf("it went back to %+v", from)
	}
	front := server.Front()
	front.Script(fault.On(fault.Restore).Before(func() { server.Damage(newer) }))
	second.URL = front.URL
	if _, from := second.run(t); from.ID != older {
		t.Errorf("the one that found the damage went back to %+v", from)
	}
	if err := early.end(t); !errors.Is(err, worker.CodeStaleEpoch) {
		t.Errorf("the one that did not ended with %v", err)
	}
	if _, from := first.run(t); from.ID != older { // with the key that it has
		t.Errorf("its next life went back to %+v", from)
	}
	if got := server.Ended(server.Trigger("task-1", "task-2").ID); got.Status != "completed" {
		t.Errorf("the fleet does not go on: %+v", got)
	}
}

func TestAWorkerForWhichNoCheckpointIsWholeEndsAndDoesNotBeginAfresh(t *testing.T) {
	t.Parallel()
	server := checkpointtest.Start(t)
	c := newCounter(t, server, "task-1")
	life, _ := c.run(t)
	takesPart(t, server, c, 1)
	takesPart(t, server, c, 1)
	life.stop()
	server.Damage(0)
	front := server.Front()
	front.Script(fault.On(fault.Restore).Before(func() { server.Damage(1) }))
	c.URL = front.URL
	for _, key := range []string{"", "crash-1"} {
		c.RecoveryKey = key
		if err := c.Run(t.Context()); !errors.Is(err, worker.CodeSnapshotDamaged) {
			t.Errorf("with the key %q it ended with %v", key, err)
		}
	}
	if len(c.restored) > 0 {
		t.Error("it began afresh")
	}
}
