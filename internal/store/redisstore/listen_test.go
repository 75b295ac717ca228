package redisstore

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// ear is somebody who listens.
type ear struct {
	testing.TB
	wakes chan string
	end   func()
}

// listenTo lets a store listen until end is called, or the test ends.
func listenTo(t testing.TB, s *Store) *ear {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	e := &ear{TB: t, wakes: make(chan string, 1000)}
	var listening sync.WaitGroup
	listening.Go(func() { s.Listen(ctx, func(job string) { e.wakes <- job }) })
	e.end = func() { cancel(); listening.Wait() }
	t.Cleanup(e.end)
	return e
}

// hears waits for a wake.
func (e *ear) hears(want string) {
	e.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case job := <-e.wakes:
			if job == want {
				return
			}
		case <-deadline:
			e.Fatalf("no wake for %q came", want)
		}
	}
}

func TestListeningGoesOnWhateverBecomesOfTheServer(t *testing.T) {
	t.Parallel()
	for what, disturb := range map[string]func(t testing.TB, server *redistest.Server){
		"it restarts": func(t testing.TB, server *redistest.Server) { t.Helper(); server.Restart(t) },
		"it is killed and comes back": func(t testing.TB, server *redistest.Server) {
			t.Helper()
			server.Kill(t)
			server.Start(t)
		},
		"it cuts the connection": func(t testing.TB, server *redistest.Server) {
			t.Helper()
			must(t, server.Client(t).Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{Own: true})
			s := open(t, server)
			e := listenTo(t, s)
			e.hears("")
			trigger(t, s)
			e.hears("default")
			disturb(t, server)
			e.hears("")
			trigger(t, s)
			e.hears("default")
		})
	}
}

// A connection may be dead without either side knowing.
func TestASilentConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	swallowing := swallowAfterFirst(t, server.Addr)
	s, err := New(Options{URL: "redis://" + swallowing, KeyPrefix: server.Prefix})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	e := listenTo(t, s)
	e.hears("")
	e.hears("") // by another connection
	trigger(t, open(t, server))
	e.hears("default")
}

// Nothing may happen for hours: the connection is then tried, and kept.
func TestAQuietConnectionIsKept(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	client := server.Client(t)
	e := listenTo(t, open(t, server))
	e.hears("")
	// subscriber gives id and last command of who listens.
	subscriber := func() (id, command string) {
		line, err := client.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		must(t, err)
		for field := range strings.FieldsSeq(line) {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "id":
				id = value
			case "cmd":
				command = value
			}
		}
		return id, command
	}
	first, _ := subscriber()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		id, command := subscriber()
		if id != first {
			t.Fatalf("the subscriber %s is now %s", first, id)
		}
		if command == "ping" {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the last command is %q", command)
		}
	}
	trigger(t, open(t, server))
	select {
	case job := <-e.wakes:
		if job != "default" {
			t.Errorf("the first wake after the silence is for %q", job)
		}
	case <-deadline:
		t.Error("no wake came after the silence")
	}
}

// swallowAfterFirst is a way to a server on which the first connection works for a second,
// and from then on stays open in silence.
func swallowAfterFirst(t testing.TB, server string) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var copying sync.WaitGroup
	t.Cleanup(copying.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	copying.Go(func() {
		for number := 0; ; number++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			copying.Go(func() {
				_, _ = io.Copy(upstream, client)
				_ = upstream.Close()
				_ = client.Close()
			})
			copying.Go(func() {
				if number == 0 {
					_ = upstream.SetReadDeadline(time.Now().Add(time.Second))
				}
				_, _ = io.Copy(client, upstream)
				if number > 0 {
					_ = client.Close()
				}
			})
		}
	})
	return listener.Addr().String()
}

func TestListeningEndsWithItsContextAndLeavesNothing(t *testing.T) { //nolint:paralleltest // It looks at all goroutines.
	server := redistest.Start(t, redistest.Options{Own: true})
	s, err := New(Options{URL: server.URL, KeyPrefix: server.Prefix})
	if err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	e := listenTo(t, s)
	e.hears("")
	e.end()
	server.Kill(t)
	e = listenTo(t, s) // nobody answers
	e.end()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
