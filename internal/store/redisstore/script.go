package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is one embedded script under its preludes. testdata/scripts.golden pins them.
type script struct {
	verb   string
	source string
	text   *redis.Script
	// hash is that of text, as an argument.
	hash any
	// guarded is the same behind slotGuard.
	guarded *script
}

// slotGuard comes first on a cluster, and turns a call away while the job's slot moves to another
// server: the keys of a script are not declared, so it would be let in as long as the job's hash is still
// there, and break in its middle at the first key that is not. This one never is.
const slotGuard = `if type(redis.pcall('EXISTS', string.sub(KEYS[1], 1, -4) .. 'void')) == 'table' then
  return redis.error_reply('TRYAGAIN The slot of the job is on its way to another server')
end
`

// What a script includes, in order.
var (
	readPreludes   = []string{"prelude_base", "prelude"}
	endPreludes    = append(slices.Clip(readPreludes), "prelude_sort", "prelude_event", "prelude_history", "prelude_end")
	importPreludes = append(slices.Clip(endPreludes), "prelude_import")
	// The token of a call makes these repeatable.
	repeatPreludes = append(slices.Clip(endPreludes), "prelude_repeat")
	ackPreludes    = append(slices.Insert(slices.Clone(repeatPreludes), 1, "prelude_judge"), "prelude_ack")
	// What is quick runs before the other preludes do.
	severalPreludes  = append(ackPreludes[:2:2], "prelude_call")
	quickAckPreludes = slices.Insert(slices.Clone(ackPreludes), 2, "prelude_call", "prelude_quick")
)

// scripts has every script by verb, for the tests that go over all of them.
var scripts = map[string]*script{}

// newScript reads lua/<verb>.lua; it panics on what is not embedded.
func newScript(verb string, preludes []string) *script {
	var text strings.Builder
	for _, name := range append(append([]string(nil), preludes...), verb) {
		source, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(fmt.Sprintf("script %s: %v", verb, err))
		}
		text.Write(source)
		text.WriteByte('\n')
	}
	s := scriptOf(verb, text.String())
	s.guarded = scriptOf(verb, slotGuard+text.String())
	scripts[verb] = s
	return s
}

func scriptOf(verb, source string) *script {
	s := &script{verb: verb, source: source, text: redis.NewScript(source)}
	s.hash = s.text.Hash()
	return s
}

// form is the script as this Redis is sent it.
func (s *Store) form(sc *script) *script {
	if s.client.cluster != nil {
		return sc.guarded
	}
	return sc
}

// repetition says what may be done when the reply of a call was lost.
type repetition int

const (
	// reads change nothing: they are sent again, and fail as store_unavailable.
	reads repetition = iota
	// once is sent a second time only if it is known not to have run; a lost reply is
	// outcome_unknown.
	once
	// repeatable keeps a call token in Redis: the same call again answers the same. A
	// reply that stays lost is outcome_unknown.
	repeatable
)

// fate is what became of one attempt.
type fate int

const (
	notRun  fate = iota // it is known that nothing happened
	lost                // the command was on its way, the reply did not come
	unsafe              // it ran, and too few replicas have it
	decided             // a reply came that no repetition would change
)

// First and longest pause between attempts, and how much time must be left for another: one
// that is cut short would make an unknown outcome of what is known to have changed nothing.
const (
	firstPause    = 10 * time.Millisecond
	longestPause  = 200 * time.Millisecond
	leastPatience = 250 * time.Millisecond
)

// command begins the arguments of EVALSHA for a job, with room for as many of the script's own:
// they are ARGV[2] and up. send puts the clock in its place.
func (s *Store) command(sc *script, job string, room int) []any {
	return append(make([]any, 0, clockAt+1+room), "evalsha", s.form(sc).hash, 1, s.keys(job).job(), nil)
}

// Where the arguments of EVALSHA have the key and the clock.
const (
	keyAt   = 3
	clockAt = 4
)

// run sends a script for a job and gives its reply, or an error as [coordinator.Store]
// wants them. Transitions and evictions in the reply are reported, whatever its word.
// args are ARGV[2] and up.
func (s *Store) run(ctx context.Context, sc *script, how repetition, job string, args ...any) (reply, error) {
	value, again, err := s.send(ctx, sc, how, append(s.command(sc, job, len(args)), args...), false)
	if value == nil && err != nil {
		return reply{}, err
	}
	// What too few replicas have was done all the same, and is reported.
	r, bad := s.receive(sc, job, value, again)
	if err == nil && bad == nil && again && how == repeatable {
		bad = vanished(sc, r)
	}
	return r, earlier(err, bad)
}

// vanished is for the reply to a repeat. That there is no checkpoint any more does not tell
// whether the first attempt counted: its token went with the checkpoint.
func vanished(sc *script, r reply) error {
	switch coordinator.Code(r.word) {
	case coordinator.CodeCheckpointDeleted, coordinator.CodeJobNotFound:
		return coordinator.ErrOutcomeUnknown(fmt.Errorf("redis %s: %s, after a reply was lost", sc.verb, r.word))
	default:
		return nil
	}
}

// runInOrder is run for a script that reads tasks in order: it first moves what was acknowledged since
// somebody last did, a thousand tasks at a time. See lua/prelude_sort.lua.
func (s *Store) runInOrder(ctx context.Context, sc *script, job string, args ...any) (reply, error) {
	for {
		r, err := s.run(ctx, sc, reads, job, args...)
		if err != nil || r.word != wordAgain {
			return r, err
		}
	}
}

