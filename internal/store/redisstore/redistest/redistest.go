// Package redistest finds a real Redis for tests.
//
// It looks in this order and stops at the first that is there:
//
//  1. the server that CHECKPOINTD_TEST_REDIS names (redis://…);
//  2. a container of the image that CHECKPOINTD_TEST_REDIS_IMAGE names, where a container
//     engine answers;
//  3. a redis-server child process on a free port.
//
// One server is shared by all tests of a process; each gets a key prefix of its own, so
// that they run in parallel and leave a developer's keys alone. A test that stops or
// configures its server asks for one of its own, which is always a child process, and so are
// the nodes of [StartSentinel] and [StartCluster].
//
// A package that uses it hands its TestMain over:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
// Without any Redis the tests that need one are skipped and [Main] fails the package, since
// "ok" beside a hundred skipped tests would not be seen. CHECKPOINTD_TEST_REDIS=none says that
// Redis is left out on purpose; then the package passes. Where CI=true each of these tests fails.
package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Environment variables that choose and report the server.
const (
	envURL    = "CHECKPOINTD_TEST_REDIS"
	envImage  = "CHECKPOINTD_TEST_REDIS_IMAGE"
	envReport = "CHECKPOINTD_TEST_REPORT"
)

// leftOut in place of an address leaves Redis out on purpose.
const leftOut = "none"

// Options of a server.
type Options struct {
	// Own asks for a server of the test's own, with the methods Stop, Kill, Pause and
	// Start. Defaults to the shared one.
	Own bool
	// Config are further arguments of redis-server, such as "--maxmemory", "8mb". They
	// imply Own.
	Config []string
	// TLS has the server speak nothing else; Server.CAFile then has the authority of its
	// certificate. It implies Own.
	TLS bool
	// User is the name of the only user who may connect, and who may do everything; another
	// is made with ACL SETUSER. Password is that of the user. A user implies Own.
	User, Password string
}

// Server is a running Redis.
type Server struct {
	// URL is what a client connects to, Addr its host:port.
	URL  string
	Addr string
	// CAFile is the authority that a client has to trust, "" without TLS.
	CAFile string
	// Prefix begins the keys of this test; nothing else uses it.
	Prefix string

	reach *redis.Options
	child *child // nil for the shared one
}

// Start gives a Redis that answers. With Options.Own it ends with the test. It skips the
// test when there is none, or fails it when CI=true.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	if options.Own || len(options.Config) > 0 || options.TLS || options.User != "" {
		return startOwn(t, options)
	}
	url, err := shared()
	if err != nil {
		unavailable(t, err)
	}
	reach, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("parse %q: %v", url, err)
	}
	return newServer(url, plain(reach)).Apart(t)
}

// Apart gives the same server for other keys, below a prefix of their own. On the shared
// server they go with the test: whoever looks for keys there goes through those of all tests.
func (s *Server) Apart(t testing.TB) *Server {
	t.Helper()
	apart := *s
	apart.Prefix = newPrefix()
	if apart.child == nil {
		t.Cleanup(func() {
			if err := apart.clear(context.WithoutCancel(t.Context())); err != nil {
				t.Logf("remove the keys of the test: %v", err)
			}
		})
	}
	return &apart
}

// clear removes all keys below the prefix.
func (s *Server) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	client := redis.NewClient(s.reach)
	defer func() { _ = client.Close() }()
	var keys []string
	scan := client.Scan(ctx, 0, s.Prefix+"*", 10_000).Iterator()
	for scan.Next(ctx) {
		keys = append(keys, scan.Val())
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("list them: %w", err)
	}
	for some := range slices.Chunk(keys, 1000) {
		if err := client.Unlink(ctx, some...).Err(); err != nil {
			return fmt.Errorf("unlink them: %w", err)
		}
	}
	return nil
}

// Client is a plain client, closed with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(s.reach)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newServer(url string, reach *redis.Options) *Server {
	return &Server{URL: url, Addr: reach.Addr, Prefix: newPrefix(), reach: reach}
}

func newPrefix() string { return "test-" + strings.ToLower(rand.Text()[:12]) + ":" }

