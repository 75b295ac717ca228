package redisstore

import (
	"context"
	"encoding"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// fault is what the network does to a command.
type fault string

const (
	noFault fault = "nothing"
	// replyLost lets Redis run the command, then drops the reply and closes the connection.
	replyLost fault = "a lost reply"
	// requestLost closes the connection before Redis has seen the command.
	requestLost fault = "a lost request"
	// everyReplyLost is replyLost for this command and all that follow.
	everyReplyLost fault = "every reply lost"
	// silence lets Redis run the command; from then on no reply comes, while all
	// connections stay open.
	silence fault = "silence"
	// forgotten makes Redis forget its scripts before the command, so that the script is
	// sent as a text; the reply to that is lost.
	forgotten fault = "a lost reply of a forgotten script"
)

// toxics are the faults as toxiproxy knows them, all under one name.
var toxics = map[fault]string{
	replyLost:      `{"name":"fault","type":"limit_data","stream":"downstream","attributes":{"bytes":0}}`,
	everyReplyLost: `{"name":"fault","type":"limit_data","stream":"downstream","attributes":{"bytes":0}}`,
	forgotten:      `{"name":"fault","type":"limit_data","stream":"downstream","attributes":{"bytes":0}}`,
	requestLost:    `{"name":"fault","type":"limit_data","stream":"upstream","attributes":{"bytes":0}}`,
	silence:        `{"name":"fault","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`,
}

// wire is the network between a store and Redis: a proxy, and a hook of the client that
// counts commands and lets the fault happen at exactly one of them.
type wire struct {
	testing.TB
	proxy *toxiproxy.Proxy // nil where nothing is to happen
	redis *redis.Client

	// after, if set, is called when a counted command is through, with its number.
	after func(number int)

	mu       sync.Mutex
	counting bool
	commands []command
	what     fault
	at       int
	flushed  bool
}

// command is one that a store has sent.
type command struct {
	verb string
	args []any
	// since is when it was sent, and until when the store would have given it up.
	since, until time.Time
	err          error
}

// unanswered tells whether the server may have run it unnoticed.
func (c command) unanswered() bool {
	_, isReply := errors.AsType[redis.Error](c.err)
	return c.err != nil && !isReply && !caused(c.err)
}

// newWire sets a proxy up before a server. The client goes around it.
func newWire(t testing.TB, server *redistest.Server, client *redis.Client) *wire {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	w := &wire{TB: t, proxy: toxiproxy.NewProxy(api, t.Name(), "127.0.0.1:0", server.Addr), redis: client, what: noFault}
	if err := w.proxy.Start(); err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	t.Cleanup(w.proxy.Stop)
	return w
}

// url is the server's URL with the proxy's address.
func (w *wire) url(server *redistest.Server) string {
	w.Helper()
	parsed, err := url.Parse(server.URL)
	if err != nil {
		w.Fatal(err)
	}
	parsed.Host = w.proxy.Listen
	return parsed.String()
}

// count begins to count commands anew; the fault will happen at number at.
func (w *wire) count(what fault, at int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counting, w.commands, w.what, w.at, w.flushed = true, nil, what, at, false
}

// heal ends the fault and the counting, and gives what was counted.
func (w *wire) heal() []command {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counting, w.what = false, noFault
	commands := w.commands
	w.commands = nil
	if w.proxy != nil && w.proxy.Toxics.GetToxic("fault") != nil {
		w.lift()
	}
	return commands
}

// strike puts the toxic on all connections; it returns when it is there.
func (w *wire) strike(what fault) {
	w.Helper()
	if w.proxy.Toxics.GetToxic("fault") != nil {
		return
	}
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(toxics[what])); err != nil {
		w.Errorf("add a toxic: %v", err)
	}
}

// lift takes the toxic off again.
func (w *wire) lift() {
	w.Helper()
	if err := w.proxy.Toxics.RemoveToxic(context.Background(), "fault"); err != nil {
		w.Errorf("remove a toxic: %v", err)
	}
}

// DialHook leaves dialing alone.
func (*wire) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return w.carry(ctx, cmd, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook counts a pipeline as one command.
func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return w.carry(ctx, leading(cmds), func() error { return next(ctx, cmds) })
	}
}

// leading is the script of a pipeline, or its first command where it has none.
func leading(cmds []redis.Cmder) redis.Cmder {
	for _, cmd := range cmds {
		if name := cmd.Name(); name == "evalsha" || name == "eval" {
			return cmd
		}
	}
	return cmds[0]
}

// carry sends a command, and lets its fault happen.
func (w *wire) carry(ctx context.Context, cmd redis.Cmder, send func() error) error {
	number, what := w.note(ctx, cmd)
	if number < 0 {
		return send()
	}
	struck := toxics[what] != ""
	if struck {
		w.strikeWhenWritten(cmd.Args(), what)
	}
	err := send()
	if struck && what != silence && w.proxy.Toxics.GetToxic("fault") != nil {
		w.lift()
	}
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		w.forget(number)
		return err
	}
	w.settle(number, err)
	if w.after != nil {
		w.after(number)
	}
	return err
}

// note counts a command, and tells its number and its fault; the number is below 0 for what
// is not counted.
func (w *wire) note(ctx context.Context, cmd redis.Cmder) (int, fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.counting || slices.Contains([]string{"hello", "auth", "client", "select", "info", "ping"}, cmd.Name()) {
		return -1, noFault
	}
	until, _ := ctx.Deadline()
	number := len(w.commands)
	w.commands = append(w.commands, command{verb: verbOf(cmd), args: slices.Clone(cmd.Args()), since: time.Now(), until: until})
	if number != w.at && (number < w.at || w.what != everyReplyLost) {
		return number, noFault
	}
	if w.what == forgotten && !w.flushed {
		w.flushed = true
		if err := w.redis.ScriptFlush(ctx).Err(); err != nil {
			w.Errorf("make Redis forget its scripts: %v", err)
		}
		return number, noFault
	}
	return number, w.what
}

// settle notes what a command came to, unless the counting has ended.
func (w *wire) settle(number int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number < len(w.commands) {
		w.commands[number].err = err
	}
}

// forget takes a command back that Redis did not know: its script is sent as a text next,
// and counts as the same command.
func (w *wire) forget(number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = slices.Delete(w.commands, number, number+1)
}

// strikeWhenWritten puts the toxic on when a script's clock is written to the connection: a
// new one has then been dialed and greeted. Other commands find a connection that idles.
func (w *wire) strikeWhenWritten(args []any, what fault) {
	for i, arg := range args {
		if inner, ok := arg.(encoding.BinaryMarshaler); ok {
			args[i] = tripwire{inner: inner, pull: func() { w.strike(what) }}
			return
		}
	}
	w.strike(what)
}

// tripwire is an argument that pulls when it is written.
type tripwire struct {
	inner encoding.BinaryMarshaler
	pull  func()
}

// MarshalBinary gives what the argument gives.
func (m tripwire) MarshalBinary() ([]byte, error) {
	m.pull()
	return m.inner.MarshalBinary()
}

// verbOf names a script by its verb, other commands by their name.
func verbOf(cmd redis.Cmder) string {
	args := cmd.Args()
	var hash string
	switch cmd.Name() {
	case "evalsha":
		hash, _ = args[1].(string)
	case "eval":
		text, _ := args[1].(string)
		hash = redis.NewScript(text).Hash()
	default:
		return cmd.Name()
	}
	for verb, sc := range scripts {
		if sc.text.Hash() == hash {
			return verb
		}
	}
	return cmd.Name()
}
