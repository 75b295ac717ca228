package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// settleWithin is how long nodes may take to agree: a few seconds, and many times that on
// a busy machine.
const settleWithin = 2 * time.Minute

// settle polls until check has nothing to complain of, and ends the test when it always has.
func settle(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleWithin)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		// The last look was cut short, and complains of that.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("never happened: %s: %v", what, last)
		}
	}
}

// ask lets f talk to the server by a connection of its own, for a second at most.
func (s *Server) ask(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client := redis.NewClient(s.reach)
	defer func() { _ = client.Close() }()
	return f(ctx, client)
}

// do sends a command that must be taken.
func (s *Server) do(t testing.TB, args ...any) {
	t.Helper()
	err := s.ask(t.Context(), func(ctx context.Context, client *redis.Client) error { return client.Do(ctx, args...).Err() })
	if err != nil {
		t.Fatalf("%v at %s: %v", args, s.Addr, err)
	}
}

// Cut keeps what the server confirms from now on from its replicas, which live on and are
// refused: should the server die, it is lost. Until Heal, or a restart.
func (s *Server) Cut(t testing.TB) {
	t.Helper()
	s.do(t, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
	s.do(t, "CLIENT", "KILL", "TYPE", "replica")
}

// Heal takes replicas again after Cut.
func (s *Server) Heal(t testing.TB) {
	t.Helper()
	s.do(t, "ACL", "SETUSER", "default", "+psync", "+sync", "+replconf")
}

// AwaitInSync waits until these replicas of the server have confirmed what it had when this
// was called.
func (s *Server) AwaitInSync(t testing.TB, replicas ...*Server) {
	t.Helper()
	settle(t, "the replicas are in sync", new(syncing).check(func(context.Context) (map[*Server][]*Server, error) {
		return map[*Server][]*Server{s: replicas}, nil
	}))
}

// ReplicaConfig are arguments of a server that is to be a replica of this one.
func (s *Server) ReplicaConfig() []string {
	return []string{"--replicaof", "127.0.0.1 " + portOf(s)}
}

// Follow makes a replica of a master.
func (s *Server) Follow(t testing.TB, master *Server) {
	t.Helper()
	s.do(t, "REPLICAOF", "127.0.0.1", portOf(master))
}

// FollowNobody makes a replica that hears no master, and keeps what it has.
func (s *Server) FollowNobody(t testing.TB) {
	t.Helper()
	s.do(t, "REPLICAOF", "127.0.0.1", "1")
}

// Promote makes a master of a replica.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.do(t, "REPLICAOF", "NO", "ONE")
}

// replication is what a node tells of itself and its replicas.
type replication struct {
	master bool
	offset int64
	// of is the master of a replica, and linked whether it hears it.
	of     string
	linked bool
	// heard are the offsets that replicas have confirmed, by address.
	heard map[string]int64
}

func (s *Server) replication(ctx context.Context) (replication, error) {
	found := replication{heard: map[string]int64{}}
	err := s.ask(ctx, func(ctx context.Context, client *redis.Client) error {
		text, err := client.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		fields := fieldsOf(text)
		found.master = fields["role"] == "master"
		found.of = net.JoinHostPort(fields["master_host"], fields["master_port"])
		found.linked = fields["master_link_status"] == "up"
		if found.offset, err = strconv.ParseInt(fields["master_repl_offset"], 10, 64); err != nil {
			return err
		}
		for name, value := range fields {
			number, isReplica := strings.CutPrefix(name, "slave")
			if _, err := strconv.Atoi(number); err != nil || !isReplica {
				continue
			}
			replica := map[string]string{}
			for field := range strings.SplitSeq(value, ",") {
				name, value, _ := strings.Cut(field, "=")
				replica[name] = value
			}
			if replica["state"] == "online" {
				offset, _ := strconv.ParseInt(replica["offset"], 10, 64)
				found.heard[net.JoinHostPort(replica["ip"], replica["port"])] = offset
			}
		}
		return nil
	})
	return found, err
}

// fieldsOf reads lines of "name:value".
func fieldsOf(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), ":"); is {
			fields[name] = value
		}
	}
	return fields
}

// syncing is a wait for replicas. Who is whose replica may change meanwhile: on a busy machine
// a master is taken for dead that is not.
type syncing struct {
	// begun is what each master had when it was first seen as one.
	begun map[*Server]int64
}

// check complains until all replicas have confirmed what their masters had at the first look.
func (s *syncing) check(replicas func(context.Context) (map[*Server][]*Server, error)) func(context.Context) error {
	s.begun = map[*Server]int64{}
	return func(ctx context.Context) error {
		now, err := replicas(ctx)
		if err != nil {
			return err
		}
		for master, all := range now {
			if err := s.checkOne(ctx, master, all); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *syncing) checkOne(ctx context.Context, master *Server, replicas []*Server) error {
	now, err := master.replication(ctx)
	if err != nil {
		return fmt.Errorf("ask %s: %w", master.Addr, err)
	}
	if _, seen := s.begun[master]; !seen {
		s.begun[master] = now.offset
	}
	for _, replica := range replicas {
		if offset, online := now.heard[replica.Addr]; !online || offset < s.begun[master] {
			return fmt.Errorf("the replica %s of %s is at %d (online: %v), not yet at %d", replica.Addr, master.Addr, offset, online, s.begun[master])
		}
	}
	return nil
}

// nodes are the servers of a topology.
type nodes []*Server

// serving are those that were neither killed nor paused.
func (n nodes) serving() nodes {
	return slices.DeleteFunc(slices.Clone(n), func(s *Server) bool { return !s.child.serves() })
}

func (n nodes) at(addr string) *Server {
	i := slices.IndexFunc(n, func(s *Server) bool { return s.Addr == addr })
	if i < 0 {
		return nil
	}
	return n[i]
}

func (n nodes) addrs() string {
	addrs := make([]string, len(n))
	for i, s := range n {
		addrs[i] = s.Addr
	}
	return strings.Join(addrs, ",")
}

var errNoNode = errors.New("no node serves")
