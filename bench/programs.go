package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/bench/process"
	"github.com/checkpointd/checkpointd/bench/standin"
)

// Names of processes, also in tables.
const (
	serverName   = "server"
	redisName    = "redis"
	webdisName   = "webdis"
	etcdName     = "etcd"
	standInsName = "stand-ins"
	profilesName = "profiles" // an address of the server
)

// withRedis adds a Redis that persists nothing.
func withRedis(ctx context.Context, b *bench, s *system) error {
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
	s.addresses[redisName] = "127.0.0.1:" + port
	s.redis = redis.NewClient(&redis.Options{Addr: s.addresses[redisName], MaxRetries: -1})
	return p.Await(ctx, func(ctx context.Context) error { return s.redis.Ping(ctx).Err() })
}

// onRedis adds the server, on the system's Redis.
func onRedis(flags ...string) step {
	return func(ctx context.Context, b *bench, s *system) error {
		return addServer(ctx, b, s, append([]string{"--redis", "redis://" + s.addresses[redisName]}, flags...)...)
	}
}

// onDisk adds the server, on its embedded store.
func onDisk(flags ...string) step {
	return func(ctx context.Context, b *bench, s *system) error {
		folder, err := s.folder(b)
		if err != nil {
			return err
		}
		return addServer(ctx, b, s, append([]string{"--data", folder}, flags...)...)
	}
}

// folder makes one that goes with the system.
func (s *system) folder(b *bench) (string, error) {
	folder, err := os.MkdirTemp(b.folder, "data-")
	if err != nil {
		return "", fmt.Errorf("making a folder: %w", err)
	}
	s.folders = append(s.folders, folder)
	return folder, nil
}

// addServer starts the server with its defaults, but for what keeps a benchmark from running:
// many checkpoints may be pending, and none expires.
func addServer(ctx context.Context, b *bench, s *system, flags ...string) error {
	arguments := append([]string{"--listen", "127.0.0.1:0", "--max-concurrent-checkpoints", "1000", "--checkpoint-timeout", "0s"}, flags...)
	if b.profiles != "" {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.addresses[profilesName] = "127.0.0.1:" + port
		arguments = append(arguments, "--pprof", s.addresses[profilesName])
	}
	p, err := b.group.Start(serverName, b.server, arguments...)
	if err != nil {
		return err
	}
	return s.awaitAddress(ctx, serverName, p, func(head string) (string, bool) {
		for line := range strings.Lines(head) {
			var entry struct {
				Message string `json:"message"`
				Address string `json:"address"`
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "checkpointd serves" {
				return entry.Address, true
			}
		}
		return "", false
	})
}

// awaitAddress takes a process in that says at its head where it listens.
func (s *system) awaitAddress(ctx context.Context, name string, p *process.Process, find func(head string) (address string, found bool)) error {
	s.processes = append(s.processes, p)
	return p.Await(ctx, func(context.Context) error {
		head, err := p.Head()
		if err != nil {
			return err
		}
		address, found := find(string(head))
		if !found {
			return errors.New("it has not said where it listens")
		}
		s.addresses[name] = address
		return nil
	})
}

// withStandIns adds the stand-ins, on the system's Redis.
func withStandIns(ctx context.Context, b *bench, s *system) error {
	p, err := b.group.Start(standInsName, b.self, standin.Argument, s.addresses[redisName])
	if err != nil {
		return err
	}
	return s.awaitAddress(ctx, standInsName, p, func(head string) (string, bool) {
		address, _, whole := strings.Cut(head, "\n")
		return address, whole
	})
}

// withWebdis adds webdis with two threads, the number that it was fastest with, on the system's Redis.
func withWebdis(ctx context.Context, b *bench, s *system) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	_, redisPort, _ := net.SplitHostPort(s.addresses[redisName])
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
	s.addresses[webdisName] = "127.0.0.1:" + port
	return p.Await(ctx, func(ctx context.Context) error {
		_, err := b.call(ctx, http.MethodGet, s.url(webdisName, "/PING"), nil)
		return err
	})
}

// withEtcd adds a cluster of one.
func withEtcd(ctx context.Context, b *bench, s *system) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	peerPort, err := freePort()
	if err != nil {
		return err
	}
	folder, err := s.folder(b)
	if err != nil {
		return err
	}
	client, peer := "http://127.0.0.1:"+port, "http://127.0.0.1:"+peerPort
	p, err := b.group.Start(etcdName, "etcd", "--name", "bench", "--data-dir", folder, "--logger", "zap", "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "bench="+peer)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	s.addresses[etcdName] = "127.0.0.1:" + port
	return p.Await(ctx, func(ctx context.Context) error {
		_, err := b.call(ctx, http.MethodGet, s.url(etcdName, "/health"), nil)
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

// installed tells whether a program is there to compare with.
func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
