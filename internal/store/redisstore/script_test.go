package redisstore

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// replyError is an error reply of a server.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError marks it as a reply.
func (replyError) RedisError() {}

var _ redis.Error = replyError("")

func TestWhatBecameOfAFailedAttempt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		sent bool
		want fate
		code coordinator.Code
	}{
		{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}, want: notRun},
		{err: io.EOF, want: notRun},
		{err: io.EOF, sent: true, want: lost},
		{err: &net.OpError{Op: "read", Err: errors.New("i/o timeout")}, sent: true, want: lost},
		{err: replyError("LOADING Redis is loading the dataset in memory"), sent: true, want: notRun},
		{err: replyError("READONLY You can't write against a read only replica."), sent: true, want: notRun},
		{err: replyError("ERR Error running script (call to f_0): @user_script:1: -READONLY You can't write against a read only replica."), sent: true, want: notRun},
		{err: replyError("MOVED 3999 127.0.0.1:6381"), sent: true, want: notRun},
		{err: replyError("ASK 3999 127.0.0.1:6381"), sent: true, want: notRun},
		{err: replyError("TRYAGAIN The slot of the job is on its way to another server"), sent: true, want: notRun},
		{err: replyError("CLUSTERDOWN The cluster is down"), sent: true, want: notRun},
		{err: replyError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), sent: true, want: notRun},
		{err: replyError("NOREPLICAS Not enough good replicas to write. script: a1, on @user_script:1."), sent: true, want: notRun},
		{err: replyError("ERR Error running script (call to f_0): @user_script:1: -NOREPLICAS Not enough good replicas to write."), sent: true, want: notRun},
		// Without the guard of a cluster this breaks a script off in its middle.
		{err: replyError("ERR Script attempted to access a non local key in a cluster node"), sent: true, want: decided, code: coordinator.CodeInternal},
		{err: unroutable{replyError("NOAUTH Authentication required.")}, want: notRun},
		{err: unconfirmed{want: 1}, sent: true, want: unsafe},
		{err: unconfirmed{want: 1, cause: io.EOF}, sent: true, want: unsafe},
		{err: replyError("NOSCRIPT No matching script."), sent: true, want: notRun},
		{err: replyError("BUSY Redis is busy running a script."), sent: true, want: notRun},
		{err: replyError("MISCONF Redis is configured to save RDB snapshots"), sent: true, want: notRun},
		{err: replyError("ERR max number of clients reached"), sent: true, want: notRun},
		{err: replyError("OOM command not allowed when used memory > 'maxmemory'."), sent: true, want: decided, code: coordinator.CodeStoreFull},
		{err: replyError("ERR Error running script (call to f_0): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'."), sent: true, want: decided, code: coordinator.CodeStoreFull},
		{err: replyError("NOAUTH Authentication required."), sent: true, want: decided, code: coordinator.CodeStoreUnavailable},
		{err: replyError("WRONGTYPE Operation against a key holding the wrong kind of value"), sent: true, want: decided, code: coordinator.CodeInternal},
		{err: fmt.Errorf("wrapped: %w", replyError("LOADING")), sent: true, want: decided, code: coordinator.CodeStoreUnavailable},
	} {
		what, refusal := judge(test.err, test.sent)
		if what != test.want || coordinator.CodeOf(refusal) != test.code {
			t.Errorf("judge(%v, sent %t) = %d, %v; want %d, code %q", test.err, test.sent, what, refusal, test.want, test.code)
		}
	}
}

func TestAServerThatForgotTheScriptsIsGivenThem(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	s := open(t, server)
	for range 2 {
		trigger(t, s)
		if _, err := s.Jobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := server.Client(t).ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Jobs(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAReplyThatIsNotUnderstoodIsAnInternalError(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		nil, "ok",
		[]any{"ok"},
		[]any{"ok", "now", []any{}, []any{}, []any{}, []any{}},
		[]any{"ok", "1", []any{}, []any{"0", "completed"}, []any{}, []any{}},
		[]any{"ok", "1", []any{}, []any{}, []any{"x"}, []any{}},
	} {
		_, err := parseReply("verb", "orders", value)
		wantCode(t, fmt.Sprint(value), err, coordinator.CodeInternal)
	}
	r, err := parseReply("verb", "orders", []any{"surprise", "1", []any{}, []any{}, []any{}, []any{}})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "an unknown word", refusal("verb", "orders", 1, r), coordinator.CodeInternal)
	r.word = string(coordinator.CodeStaleEpoch)
	wantCode(t, "a refusal without its arguments", refusal("verb", "orders", 1, r), coordinator.CodeInternal)
}
