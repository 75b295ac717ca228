package redistest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Slots is how many slots a cluster has.
const Slots = 16384

// ClusterOptions change a Cluster.
type ClusterOptions struct {
	// NodeTimeout is after how long of silence a node is taken for dead, to the
	// millisecond. Defaults to a second.
	NodeTimeout time.Duration
	// Config are further arguments of each node.
	Config []string
}

// Cluster is three masters with a replica each.
type Cluster struct {
	// Nodes are all. The first three begin as masters of a third of the slots each, the
	// others as their replicas in the same order.
	Nodes []*Server
	// Prefix begins the keys of this test.
	Prefix string

	ids map[*Server]string
}

// StartCluster starts child processes that end with the test, and waits until the cluster
// serves and the replicas are in sync. It skips the test where there is no redis-server,
// or fails it when CI=true.
func StartCluster(t testing.TB, options ClusterOptions) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("-short starts no nodes beside one another")
	}
	if options.NodeTimeout == 0 {
		options.NodeTimeout = time.Second
	}
	c := &Cluster{Prefix: newPrefix(), ids: map[*Server]string{}}
	config := append([]string{"--cluster-node-timeout", strconv.FormatInt(options.NodeTimeout.Milliseconds(), 10)}, options.Config...)
	for range 6 {
		c.Nodes = append(c.Nodes, c.startNode(t, config))
	}
	masters := c.Nodes[:3]
	for i, node := range c.Nodes {
		if i < len(masters) {
			node.do(t, "CLUSTER", "ADDSLOTSRANGE", i*Slots/3, (i+1)*Slots/3-1)
		}
		// Equal epochs would be told apart by an exchange of their own.
		node.do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		node.do(t, "CLUSTER", "MEET", "127.0.0.1", portOf(c.Nodes[0]))
	}
	settle(t, "every node has met all others", func(ctx context.Context) error {
		return c.each(ctx, func(node *Server, info clusterInfo) error {
			if info.known != len(c.Nodes) {
				return fmt.Errorf("%s knows %d nodes", node.Addr, info.known)
			}
			return nil
		})
	})
	for i, replica := range c.Nodes[3:] {
		replica.do(t, "CLUSTER", "REPLICATE", c.ids[masters[i]])
	}
	c.AwaitOK(t)
	c.AwaitInSync(t)
	return c
}

