package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// masterName is what the sentinels call the master.
const masterName = "checkpoints"

// SentinelOptions change a Sentinel.
type SentinelOptions struct {
	// DownAfter is after how long of silence a master is taken for dead, to the
	// millisecond. Defaults to a second.
	DownAfter time.Duration
	// Replicas is how many the master has. Defaults to two.
	Replicas int
	// Config are further arguments of each node that holds data.
	Config []string
}

// Sentinel is a master with replicas, watched by three sentinels.
type Sentinel struct {
	// Nodes hold the data. The first one begins as the master.
	Nodes []*Server
	// Sentinels watch them.
	Sentinels []*Server
	// Prefix begins the keys of this test.
	Prefix string
}

// StartSentinel starts child processes that end with the test, and waits until all know one
// another. It skips the test where there is no redis-server, or fails it when CI=true.
func StartSentinel(t testing.TB, options SentinelOptions) *Sentinel {
	t.Helper()
	if testing.Short() {
		t.Skip("-short starts no nodes beside one another")
	}
	if options.DownAfter == 0 {
		options.DownAfter = time.Second
	}
	if options.Replicas == 0 {
		options.Replicas = 2
	}
	s := &Sentinel{Prefix: newPrefix()}
	for i := range 1 + options.Replicas {
		config := options.Config
		if i > 0 {
			config = append(s.Nodes[0].ReplicaConfig(), config...)
		}
		s.Nodes = append(s.Nodes, startNode(t, s.Prefix, config))
	}
	for range 3 {
		s.Sentinels = append(s.Sentinels, startWatcher(t))
	}
	s.Nodes[0].AwaitInSync(t, s.Nodes[1:]...)
	for _, watcher := range s.Sentinels {
		s.watch(t, watcher, options.DownAfter)
	}
	s.AwaitQuorum(t)
	return s
}

// startNode starts a node that holds data. It has a file for what others tell it to
// remember, such as whose replica it is.
func startNode(t testing.TB, prefix string, config []string) *Server {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "redis.conf")
	writeFile(t, file)
	p := plan{port: lastingPort, args: config, listen: func(port int) []string {
		return append([]string{file}, onPort(dir)(port)...)
	}}
	s := p.own(t)
	s.Prefix = prefix
	return s
}

// startWatcher starts a sentinel that watches nothing yet.
func startWatcher(t testing.TB) *Server {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	writeFile(t, file)
	return plan{port: lastingPort, listen: func(port int) []string {
		return []string{file, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--sentinel"}
	}}.own(t)
}

func writeFile(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func portOf(s *Server) string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

func (s *Sentinel) watch(t testing.TB, watcher *Server, downAfter time.Duration) {
	t.Helper()
	// By themselves sentinels look for one another every two seconds and at what has become
	// of a master that is back every ten, and they do nothing for half a minute when the
	// machine made them wait for two seconds. Before version 7 it has to be so.
	_ = watcher.ask(t.Context(), func(ctx context.Context, client *redis.Client) error {
		return client.Do(ctx, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "500", "TILT-TRIGGER", "30000").Err()
	})
	watcher.do(t, "SENTINEL", "MONITOR", masterName, "127.0.0.1", portOf(s.Nodes[0]), 2)
	for name, value := range map[string]any{
		"down-after-milliseconds": downAfter.Milliseconds(),
		"failover-timeout":        3000, // twice that passes after an election without a winner
		"parallel-syncs":          2,
	} {
		watcher.do(t, "SENTINEL", "SET", masterName, name, value)
	}
}

// URL is what a client connects to: the sentinels, and what they call the master.
func (s *Sentinel) URL() string {
	return "redis+sentinel://" + nodes(s.Sentinels).addrs() + "/0?master=" + masterName
}

// MasterName is what the sentinels call the master.
func (s *Sentinel) MasterName() string { return masterName }

// AwaitQuorum waits until all sentinels that serve know one another and every node.
func (s *Sentinel) AwaitQuorum(t testing.TB) {
	t.Helper()
	settle(t, "the sentinels know everybody", func(ctx context.Context) error {
		for _, watcher := range nodes(s.Sentinels).serving() {
			var known map[string]string
			err := watcher.ask(ctx, func(ctx context.Context, client *redis.Client) (err error) {
				asked := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", masterName)
				err = client.Process(ctx, asked)
				known = asked.Val()
				return err
			})
			if err != nil {
				return fmt.Errorf("ask the sentinel %s: %w", watcher.Addr, err)
			}
			if known["flags"] != "master" || known["num-slaves"] != strconv.Itoa(len(s.Nodes)-1) || known["num-other-sentinels"] != "2" {
				return fmt.Errorf("the sentinel %s sees a %s with %s replicas, and %s sentinels besides itself",
					watcher.Addr, known["flags"], known["num-slaves"], known["num-other-sentinels"])
			}
		}
		return nil
	})
}

// Master is the node that all sentinels which serve name, and that takes itself for the master.
func (s *Sentinel) Master(t testing.TB) *Server {
	t.Helper()
	return s.awaitMaster(t, "all name one master", nil)
}

// AwaitFailover waits until another node than lost is the master, and gives it.
func (s *Sentinel) AwaitFailover(t testing.TB, lost *Server) *Server {
	t.Helper()
	return s.awaitMaster(t, "a failover from "+lost.Addr, lost)
}

func (s *Sentinel) awaitMaster(t testing.TB, what string, not *Server) (master *Server) {
	t.Helper()
	settle(t, what, func(ctx context.Context) (err error) {
		if master, err = s.named(ctx); err != nil {
			return err
		}
		if master == not {
			return errors.New("it still is the master")
		}
		now, err := master.replication(ctx)
		if err == nil && !now.master {
			err = errors.New("it is a replica")
		}
		if err != nil {
			return fmt.Errorf("ask %s: %w", master.Addr, err)
		}
		return nil
	})
	return master
}

// named gives the node that all sentinels name as the master.
func (s *Sentinel) named(ctx context.Context) (*Server, error) {
	var master *Server
	for _, watcher := range nodes(s.Sentinels).serving() {
		var address []string
		err := watcher.ask(ctx, func(ctx context.Context, client *redis.Client) (err error) {
			address, err = client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("ask the sentinel %s: %w", watcher.Addr, err)
		}
		named := nodes(s.Nodes).at(net.JoinHostPort(address[0], address[1]))
		if named == nil || master != nil && named != master {
			return nil, fmt.Errorf("the sentinel %s names %v", watcher.Addr, address)
		}
		master = named
	}
	if master == nil {
		return nil, errNoNode
	}
	return master, nil
}

// AwaitInSync waits until every node that serves is the master, or a replica that has
// confirmed what the master had when this was called.
func (s *Sentinel) AwaitInSync(t testing.TB) {
	t.Helper()
	settle(t, "the replicas are in sync", new(syncing).check(func(ctx context.Context) (map[*Server][]*Server, error) {
		master, err := s.named(ctx)
		if err != nil {
			return nil, err
		}
		replicas := slices.DeleteFunc(nodes(s.Nodes).serving(), func(node *Server) bool { return node == master })
		return map[*Server][]*Server{master: replicas}, nil
	}))
}
