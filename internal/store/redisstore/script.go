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
	verb string
	text *redis.Script
}

// What a script includes, in order.
var (
	readPreludes = []string{"prelude"}
	endPreludes  = []string{"prelude", "prelude_event", "prelude_history", "prelude_end"}
	// The token of a call makes these repeatable.
	repeatPreludes = append(slices.Clip(endPreludes), "prelude_repeat")
	ackPreludes    = append(slices.Clip(repeatPreludes), "prelude_ack")
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
	s := &script{verb: verb, text: redis.NewScript(text.String())}
	scripts[verb] = s
	return s
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
	decided             // a reply came that no repetition would change
)

// First and longest pause between attempts, and how much time must be left for another: one
// that is cut short would make an unknown outcome of what is known to have changed nothing.
const (
	firstPause    = 10 * time.Millisecond
	longestPause  = 200 * time.Millisecond
	leastPatience = 250 * time.Millisecond
)

// run sends a script for a job and gives its reply, or an error as [coordinator.Store]
// wants them. Transitions and evictions in the reply are reported, whatever its word.
// args are ARGV[2] and up.
func (s *Store) run(ctx context.Context, sc *script, how repetition, job string, args ...any) (reply, error) {
	value, again, err := s.send(ctx, sc, how, s.keys(job).job(), args)
	if err != nil {
		return reply{}, err
	}
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

// send is the loop of attempts. again tells that an earlier one may have run.
func (s *Store) send(ctx context.Context, sc *script, how repetition, key string, args []any) (value any, again bool, err error) {
	budget := callBudget + time.Duration(size(args))*time.Second/bytesPerSecond
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	patience := budget
	if how != once {
		// So that a swallowed reply leaves time to ask again.
		patience = budget / 2
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		attempt, done := context.WithTimeout(within, patience)
		value, sent, err := s.evaluate(attempt, sc, key, args)
		done()
		if err == nil {
			return value, again, nil
		}
		what, refusal := judge(err, sent)
		switch {
		case what == decided:
			return nil, again, refusal
		case what == lost:
			again = true
		}
		if !(what == lost && how == once) && sleep(within, pause) {
			continue
		}
		s.health.stale.Store(true)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil, again, fmt.Errorf("redis %s: %w", sc.verb, ctx.Err())
		case again && how != reads:
			return nil, again, coordinator.ErrOutcomeUnknown(fmt.Errorf("redis %s: %w", sc.verb, err))
		default:
			return nil, again, coordinator.ErrStoreUnavailable(fmt.Errorf("redis %s: %w", sc.verb, err))
		}
	}
}

// evaluate sends a script once, by its hash, and with its text when the server does not
// know it. sent tells whether the command reached the connection.
func (s *Store) evaluate(ctx context.Context, sc *script, key string, args []any) (value any, sent bool, err error) {
	clock := &sentMark{text: s.now()}
	all := append([]any{clock}, args...)
	value, err = s.client.EvalSha(ctx, sc.text.Hash(), []string{key}, all...).Result()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		clock.written = false
		value, err = sc.text.Eval(ctx, s.client, []string{key}, all...).Result()
	}
	return value, clock.written, err
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
	case strings.HasPrefix(text, "NOAUTH "), strings.HasPrefix(text, "WRONGPASS "), strings.HasPrefix(text, "NOPERM "):
		return decided, coordinator.ErrStoreUnavailable(err)
	default:
		return decided, coordinator.ErrInternal(fmt.Errorf("redis refused a script: %w", err))
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
