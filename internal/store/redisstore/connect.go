package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	dialTimeout = time.Second
	// The socket timeouts are only a backstop: every call has a deadline of its own,
	// which is shorter unless the call is very large.
	readTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second
	// sentinelTimeout is how long a sentinel may take to answer: shorter than a dial, which
	// has to ask another one after it.
	sentinelTimeout = 300 * time.Millisecond
	// slotsLive is after how long the map of a cluster is read again although nothing failed.
	slotsLive = 10 * time.Second
)

// connection leads to the server that has a key. What is the same of every server, such as
// a subscription, goes through the client that it embeds; everything about keys goes through node,
// so that what was sent where, and how often, is known here and not to the library.
type connection struct {
	redis.UniversalClient
	// server is the only one, nil with a cluster; sentinels name it anew for each connection.
	server *redis.Client
	// cluster is nil without one.
	cluster *redis.ClusterClient
}

// connect makes the clients. It does not reach for any server. renewed is called with each new connection.
func connect(a address, renewed func()) connection {
	// The library would write to standard error what the observer is told as well.
	logging.Disable()
	o := a.options
	// It states what go-redis would otherwise decide: above all that it never sends a command
	// twice, since only run knows which may be.
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.DialTimeout = dialTimeout
	o.DialerRetries = 1
	o.ReadTimeout = readTimeout
	o.WriteTimeout = writeTimeout
	o.PoolTimeout = callBudget
	o.ClientName = "checkpointd"
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.PoolSize == 0 {
		o.PoolSize = 10 * runtime.GOMAXPROCS(0)
	}
	o.OnConnect = func(ctx context.Context, c *redis.Conn) error {
		renewed()
		if a.topology == sentinel {
			return demandMaster(ctx, c)
		}
		return nil
	}
	switch a.topology {
	case cluster:
		options := a.universal().Cluster()
		options.ClusterStateReloadInterval = slotsLive
		client := redis.NewClusterClient(options)
		return connection{UniversalClient: client, cluster: client}
	case sentinel:
		options := a.universal().Failover()
		client := redis.NewFailoverClient(options)
		// From here on they are read for sentinels only.
		options.ReadTimeout, options.WriteTimeout = sentinelTimeout, sentinelTimeout
		return connection{UniversalClient: client, server: client}
	default:
		client := redis.NewClient(o)
		return connection{UniversalClient: client, server: client}
	}
}

// errDemoted is that a sentinel has not heard of a failover yet. A replica would answer reads, with what it has.
var errDemoted = errors.New("the server that a sentinel named is a replica")

// demandMaster refuses a new connection to a replica. Who is not allowed to ask does without.
func demandMaster(ctx context.Context, c *redis.Conn) error {
	role, err := c.Do(ctx, "ROLE").Slice()
	if _, isReply := errors.AsType[redis.Error](err); isReply {
		return nil
	}
	if err == nil && len(role) > 0 && role[0] == "slave" {
		return errDemoted
	}
	return err
}

// unroutable is that nobody can tell which server has a key: nothing was sent. Its cause may be a
// reply, but not one to the command in question.
type unroutable struct{ cause error }

// Error names the cause.
func (e unroutable) Error() string { return fmt.Sprintf("find the server of a key: %v", e.cause) }

// node gives the server that has a key, as far as is known.
func (c *connection) node(ctx context.Context, key string) (*redis.Client, error) {
	if c.cluster == nil {
		return c.server, nil
	}
	node, err := c.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, unroutable{err}
	}
	return node, nil
}

// masters gives every server that has keys.
func (c *connection) masters(ctx context.Context) ([]*redis.Client, error) {
	if c.cluster == nil {
		return []*redis.Client{c.server}, nil
	}
	var mu sync.Mutex
	var found []*redis.Client
	err := c.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, node)
		return nil
	})
	if err != nil {
		return nil, unroutable{err}
	}
	return found, nil
}

// suspect is told of an attempt that came to nothing: keys may have moved to another server.
func (c *connection) suspect(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}

// spread sends what is about several keys, to each server what it has, in one round trip and at the
// same time. at are indexes into keys. It gives the first error.
func (c *connection) spread(ctx context.Context, keys []string, send func(ctx context.Context, node *redis.Client, at []int) error) error {
	if c.cluster == nil {
		all := make([]int, len(keys))
		for i := range all {
			all[i] = i
		}
		return send(ctx, c.server, all)
	}
	parts := map[*redis.Client][]int{}
	for i, key := range keys {
		node, err := c.node(ctx, key)
		if err != nil {
			return err
		}
		parts[node] = append(parts[node], i)
	}
	var sent sync.WaitGroup
	var first error
	var once sync.Once
	for node, at := range parts {
		sent.Go(func() {
			if err := send(ctx, node, at); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	sent.Wait()
	return first
}
