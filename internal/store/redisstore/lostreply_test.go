package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// What design section 2 promises of each verb after a lost reply. The verbs in neither
// list change nothing that a caller could tell from one run: they are sent again, and fail
// as store_unavailable.
var (
	tokenVerbs = []string{
		"trigger", "recover", "acknowledge", "commit_upload", "complete", "abort",
		"trigger_due", "put_job", "delete_job", "forget_task", "record_restore",
	}
	onceVerbs = []string{"extend", "update", "delete", "cleanup", "write_shared"}
)

// outcome is what a call came to.
type outcome struct {
	answer   any
	err      error
	commands []command
}

// fail makes the call with a fault at the command of that number.
func (l *lossyLab) fail(c call, what fault, at int) outcome {
	l.Helper()
	l.begin(what, at)
	return l.make(c, time.Minute)
}

// make makes a call that was begun, for a caller with that much patience.
func (l *lossyLab) make(c call, patience time.Duration) outcome {
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	var got outcome
	got.answer, got.err = c(ctx)
	got.commands = l.wire.heal()
	return got
}

// undisturbed is what a mutation comes to without a fault.
type undisturbed struct {
	outcome
	// steps are the contents before the call and after each of its commands.
	steps   []contents
	ended   []string
	deleted []string
}

// watch makes the call without a fault.
func watch(l *lossyLab, m mutation) undisturbed {
	l.Helper()
	c := m.arrange(l)
	u := undisturbed{steps: []contents{l.contents()}}
	l.wire.after = func(int) { u.steps = append(u.steps, l.contents()) }
	u.outcome = l.fail(c, noFault, -1)
	u.ended, u.deleted = l.heard.sorted("ended"), l.heard.sorted("deleted")
	if len(u.commands) == 0 || len(u.steps) != len(u.commands)+1 {
		l.Fatalf("%d commands and %d states were seen", len(u.commands), len(u.steps))
	}
	return u
}

// watching is a mutation that the first test watches that asks what it comes to.
type watching struct {
	once sync.Once
	undisturbed
}

// watchings has one for each mutation, by its name.
var watchings = sync.OnceValue(func() map[string]*watching {
	all := map[string]*watching{}
	for _, m := range mutations() {
		if all[m.name] != nil {
			panic("two mutations are named " + m.name)
		}
		all[m.name] = new(watching)
	}
	return all
})

// watchedOnce gives what the mutation comes to without a fault: the same for every test, so that
// all of them hold what they see against one run of it on the shared server.
func watchedOnce(t testing.TB, m mutation) undisturbed {
	t.Helper()
	w := watchings()[m.name]
	w.once.Do(func() { w.undisturbed = watch(newCalmLab(t, redistest.Start(t, redistest.Options{})), m) })
	if len(w.steps) == 0 {
		t.Fatalf("%s has failed without a fault, in the test that watched it", m.name)
	}
	return w.undisturbed
}

// The reply of each command of each mutating call is lost, one by one. Or the connection
// closes before Redis has seen the command: nobody can tell that from a lost reply, but
// nothing may then be missing that was answered.
func TestALostMessage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			eachCommand(t, server, m, replyLost, requestLost)
		})
	}
}

// Redis has forgotten the script, and the reply to its text is lost.
//
//nolint:tparallel,paralleltest // What one mutation makes Redis forget another would teach it again.
func TestALostReplyOfAForgottenScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) { eachCommand(t, server, m, forgotten) })
	}
}

// eachCommand lets the faults happen to each command of a mutation.
func eachCommand(t *testing.T, server *redistest.Server, m mutation, faults ...fault) {
	t.Helper()
	u := watchedOnce(t, m)
	for at, sent := range u.commands {
		for _, what := range faults {
			if what == forgotten && (scripts[sent.verb] == nil || sent.verb == proveScript.verb) { // which teaches Redis its text beforehand
				continue
			}
			t.Run(fmt.Sprintf("%s of command %d %s", what, at+1, sent.verb), func(t *testing.T) {
				l := newLossyLab(t, server)
				checkOutcome(l, m, u, what, at, l.fail(m.arrange(l), what, at))
			})
		}
	}
}

// checkOutcome checks the answer, what is stored, the reports, and the number of attempts
// after one lost message.
func checkOutcome(l *lossyLab, m mutation, u undisturbed, what fault, at int, got outcome) {
	l.Helper()
	verb := u.commands[at].verb
	l.heardAtMost(u)
	if slices.Contains(onceVerbs, verb) {
		l.refused(got.err, coordinator.CodeOutcomeUnknown)
		l.same("commands sent", len(got.commands), at+1)
		stored := u.steps[at+1]
		if what == requestLost {
			stored = u.steps[at]
		}
		l.same("what is stored", l.contents(), stored)
		return
	}
	l.same("the refusal", got.err, u.err)
	if diff := cmp.Diff(u.answer, got.answer, cmpopts.EquateEmpty()); diff != "" {
		l.Errorf("the answer (-want +got):\n%s", diff)
	}
	again := 1
	if verb == sweepScript.verb && u.commands[at-1].verb != verb {
		again = 2 // the scripts of both jobs, which went together, go one by one
	}
	l.same("commands sent", len(got.commands), len(u.commands)+again)
	l.same("what is stored", l.contents(), u.steps[len(u.steps)-1])
	if slices.Contains(tokenVerbs, verb) && !m.unheard {
		l.same("reported ends", l.heard.sorted("ended"), u.ended)
	}
}

