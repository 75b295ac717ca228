package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// links are the connections through which one address is reached, a server's own or that of an installation which moves it to
// another server. All connections of one era lead to the same server in the same role, as far as anybody has noticed. When one of
// them shows that it leads elsewhere, the era ends: those of before are used no more, however healthy each of them looks. A server that was
// replaced may live on for long, and what it does not have would be taken for lost.
type links struct {
	era atomic.Int64

	mu sync.Mutex
	// run is the run_id of the server that was reached last, "" while nobody knows it: INFO may be forbidden.
	run string
}

// link is a connection. The pool asks each for its file descriptor before it hands it out, and discards the
// one that has none.
type link struct {
	net.Conn
	links *links
	era   int64
}

var errEraOver = errors.New("the connection is from before the address was found to lead elsewhere")

// SyscallConn refuses once the era of the connection is over.
func (l *link) SyscallConn() (syscall.RawConn, error) {
	if l.era != l.links.era.Load() {
		return nil, errEraOver
	}
	if direct, is := l.Conn.(syscall.Conn); is {
		return direct.SyscallConn() //nolint:wrapcheck // The pool only looks whether there is an error.
	}
	return opaque{}, nil
}

// opaque stands for the descriptor of a connection with TLS, in which nobody may look for bytes.
type opaque struct{}

// Control does nothing.
func (opaque) Control(func(uintptr)) error { return nil }

// Read does nothing.
func (opaque) Read(func(uintptr) bool) error { return nil }

// Write does nothing.
func (opaque) Write(func(uintptr) bool) error { return nil }

// dialer makes the connections of dial links.
func (l *links) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		era := l.era.Load()
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &link{Conn: conn, links: l, era: era}, nil
	}
}

// end ends an era, unless it is over.
func (l *links) end(era int64) { l.era.CompareAndSwap(era, era+1) }

// reached notes which server a new connection leads to. Another one than before ends the era.
func (l *links) reached(run string) {
	if run == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != "" && l.run != run {
		l.era.Add(1)
	}
	l.run = run
}

// leadsTo tells whether this is still the era, and run the server that it led to.
func (l *links) leadsTo(era int64, run string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.era.Load() == era && (l.run == "" || run == "" || l.run == run)
}

// elsewhere begin replies of a server that does not do what the address stands for: it is, or is about to be, another's
// replica, or lost its replicas to another.
var elsewhere = []string{"READONLY ", "MASTERDOWN ", "NOREPLICAS ", "LOADING "}

func leadsElsewhere(err error) bool {
	answered, isReply := errors.AsType[redis.Error](err)
	if !isReply {
		return false
	}
	text := answered.Error()
	return slices.ContainsFunc(elsewhere, func(mark string) bool {
		return strings.HasPrefix(text, mark) || strings.Contains(text, "-"+mark)
	})
}

// replies sees every reply before any caller does. It ends the era of the links when one tells that they lead elsewhere, and gives every
// command of a pipeline an error when the pipeline has one that none of its commands has: where a connection could not
// be set up, because a password has changed, go-redis leaves the commands without error and without value.
type replies struct {
	// links is nil on a cluster, where every node tells who has what.
	links *links
}

var _ redis.Hook = replies{}

// DialHook leaves dialing alone.
func (replies) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sees the reply to one command.
func (r replies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		era := r.now()
		err := next(ctx, cmd)
		r.see(era, err)
		return err
	}
}

// ProcessPipelineHook sees the replies to a pipeline or a transaction.
func (r replies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		era := r.now()
		err := next(ctx, cmds)
		if err != nil && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		r.see(era, err)
		for _, cmd := range cmds {
			r.see(era, cmd.Err())
		}
		return err
	}
}

func (r replies) now() int64 {
	if r.links == nil {
		return 0
	}
	return r.links.era.Load()
}

func (r replies) see(era int64, err error) {
	if r.links != nil && err != nil && leadsElsewhere(err) {
		r.links.end(era)
	}
}
