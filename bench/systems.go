package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/bench/process"
	"github.com/checkpointd/checkpointd/bench/standin"
)

// system is a set of processes that are measured together, and where they are reached.
// Each measurement starts its own: nothing is left of what was measured before.
type system struct {
	group     *process.Group
	processes []*process.Process
	address   string        // of its HTTP server, HOST:PORT
	redis     *redis.Client // nil without one
	redisAt   string
	data      string // folder of an embedded store, "" without one
}

// stop ends the processes and removes what they kept.
func (s *system) stop() {
	if s.redis != nil {
		_ = s.redis.Close()
	}
	s.group.Stop(s.processes...)
	if s.data != "" {
		_ = os.RemoveAll(s.data)
	}
}

// process gives the one of that name.
func (s *system) process(name string) *process.Process {
	for _, p := range s.processes {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Names of processes in tables.
const (
	serverName   = "server"
	redisName    = "redis"
	webdisName   = "webdis"
	etcdName     = "etcd"
	standInsName = "stand-ins"
)

// onRedis starts a Redis that persists nothing, and the server on it.
func (b *bench) onRedis(ctx context.Context, flags ...string) (*system, error) {
	return b.assemble(ctx, (*bench).addRedis, func(b *bench, ctx context.Context, s *system) error {
		return b.addServer(ctx, s, append([]string{"--redis", "redis://" + s.redisAt}, flags...)...)
	})
}

// onDisk starts the server on its embedded store.
func (b *bench) onDisk(ctx context.Context, flags ...string) (*system, error) {
	return b.assemble(ctx, func(b *bench, ctx context.Context, s *system) error {
		var err error
		if s.data, err = os.MkdirTemp(b.folder, "data-"); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		return b.addServer(ctx, s, append([]string{"--data", s.data}, flags...)...)
	})
}

// webdis starts a Redis, and webdis on it.
func (b *bench) webdis(ctx context.Context) (*system, error) {
	return b.assemble(ctx, (*bench).addRedis, (*bench).addWebdis)
}

// etcd starts a cluster of one.
func (b *bench) etcd(ctx context.Context) (*system, error) {
	return b.assemble(ctx, (*bench).addEtcd)
}

// standIns starts a Redis, and the stand-ins on it.
func (b *bench) standIns(ctx context.Context) (*system, error) {
	return b.assemble(ctx, (*bench).addRedis, (*bench).addStandIns)
}

// assemble takes the steps in turn; one that fails stops what those before it started.
func (b *bench) assemble(ctx context.Context, steps ...func(*bench, context.Context, *system) error) (*system, error) {
	s := &system{group: &b.group}
	for _, step := range steps {
		if err := step(b, ctx, s); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

func (b *bench) addRedis(ctx context.Context, s *system) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	p, err := b.group.Start(redisName, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", b.folder, "--loglevel", "warning")
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	s.redisAt = "127.0.0.1:" + port
	s.redis = redis.NewClient(&redis.Options{Addr: s.redisAt, MaxRetries: -1})
	return p.Await(ctx, func(ctx context.Context) error { return s.redis.Ping(ctx).Err() })
}

// addServer starts the server with its defaults, but for what keeps a benchmark from running:
// many checkpoints may be pending, and none expires.
func (b *bench) addServer(ctx context.Context, s *system, flags ...string) error {
	arguments := append([]string{"--listen", "127.0.0.1:0", "--max-concurrent-checkpoints", "1000", "--checkpoint-timeout", "0s"}, flags...)
	p, err := b.group.Start(serverName, b.server, arguments...)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return p.Await(ctx, func(context.Context) error {
		head, err := p.Head()
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(head)) {
			var entry struct {
				Message string `json:"message"`
				Address string `json:"address"`
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "checkpointd serves" {
				s.address = entry.Address
				return nil
			}
		}
		return errors.New("it has not said where it listens")
	})
}

func (b *bench) addStandIns(ctx context.Context, s *system) error {
	p, err := b.group.Start(standInsName, b.self, standin.Argument, s.redisAt)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return p.Await(ctx, func(context.Context) error {
		head, err := p.Head()
		if err != nil {
			return err
		}
		address, _, whole := strings.Cut(string(head), "\n")
		if !whole {
			return errors.New("it has not said where it listens")
		}
		s.address = address
		return nil
	})
}

// addWebdis starts webdis with two threads, the number that it was fastest with.
func (b *bench) addWebdis(ctx context.Context, s *system) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	_, redisPort, _ := net.SplitHostPort(s.redisAt)
	config := filepath.Join(b.folder, "webdis-"+port+".json")
	text := fmt.Sprintf(`{"redis_host": "127.0.0.1", "redis_port": %s, "http_host": "127.0.0.1", "http_port": %s, "threads": 2,
		"pool_size": 20, "daemonize": false, "websockets": false, "database": 0, "acl": [], "verbosity": 0, "logfile": %q}`,
		redisPort, port, filepath.Join(b.folder, "webdis.log"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("configuring webdis: %w", err)
	}
	p, err := b.group.Start(webdisName, "webdis", config)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	s.address = "127.0.0.1:" + port
	return p.Await(ctx, func(ctx context.Context) error {
		_, err := b.call(ctx, http.MethodGet, s.url("/PING"), nil)
		return err
	})
}

func (b *bench) addEtcd(ctx context.Context, s *system) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	peerPort, err := freePort()
	if err != nil {
		return err
	}
	if s.data, err = os.MkdirTemp(b.folder, "etcd-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	client, peer := "http://127.0.0.1:"+port, "http://127.0.0.1:"+peerPort
	p, err := b.group.Start(etcdName, "etcd", "--name", "bench", "--data-dir", s.data, "--logger", "zap", "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "bench="+peer)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	s.address = "127.0.0.1:" + port
	return p.Await(ctx, func(ctx context.Context) error {
		_, err := b.call(ctx, http.MethodGet, s.url("/health"), nil)
		return err
	})
}

// freePort finds a port of the loopback that nobody listens on now.
func freePort() (string, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return port, nil
}

func (s *system) url(path string) string { return "http://" + s.address + path }

// installed tells whether a program is there to compare with.
func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// call sends one request and gives the answer's body; an answer that is no 2xx is an error.
func (b *bench) call(ctx context.Context, method, url string, body io.Reader) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := b.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %.300s", method, url, response.Status, answer)
	}
	return answer, nil
}

// trigger makes a pending checkpoint that so many tasks have to acknowledge.
func (b *bench) trigger(ctx context.Context, s *system, required int) (id int64, err error) {
	answer, err := b.call(ctx, http.MethodPost, s.url("/checkpoints"), strings.NewReader(`{"requiredTaskAcks":`+strconv.Itoa(required)+`}`))
	if err != nil {
		return 0, err
	}
	var checkpoint struct {
		CheckpointID int64 `json:"checkpointId"`
	}
	if err := json.Unmarshal(answer, &checkpoint); err != nil {
		return 0, fmt.Errorf("reading the answer of a trigger: %w", err)
	}
	return checkpoint.CheckpointID, nil
}

// requestTimeout is longer than anything that is asked of a server here.
const requestTimeout = 2 * time.Minute

func newClient() *http.Client {
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
}