func (c *Cluster) startNode(t testing.TB, config []string) *Server {
	t.Helper()
	dir := t.TempDir()
	p := plan{port: lastingPort, args: config, listen: func(port int) []string {
		return append(onPort(dir)(port), "--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(dir, "nodes.conf"))
	}}
	s := p.own(t)
	s.Prefix = c.Prefix
	err := s.ask(t.Context(), func(ctx context.Context, client *redis.Client) (err error) {
		c.ids[s], err = client.Do(ctx, "CLUSTER", "MYID").Text()
		return err
	})
	if err != nil {
		t.Fatalf("CLUSTER MYID at %s: %v", s.Addr, err)
	}
	return s
}

// URL is what a client connects to: every node.
func (c *Cluster) URL() string { return "redis+cluster://" + nodes(c.Nodes).addrs() }

// clusterInfo is how a node sees the cluster.
type clusterInfo struct {
	ok    bool
	known int
}

// each asks every node that serves how it sees the cluster.
func (c *Cluster) each(ctx context.Context, check func(*Server, clusterInfo) error) error {
	for _, node := range nodes(c.Nodes).serving() {
		err := node.ask(ctx, func(ctx context.Context, client *redis.Client) error {
			text, err := client.ClusterInfo(ctx).Result()
			if err != nil {
				return fmt.Errorf("ask %s: %w", node.Addr, err)
			}
			fields := fieldsOf(text)
			known, err := strconv.Atoi(fields["cluster_known_nodes"])
			if err != nil {
				return err
			}
			return check(node, clusterInfo{ok: fields["cluster_state"] == "ok", known: known})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// AwaitOK waits until every node that serves says that the cluster does, and who serves
// each slot is the same for all of them.
func (c *Cluster) AwaitOK(t testing.TB) {
	t.Helper()
	settle(t, "the cluster serves", func(ctx context.Context) error {
		err := c.each(ctx, func(node *Server, info clusterInfo) error {
			if !info.ok {
				return fmt.Errorf("%s says that the cluster fails", node.Addr)
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, err = c.owners(ctx)
		return err
	})
}

// owners gives the master of each slot, when all nodes agree on it.
func (c *Cluster) owners(ctx context.Context) ([]*Server, error) {
	var agreed []*Server
	for _, node := range nodes(c.Nodes).serving() {
		var ranges []redis.ClusterSlot
		err := node.ask(ctx, func(ctx context.Context, client *redis.Client) (err error) {
			ranges, err = client.ClusterSlots(ctx).Result() //nolint:staticcheck // What came for it is not in Redis 6.2.
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", node.Addr, err)
		}
		owners := make([]*Server, Slots)
		for _, r := range ranges {
			for slot := r.Start; slot <= r.End; slot++ {
				owners[slot] = nodes(c.Nodes).at(r.Nodes[0].Addr)
			}
		}
		if agreed != nil && !slices.Equal(agreed, owners) {
			return nil, fmt.Errorf("%s sees other masters of slots than the nodes before it", node.Addr)
		}
		agreed = owners
	}
	if agreed == nil {
		return nil, errNoNode
	}
	return agreed, nil
}

// Slot is the slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	var slot int64
	settle(t, "a node tells a slot", func(ctx context.Context) error {
		serving := nodes(c.Nodes).serving()
		if len(serving) == 0 {
			return errNoNode
		}
		return serving[0].ask(ctx, func(ctx context.Context, client *redis.Client) (err error) {
			slot, err = client.ClusterKeySlot(ctx, key).Result()
			return err
		})
	})
	return int(slot)
}

// Master is the node that serves a slot, once all nodes agree on it.
func (c *Cluster) Master(t testing.TB, slot int) (master *Server) {
	t.Helper()
	settle(t, fmt.Sprintf("all name one master of slot %d", slot), func(ctx context.Context) error {
		owners, err := c.owners(ctx)
		if err != nil {
			return err
		}
		if master = owners[slot]; master == nil {
			return errors.New("nobody serves it")
		}
		return nil
	})
	return master
}

// AwaitFailover waits until another node than lost serves the slot and the cluster serves
// again, and gives that node.
func (c *Cluster) AwaitFailover(t testing.TB, slot int, lost *Server) (master *Server) {
	t.Helper()
	settle(t, fmt.Sprintf("a failover of slot %d from %s", slot, lost.Addr), func(ctx context.Context) error {
		owners, err := c.owners(ctx)
		if err != nil {
			return err
		}
		if master = owners[slot]; master == nil || master == lost {
			return errors.New("it still serves the slot")
		}
		return nil
	})
	c.AwaitOK(t)
	return master
}

// AwaitInSync waits until every node that serves is a master, or a replica that has
// confirmed what its master had when this was called.
func (c *Cluster) AwaitInSync(t testing.TB) {
	t.Helper()
	settle(t, "the replicas are in sync", new(syncing).check(c.replicas))
}

// replicas gives the replicas that serve, by master.
func (c *Cluster) replicas(ctx context.Context) (map[*Server][]*Server, error) {
	found := map[*Server][]*Server{}
	for _, node := range nodes(c.Nodes).serving() {
		now, err := node.replication(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", node.Addr, err)
		}
		if now.master {
			continue
		}
		if !now.linked {
			return nil, fmt.Errorf("the replica %s does not hear its master", node.Addr)
		}
		master := nodes(c.Nodes).at(now.of)
		if master == nil {
			return nil, fmt.Errorf("%s is a replica of %s", node.Addr, now.of)
		}
		found[master] = append(found[master], node)
	}
	return found, nil
}

// Move is a slot on its way to another node: keys that have moved are asked for there
// (ASK), the others where they were.
type Move struct {
	cluster  *Cluster
	slot     int
	from, to *Server
}

// BeginMove begins to move a slot from its master to another.
func (c *Cluster) BeginMove(t testing.TB, slot int, to *Server) *Move {
	t.Helper()
	m := &Move{cluster: c, slot: slot, from: c.Master(t, slot), to: to}
	to.do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[m.from])
	m.from.do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	return m
}

// Keys moves up to n keys of the slot, and gives how many it has moved: none when none is left.
func (m *Move) Keys(t testing.TB, n int) int {
	t.Helper()
	var keys []string
	err := m.from.ask(t.Context(), func(ctx context.Context, client *redis.Client) (err error) {
		keys, err = client.ClusterGetKeysInSlot(ctx, m.slot, n).Result()
		return err
	})
	if err != nil {
		t.Fatalf("list the keys of slot %d: %v", m.slot, err)
	}
	if len(keys) == 0 {
		return 0
	}
	args := []any{"MIGRATE", "127.0.0.1", portOf(m.to), "", 0, 5000, "KEYS"}
	for _, key := range keys {
		args = append(args, key)
	}
	m.from.do(t, args...)
	return len(keys)
}

// Finish moves what is left, and gives the slot away: who asks at its former master is told
// where it is (MOVED).
func (m *Move) Finish(t testing.TB) {
	t.Helper()
	for moved := 1; moved > 0; {
		moved = m.Keys(t, 100)
	}
	// The new master first: nobody else may answer for the slot meanwhile.
	m.to.do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to])
	m.from.do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to])
	m.cluster.AwaitOK(t)
}

// MoveSlot moves a slot, with its keys, to another master.
func (c *Cluster) MoveSlot(t testing.TB, slot int, to *Server) {
	t.Helper()
	c.BeginMove(t, slot, to).Finish(t)
}
