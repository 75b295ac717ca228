package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// DefaultKeyPrefix is what every key begins with unless [Options] says otherwise.
const DefaultKeyPrefix = "checkpoint:"

// Options configure a [Store]. Only URL is required.
type Options struct {
	// URL names the Redis, with user, password and database as usual:
	//   - redis://host:port/db, rediss:// (TLS), unix:///path;
	//   - redis+sentinel://host:port,host:port/db?master=NAME, of some or all sentinels, whose own user
	//     and password are sentinelUser= and sentinelPassword=; rediss+sentinel:// (TLS for all);
	//   - redis+cluster://host:port,host:port, of some nodes; rediss+cluster:// (TLS for all).
	URL string
	// CAFile has the authorities (PEM) that servers with TLS are trusted by. Defaults to the system's.
	CAFile string
	// CertFile and KeyFile are the certificate (PEM) for servers that ask clients for one.
	CertFile, KeyFile string
	// KeyPrefix begins every key. It must not contain braces, which would move the
	// cluster slots of keys. Defaults to DefaultKeyPrefix.
	KeyPrefix string
	// MinReplicas is how many replicas must have a change before it is answered; when they do not in
	// time the answer is not_replicated. Defaults to 0, which waits for none.
	MinReplicas int
	// Observer is told of what scripts did besides their answer: which checkpoints ended,
	// and which are gone. It must not call the store: acknowledgements wait until it has
	// returned. Defaults to coordinator.Silence.
	Observer coordinator.Observer
	// Clock, in Unix ms, replaces the server's own clock in tests. Defaults to nil.
	Clock func() int64
}

// Store keeps jobs and checkpoints in Redis. It is safe for concurrent use.
type Store struct {
	client   connection
	prefix   string
	observer coordinator.Observer
	clock    func() int64
	// minReplicas is that of the options.
	minReplicas int
	floors      floors
	states      states
	sweeps      sweeps
	health      health
	acks        coalescer
	bulks       chan struct{}
	// leftOut has those that lists left out and the observer was told of, see leaveOut.
	leftOut sync.Map
	// rebuilt has the jobs of which this process has looked for lost counters, see raise.
	rebuilt sync.Map
}

// A call is given callBudget in all, retries included, and one second more for every
// bytesPerSecond it carries: a trigger is answered within two seconds whatever Redis does.
const (
	callBudget     = 1500 * time.Millisecond
	bytesPerSecond = 4 << 20
)

// New sets a store up. It does not reach for Redis, which may come later; an error is
// about the options.
func New(options Options) (*Store, error) {
	where, err := parseURL(options.URL)
	if err != nil {
		return nil, fmt.Errorf("parse the Redis URL: %w", err)
	}
	if err := where.trust(options); err != nil {
		return nil, err
	}
	if options.KeyPrefix == "" {
		options.KeyPrefix = DefaultKeyPrefix
	}
	if strings.ContainsAny(options.KeyPrefix, "{}") {
		return nil, fmt.Errorf("key prefix %q: braces are refused, they would move the cluster slots of keys", options.KeyPrefix)
	}
	if options.Observer == nil {
		options.Observer = coordinator.Silence{}
	}
	s := &Store{
		prefix: options.KeyPrefix, observer: options.Observer, clock: options.Clock, minReplicas: options.MinReplicas,
		floors: floors{seen: make(map[string]floor)},
		states: states{kept: make(map[string]keptState)},
		sweeps: sweeps{kept: make(map[string]keptSweep)},
		bulks:  make(chan struct{}, bulkCalls),
	}
	// A new connection may lead to a restarted server with another configuration.
	s.client = connect(where, func() { s.health.stale.Store(true) })
	return s, nil
}

// Close gives all connections back. No call may be running or follow; acknowledgements whose callers
// have given up may still be on their way, and are waited for.
func (s *Store) Close() error {
	s.acks.close()
	if err := s.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("close the Redis client: %w", err)
	}
	return nil
}

// now is ARGV[1] of every script.
func (s *Store) now() string {
	if s.clock == nil {
		return ""
	}
	return decimal(s.clock())
}

// health is what Health last learned about the server.
type health struct {
	// stale asks the next Health to read it again.
	stale atomic.Bool

	mu       sync.Mutex
	readAt   time.Time
	warnings []coordinator.Warning
	// states are those of the servers, by address, when they were asked.
	states map[string]string
}
