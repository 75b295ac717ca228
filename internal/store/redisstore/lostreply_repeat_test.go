package redisstore

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// An attempt that its caller gave up may still lie somewhere on its way, and reach Redis
// when the call is long done. Only verbs that are never sent twice need not bear that.
func TestAnAttemptThatArrivesLate(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := newCalmLab(t, server)
			u := watch(l, m)
			for at, sent := range u.commands {
				if scripts[sent.verb] == nil || slices.Contains(onceVerbs, sent.verb) {
					continue
				}
				if err := l.redis.Do(t.Context(), sent.args...).Err(); err != nil {
					t.Errorf("command %d %s again: %v", at+1, sent.verb, err)
				}
				l.same(fmt.Sprintf("what is stored after command %d %s again", at+1, sent.verb), l.contents(), u.steps[len(u.steps)-1])
			}
		})
	}
}

// Without a lost reply the caller has heard of everything: a repeat reports nothing again.
func TestACallThatIsMadeTwiceIsReportedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	for _, m := range slices.Concat(triggers(), recoveries(), acknowledgements(), ends(), schedules()) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := newCalmLab(t, server)
			c := m.arrange(l)
			first := l.fail(c, noFault, -1)
			ended, deleted := l.heard.sorted("ended"), l.heard.sorted("deleted")
			again := l.make(c, time.Minute)
			l.same("the answer", again.answer, first.answer)
			l.same("reported ends", l.heard.sorted("ended"), ended)
			l.same("reported deletions", l.heard.sorted("deleted"), deleted)
		})
	}
}

// strand makes the call while every reply to the command of that number and to those after
// it is lost.
func (l *lossyLab) strand(c call, at int) error {
	l.Helper()
	l.begin(everyReplyLost, at)
	return l.make(c, time.Minute).err
}

func TestAKeyFindsWhatAnUnknownOutcomeHasMade(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})

	t.Run("by a trigger", func(t *testing.T) {
		t.Parallel()
		l := newLossyLab(t, server)
		for _, m := range triggers() {
			if m.name == "trigger with an Idempotency-Key" {
				l.refused(l.strand(m.arrange(l), 0), coordinator.CodeOutcomeUnknown)
			}
		}
		again := aTriggerCall()
		again.Job, again.Idempotency = l.job, coordinator.Idempotency{Key: "key", Fingerprint: "body", Token: "another call"}
		result, err := l.store.Trigger(t.Context(), again)
		l.ok(err)
		l.same("repeated", result.Repeated, true)
		l.same("id", result.Checkpoint.ID, int64(1))
		l.same("pending", l.members(l.keys.pending()), []string{"0", "1"})
	})

	t.Run("by a recovery", func(t *testing.T) {
		t.Parallel()
		l := newLossyLab(t, server)
		for _, m := range recoveries() {
			if m.name == "recover with an Idempotency-Key" {
				l.refused(l.strand(m.arrange(l), 0), coordinator.CodeOutcomeUnknown)
			}
		}
		result, err := l.store.Recover(t.Context(), coordinator.RecoverCall{Job: l.job, LeaseMs: 600_000, Idempotency: coordinator.Idempotency{
			Key: "key", Fingerprint: "body", Token: "another call",
		}})
		l.ok(err)
		l.same("repeated", result.Repeated, true)
		l.same("epoch", result.Epoch, int64(1))
		l.same("checkpoint", result.Checkpoint.ID, int64(1))
	})
}

func TestATriggerOfUnknownOutcomeWithoutAKey(t *testing.T) {
	t.Parallel()
	l := newLossyLab(t, redistest.Start(t, redistest.Options{}))
	m := triggers()[0]
	l.refused(l.strand(m.arrange(l), 0), coordinator.CodeOutcomeUnknown)
	l.same("pending after ten attempts of one call", l.members(l.keys.pending()), []string{"0", "1"})
	l.now += 60_001
	l.ok(l.store.Sweep(t.Context(), coordinator.SweepCall{}))
	l.same("pending after the timeout", l.members(l.keys.pending()), []string{})
	l.same("reported ends", len(l.heard.sorted("ended")), 2)
}

func TestATriggerThatGaveUpBetweenItsStepsLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	for at := range 4 {
		t.Run(fmt.Sprintf("at command %d", at+1), func(t *testing.T) {
			t.Parallel()
			l := newLossyLab(t, server)
			for _, m := range triggers() {
				if m.name == "trigger with more names than one step takes" {
					l.refused(l.strand(m.arrange(l), at), coordinator.CodeStoreUnavailable)
				}
			}
			l.same("a checkpoint is there", l.exists(l.keys.index()), false)
			l.now += stageLeaseMs + 1
			l.ok(l.store.Sweep(t.Context(), coordinator.SweepCall{}))
			l.same("left over", leftovers(t, l.redis, l.server.Prefix), []string(nil))
		})
	}
}

// What a call did may be gone before it is sent again, and what would tell with it.
func TestACallWhoseCheckpointIsDeletedBeforeItsRepeatIsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	for name, end := range map[string]func(l *lossyLab, id int64) error{
		"acknowledge": func(l *lossyLab, id int64) error {
			_, err := l.store.Acknowledge(l.Context(), coordinator.AckCall{Job: l.job, ID: id, Token: "call", Items: []coordinator.AckItem{{TaskID: "a"}}})
			return err
		},
		"complete": func(l *lossyLab, id int64) error {
			_, err := l.store.Complete(l.Context(), coordinator.CompleteCall{Job: l.job, ID: id, Force: true, Token: "call"})
			return err
		},
		"abort": func(l *lossyLab, id int64) error {
			_, err := l.store.Abort(l.Context(), coordinator.AbortCall{Job: l.job, ID: id, Token: "call"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossyLab(t, server)
			id := l.pending(2)
			others := labOn(t, l.server, l.job).store()
			deletion := sync.OnceFunc(func() {
				l.ok(others.Delete(l.Context(), coordinator.DeleteCall{Job: l.job, ID: id}))
			})
			l.wire.after = func(int) { deletion() }
			l.begin(replyLost, 0)
			err := end(l, id)
			l.wire.heal()
			l.refused(err, coordinator.CodeOutcomeUnknown)
			l.begin(noFault, -1)
			l.refused(end(l, id), coordinator.CodeCheckpointDeleted)
		})
	}
}