// unavailable ends a test that cannot run.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no Redis for the tests: %v", err)
	}
	withoutRedis.Add(1)
	t.Skipf("no Redis for the tests: %v; install redis-server, or set %s", err, envURL)
}

// The library would write a line for every failed dial, and dials fail on purpose here.
func init() { logging.Disable() }

// The shared server of this process, and how Main ends it.
var (
	shared = sync.OnceValues(findShared)

	mu       sync.Mutex
	finishes []func()
	handed   bool
)

// withoutRedis counts the tests that found no Redis.
var withoutRedis atomic.Int64

// Main runs the tests of a package, ends what they share, and exits: with an error, too, where
// tests found no Redis and nobody has said that it is left out.
func Main(m *testing.M) {
	mu.Lock()
	handed = true
	mu.Unlock()
	code := m.Run()
	finishAll()
	if n := withoutRedis.Load(); n > 0 && code == 0 && os.Getenv(envURL) != leftOut {
		fmt.Fprintf(os.Stderr, "THE REDIS LEG WAS NOT RUN: %d tests found no Redis. Install redis-server, or name one in %s; %s=%s leaves them out.\n", n, envURL, envURL, leftOut)
		code = 1
	}
	os.Exit(code)
}

func finishAll() {
	mu.Lock()
	defer mu.Unlock()
	for _, finish := range finishes {
		finish()
	}
}

// atEnd has Main call finish. It is an error in a package that did not hand over its
// TestMain: its servers would outlive it.
func atEnd(finish func()) error {
	mu.Lock()
	defer mu.Unlock()
	if !handed {
		finish()
		return fmt.Errorf("the package has no TestMain that calls redistest.Main")
	}
	finishes = append(finishes, finish)
	return nil
}

var errLeftOut = errors.New("no Redis is asked for")

func findShared() (string, error) {
	if url := os.Getenv(envURL); url == leftOut {
		return "", errLeftOut
	} else if url != "" {
		return url, reached(url, envURL, "")
	}
	if image := os.Getenv(envImage); image != "" {
		url, finish, err := startContainer(image)
		switch {
		case err == nil:
			if err := atEnd(finish); err != nil {
				return "", err
			}
			return url, reached(url, "container", image)
		case !isNoEngine(err):
			return "", err
		}
	}
	c, err := plan{port: freePort, listen: onPort("/")}.start()
	if err != nil {
		return "", err
	}
	if err := atEnd(c.end); err != nil {
		return "", err
	}
	return c.url(), reached(c.url(), "child process", "")
}

// readyWithin is how long a server may take until it answers.
const readyWithin = 20 * time.Second

// reached waits until the server answers and appends a line about it to the file that
// CHECKPOINTD_TEST_REPORT names: CI is red without one.
func reached(address, kind, image string) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	options, err := redis.ParseURL(address)
	if err != nil {
		return fmt.Errorf("reach the %s: %w", kind, err)
	}
	version, err := awaitVersion(ctx, options)
	if err != nil {
		return fmt.Errorf("reach the %s at %s: %w", kind, address, err)
	}
	name := os.Getenv(envReport)
	if name == "" {
		return nil
	}
	report, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("report the Redis: %w", err)
	}
	line := strings.TrimSpace(fmt.Sprintf("redis %s %s %s", kind, version, image)) + "\n"
	_, err = report.WriteString(line)
	if closeErr := report.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("report the Redis: %w", err)
	}
	return nil
}

// awaitVersion polls a server until it answers with its version.
func awaitVersion(ctx context.Context, options *redis.Options) (string, error) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		version, err := askVersion(ctx, options)
		if err == nil {
			return version, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("it does not answer: %w", err)
		case <-ticker.C:
		}
	}
}

// askVersion dials anew each time: a client that failed often dials only once a second.
func askVersion(ctx context.Context, options *redis.Options) (string, error) {
	client := redis.NewClient(plain(options))
	defer func() { _ = client.Close() }()
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	return info["Server"]["redis_version"], nil
}

// plain gives options that fail at once, so that a test sees a server go.
func plain(options *redis.Options) *redis.Options {
	copied := *options
	copied.MaxRetries = -1
	copied.DialerRetries = 1
	copied.DialTimeout = time.Second
	copied.ContextTimeoutEnabled = true
	return &copied
}
