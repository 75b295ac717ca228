package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// DefaultKeyPrefix is what every key begins with unless [Options] says otherwise.
const DefaultKeyPrefix = "checkpoint:"

// Options configure a [Store]. Only URL is required.
type Options struct {
	// URL names the Redis: redis://, rediss:// (TLS) or unix://, with user, password and
	// database as usual.
	URL string
	// KeyPrefix begins every key. It must not contain braces, which would move the
	// cluster slots of keys. Defaults to DefaultKeyPrefix.
	KeyPrefix string
	// Observer is told of what scripts did besides their answer: which checkpoints ended,
	// and which are gone. It must not call the store: acknowledgements wait until it has
	// returned. Defaults to coordinator.Silence.
	Observer coordinator.Observer
	// Clock, in Unix ms, replaces the server's own clock in tests. Defaults to nil.
	Clock func() int64
}

// Store keeps jobs and checkpoints in Redis. It is safe for concurrent use.
type Store struct {
	client   *redis.Client
	prefix   string
	observer coordinator.Observer
	clock    func() int64
	floors   floors
	states   states
	sweeps   sweeps
	health   health
	acks     coalescer
}

// A call is given callBudget in all, retries included, and one second more for every
// bytesPerSecond it carries: a trigger is answered within two seconds whatever Redis does.
const (
	callBudget     = 1500 * time.Millisecond
	bytesPerSecond = 4 << 20

	dialTimeout = time.Second
	// The socket timeouts are only a backstop: every call has a deadline of its own,
	// which is shorter unless the call is very large.
	readTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second
)

// New sets a store up. It does not reach for Redis, which may come later; an error is
// about the options.
func New(options Options) (*Store, error) {
	parsed, err := redis.ParseURL(options.URL)
	if err != nil {
		return nil, fmt.Errorf("parse the Redis URL: %w", redactURL(err))
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
		prefix: options.KeyPrefix, observer: options.Observer, clock: options.Clock,
		floors: floors{highest: make(map[string]int64)},
		states: states{kept: make(map[string]keptState)},
		sweeps: sweeps{kept: make(map[string]keptSweep)},
	}
	// The library would write to standard error what the observer is told as well.
	logging.Disable()
	s.client = redis.NewClient(s.clientOptions(parsed))
	return s, nil
}

// clientOptions states what go-redis would otherwise decide: above all that it never
// sends a command twice, since only run knows which may be.
func (s *Store) clientOptions(o *redis.Options) *redis.Options {
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.DialTimeout = dialTimeout
	o.DialerRetries = 1
	o.ReadTimeout = readTimeout
	o.WriteTimeout = writeTimeout
	o.PoolTimeout = callBudget
	o.ClientName = "checkpointd"
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// A new connection may lead to a restarted server with another configuration.
	o.OnConnect = func(context.Context, *redis.Conn) error {
		s.health.stale.Store(true)
		return nil
	}
	return o
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

// floors remembers the highest id that this process has seen of each job. A Redis that
// lost what it had confirmed is thereby kept from giving an id twice.
type floors struct {
	mu      sync.Mutex
	highest map[string]int64
}

// see raises the floor of a job.
func (f *floors) see(job string, id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seen, known := f.highest[job]; !known || seen < id {
		f.highest[job] = id
	}
}

// of is the floor of a job, -1 when no id was seen yet.
func (f *floors) of(job string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seen, known := f.highest[job]; known {
		return seen
	}
	return -1
}

// health is what Health last learned about the server.
type health struct {
	// stale asks the next Health to read it again.
	stale atomic.Bool

	mu       sync.Mutex
	readAt   time.Time
	warnings []coordinator.Warning
}

// redactURL drops the URL from a parse error: it may hold a password.
func redactURL(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
