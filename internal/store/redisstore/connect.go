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

	"github.com/checkpointd/checkpointd/internal/coordinator"
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
	// links are the connections to the server, nil with a cluster.
	links *links
	// visitor are the options of a client that dials anew; nil where others tell which server serves.
	visitor *redis.Options
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
	if a.topology == cluster {
		o.OnConnect = func(context.Context, *redis.Conn) error {
			renewed()
			return nil
		}
		options := a.universal().Cluster()
		options.ClusterStateReloadInterval = slotsLive
		client := redis.NewClusterClient(options)
		client.OnNewNode(func(node *redis.Client) { node.AddHook(replies{}) })
		return connection{UniversalClient: client, cluster: client}
	}
	links := new(links)
	greet := func(ctx context.Context, c *redis.Conn) error { return links.greet(ctx, c, a.topology) }
	o.Dialer = links.dialer(redis.NewDialer(o))
	o.OnConnect = func(ctx context.Context, c *redis.Conn) error {
		renewed()
		return greet(ctx, c)
	}
	if a.topology == sentinel {
		options := a.universal().Failover()
		client := redis.NewFailoverClient(options)
		// From here on they are read for sentinels only.
		options.ReadTimeout, options.WriteTimeout = sentinelTimeout, sentinelTimeout
		client.AddHook(replies{links})
		return connection{UniversalClient: client, server: client, links: links}
	}
	client := redis.NewClient(o)
	client.AddHook(replies{links})
	visitor := *o
	visitor.PoolSize, visitor.MinIdleConns, visitor.OnConnect = 1, 0, greet
	return connection{UniversalClient: client, server: client, links: links, visitor: &visitor}
}

// greet asks a new connection which server it leads to, and refuses it where that is a replica: one that is read-only takes
// no changes, and one that does not hear its master may have nothing yet, of which a reader would be told that there is nothing.
// Who is not allowed to ask does without.
func (l *links) greet(ctx context.Context, c *redis.Conn, t topology) error {
	var sections [2]*redis.StringCmd
	_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		sections = [...]*redis.StringCmd{pipe.Info(ctx, "server"), pipe.Info(ctx, "replication")}
		return nil
	})
	if _, isReply := errors.AsType[redis.Error](err); err != nil && !isReply {
		return err
	}
	var f facts
	for _, section := range sections {
		f.read(section.Val())
	}
	role := f.role
	if role == "" {
		if role, err = roleOf(ctx, c); err != nil {
			return err
		}
	}
	switch {
	case f.mode == "cluster", f.mode == "sentinel": // the library greets sentinels as well
		return nil
	case role == "slave" && (t == sentinel || f.readOnly != "0"):
		return demoted(readOnly)
	case f.isSevered():
		return demoted(severed)
	}
	l.reached(f.runID)
	return nil
}

// roleOf is the role of a server that does not tell INFO, "" where it does not tell at all.
func roleOf(ctx context.Context, c *redis.Conn) (string, error) {
	role, err := c.Do(ctx, "ROLE").Slice()
	if _, isReply := errors.AsType[redis.Error](err); isReply {
		return "", nil
	}
	if err != nil || len(role) == 0 {
		return "", err
	}
	text, _ := role[0].(string)
	return text, nil
}

// severed is what callers are told of a replica that takes changes and does not hear its master.
const severed = "it is a replica that does not hear its master, and may have nothing yet"

// demoted is that a server is a replica.
func demoted(why string) error { return &coordinator.Cause{Says: "Redis refuses: " + why} }

// visit dials anew, to learn whether the address still leads to the server that the open connections lead to, and gives why
// that failed. They go on where it did. Sentinels tell by themselves.
func (c *connection) visit(ctx context.Context) error {
	if c.visitor == nil {
		return nil
	}
	options := *c.visitor
	visitor := redis.NewClient(&options)
	defer func() { _ = visitor.Close() }()
	return visitor.Ping(ctx).Err()
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