// receive reads the reply of a script, and reports what it has done.
func (s *Store) receive(sc *script, job string, value any, again bool) (reply, error) {
	r, err := parseReply(sc.verb, job, value)
	if err != nil {
		return reply{}, err
	}
	ended := r.ended
	if again {
		ended = append(ended, r.before...)
	}
	s.report(job, r, ended)
	return r, nil
}

// report tells the observer what a script has ended, and what retention took.
func (s *Store) report(job string, r reply, ended []coordinator.Transition) {
	for _, transition := range ended {
		s.observer.Ended(transition)
	}
	for _, id := range r.evicted {
		s.observer.Deleted(job, id, coordinator.DeletedByRetention)
	}
}

// send runs a script, and waits for replicas unless it reads. args are those of [Store.command]; they may be used again when it has
// returned. again tells, before and after, that an earlier attempt may have run. With an error the value is
// nil, but for what ran and too few replicas have.
func (s *Store) send(ctx context.Context, sc *script, how repetition, args []any, again bool) (value any, _ bool, err error) {
	return s.insist(ctx, sc.verb, how, size(args), again, func(ctx context.Context) (any, bool, error) {
		return s.attempt(ctx, sc, args, how != reads)
	})
}

// insist is the loop of attempts at something that sends so many bytes.
func (s *Store) insist(
	ctx context.Context, verb string, how repetition, size int, again bool, attempt func(context.Context) (value any, sent bool, err error),
) (value any, _ bool, err error) {
	budget := callBudget + time.Duration(size)*time.Second/bytesPerSecond
	deadline, patience := time.Now().Add(budget), budget
	var made any // what an attempt did that too few replicas have
	if how != once {
		// So that a swallowed reply leaves time to ask again.
		patience = budget / 2
	}
	patiently := func(ctx context.Context) (any, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return attempt(ctx)
	}
	value, sent, err := patiently(ctx)
	if err == nil {
		return value, again, nil
	}
	within, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		what, refusal := judge(err, sent)
		switch {
		case what == decided:
			return nil, again, refusal
		case what == unsafe:
			again, made = true, value
		case what == lost:
			again = true
		}
		s.client.suspect(ctx)
		if what != notRun && how == once || !sleep(within, pause) {
			break
		}
		if value, sent, err = patiently(within); err == nil {
			return value, again, nil
		}
	}
	s.health.stale.Store(true)
	switch {
	case made != nil:
		return made, again, coordinator.ErrNotReplicated(fmt.Errorf("redis %s: %w", verb, err))
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, again, fmt.Errorf("redis %s: %w", verb, ctx.Err())
	case again && how != reads:
		return nil, again, coordinator.ErrOutcomeUnknown(fmt.Errorf("redis %s: %w", verb, err))
	default:
		return nil, again, unavailable(verb, err)
	}
}

// attempt sends a script once, by its hash, and with its text when the server does not
// know it; confirm has it wait for replicas. sent tells whether the command reached the connection.
func (s *Store) attempt(ctx context.Context, sc *script, args []any, confirm bool) (value any, sent bool, err error) {
	clock := &sentMark{text: s.now()}
	args[clockAt] = clock
	key, _ := args[keyAt].(string)
	node, err := s.client.node(ctx, key)
	if err != nil {
		return nil, false, err
	}
	cmd := redis.NewCmd(ctx, args...)
	if err = s.deliver(ctx, node, cmd, key, confirm); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		clock.written, args[clockAt] = false, clock
		cmd = redis.NewCmd(ctx, append([]any{"eval", s.form(sc).source, 1}, args[keyAt:]...)...)
		err = s.deliver(ctx, node, cmd, key, confirm)
	}
	return cmd.Val(), clock.written, err
}

// sentMark is an argument that knows whether it was written: go-redis marshals it when it
// writes the command to the connection. An error before that (no connection, a
// handshake that failed, a full pool) has certainly not run the script.
type sentMark struct {
	text    string
	written bool
}

// MarshalBinary gives the text.
func (m *sentMark) MarshalBinary() ([]byte, error) {
	m.written = true
	return []byte(m.text), nil
}

// judge tells what became of a failed attempt, and the refusal when that is decided.
func judge(err error, sent bool) (fate, error) {
	if isUnconfirmed(err) {
		return unsafe, nil
	}
	if _, isReply := errors.AsType[redis.Error](err); !isReply {
		if sent {
			return lost, nil
		}
		return notRun, nil
	}
	text := err.Error()
	for _, mark := range rejections {
		// Redis 6.2 puts the cause into the middle of its own sentence.
		if strings.HasPrefix(text, mark) || strings.Contains(text, "-"+mark) {
			return notRun, nil
		}
	}
	switch {
	case strings.HasPrefix(text, "OOM "), strings.Contains(text, "-OOM "):
		return decided, coordinator.ErrStoreFull(err)
	case isOurs(text):
		return decided, coordinator.ErrInternal(fmt.Errorf("redis refused a command: %w", err))
	default:
		return decided, unavailable("refuses", err)
	}
}

// rejections begin replies that say that nothing was done and that it may work soon.
var rejections = []string{
	"LOADING ", "READONLY ", "MOVED ", "ASK ", "CLUSTERDOWN ", "TRYAGAIN ", "MASTERDOWN ", "BUSY ",
	"NOREPLICAS ", "MISCONF ", "NOSCRIPT ", "ERR max number of clients reached",
}

// sleep waits for the pause and tells whether ctx has time left for another attempt. If it
// will not have, it does not wait.
func sleep(ctx context.Context, pause time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause+leastPatience {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// size is about how many bytes the arguments take.
func size(args []any) int {
	sum := 0
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			sum += len(v)
		case *string:
			sum += len(*v)
		case []byte:
			sum += len(v)
		}
	}
	return sum
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// flag is "1" or "0".
func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