// heardAtMost checks that nothing was reported twice, and nothing that did not happen.
func (l *lossyLab) heardAtMost(u undisturbed) {
	l.Helper()
	for word, possible := range map[string][]string{"ended": u.ended, "deleted": u.deleted} {
		left := slices.Clone(possible)
		for _, report := range l.heard.sorted(word) {
			i := slices.Index(left, report)
			if i < 0 {
				l.Errorf("reported once too often: %s", report)
				continue
			}
			left = slices.Delete(left, i, i+1)
		}
	}
}

// stranded is a call after whose command no reply ever comes.
type stranded struct {
	*lossyLab
	mutation
	undisturbed
	what fault
	at   int
	call call
	got  outcome
}

// refusedConnection is what a stopped server does.
const refusedConnection fault = "a refused connection"

// No reply comes any more, since connections die after each request or since they stay
// open in silence; or the server does not accept connections at all.
//
//nolint:paralleltest // Hundreds of calls run against their budgets here, which would use up those of other tests.
func TestRepliesThatStayAway(t *testing.T) {
	leaveOut(t)
	server := redistest.Start(t, redistest.Options{})
	var all []*stranded
	for _, m := range mutations() {
		u := watchedOnce(t, m)
		strand := func(what fault, at int) {
			l := newLossyLab(t, server)
			all = append(all, &stranded{lossyLab: l, mutation: m, undisturbed: u, what: what, at: at, call: m.arrange(l)})
		}
		for at := range u.commands {
			strand(everyReplyLost, at)
			strand(silence, at)
		}
		strand(refusedConnection, 0)
	}
	// Each takes its whole budget, so they wait together.
	var calls sync.WaitGroup
	for _, s := range all {
		s.begin(s.what, s.at)
		if s.what == refusedConnection {
			s.wire.proxy.Stop()
			s.cutOff()
		}
		calls.Go(func() { s.got = s.make(s.call, s.patience()) })
	}
	calls.Wait()
	for _, s := range all {
		t.Run(fmt.Sprintf("%s/%s from command %d %s on", s.name, s.what, s.at+1, s.verb()), func(t *testing.T) {
			s.TB = t
			s.check()
		})
	}
}

func (s *stranded) verb() string { return s.commands[s.at].verb }

func (s *stranded) is(verbs []string) bool { return slices.Contains(verbs, s.verb()) }

// soon tells of calls that end within two seconds by themselves. Others are more than one
// step, each with its own budget.
func (s *stranded) soon() bool {
	return s.is(tokenVerbs) || s.is(onceVerbs) || strings.Contains(s.name, "trigger") || strings.Contains(s.name, "recover") || strings.Contains(s.name, "settings")
}

func (s *stranded) patience() time.Duration {
	if s.soon() {
		return time.Minute
	}
	return 1500 * time.Millisecond
}

func (s *stranded) check() {
	s.Helper()
	s.heardAtMost(s.undisturbed)
	switch {
	case s.what == refusedConnection:
		s.refused(s.got.err, coordinator.CodeStoreUnavailable)
		s.same("what is stored", s.contents(), s.steps[0])
	case s.is(tokenVerbs), s.is(onceVerbs):
		s.refused(s.got.err, coordinator.CodeOutcomeUnknown)
		s.same("what is stored", s.contents(), s.steps[s.at+1])
	case s.got.err == nil && s.verb() == "sadd" && s.at == len(s.commands)-1:
		// What was to be made is there and was listed before.
		s.same("what is stored", s.contents(), s.steps[s.at+1])
	case s.got.err == nil:
		s.Errorf("no error")
	case !errors.Is(s.got.err, context.DeadlineExceeded):
		s.refused(s.got.err, coordinator.CodeStoreUnavailable)
	}
	if len(s.got.commands) <= s.at {
		s.Fatalf("%d commands were sent, want the fault at command %d", len(s.got.commands), s.at+1)
	}
	first, last := s.got.commands[s.at], s.got.commands[len(s.got.commands)-1]
	if within := last.until.Sub(first.since); s.soon() && (within <= 0 || within > 2*time.Second) {
		s.Errorf("the last attempt could have taken until %v after the first, want two seconds at most", within)
	}
	attempts := len(s.got.commands) - s.at
	switch {
	case s.is(onceVerbs) && s.what != refusedConnection:
		s.same("attempts", attempts, 1)
	case s.is(tokenVerbs) && attempts < 2:
		s.Errorf("%d attempts, want at least two", attempts)
	}
}
