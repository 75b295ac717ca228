package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/checkpointd/checkpointd/bench/load"
)

// depth is how many scripts a connection sends in one go.
const depth = 16

// loadScripts runs the peers' script without any server: many connections that send 16 at
// a time and await 16 replies, which is what Redis does most cheaply. Only the CPU
// time of Redis is of interest, so the client is a plain one.
func (b *bench) loadScripts(ctx context.Context, connections int) (loaded, error) {
	s, err := b.start(ctx, withRedis)
	if err != nil {
		return loaded{}, err
	}
	defer s.stop()
	checkpoints := b.supply(fastest, 1, tasksPerCheckpoint)
	sha, err := prepareScript(ctx, s, checkpoints)
	if err != nil {
		return loaded{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var numbers, done atomic.Int64
	var running sync.WaitGroup
	for range connections {
		running.Go(func() {
			if err := pipeline(ctx, s.addresses[redisName], sha, checkpoints, &numbers, &done); err != nil {
				cancel(err)
			}
		})
	}
	load.Wait(ctx, b.warmUp)
	before, from, began := read(s), done.Load(), time.Now()
	load.Wait(ctx, b.duration)
	after, to, elapsed := read(s), done.Load(), time.Since(began)
	failure := context.Cause(ctx)
	cancel(errDone)
	running.Wait()
	if failure != nil {
		return loaded{}, failure
	}
	return b.between(before, after, load.Result{Requests: to - from, Elapsed: elapsed})
}

var errDone = errors.New("the load is over")

// pipeline sends scripts over one connection until ctx ends.
func pipeline(ctx context.Context, address, sha string, checkpoints int, numbers, done *atomic.Int64) error {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connecting to Redis: %w", err)
	}
	defer func() { _ = connection.Close() }()
	replies := bufio.NewReader(connection)
	var commands []byte
	for ctx.Err() == nil {
		commands = commands[:0]
		for range depth {
			n := numbers.Add(1) - 1
			key := fmt.Sprintf("cp:%d", int(n)/tasksPerCheckpoint%checkpoints)
			task := appendPadded([]byte("task-"), int(n)%tasksPerCheckpoint)
			commands = appendCommand(commands, "EVALSHA", sha, "2", key, key+":acks", string(task))
		}
		if _, err := connection.Write(commands); err != nil {
			return fmt.Errorf("sending scripts: %w", err)
		}
		for range depth {
			if err := scriptReply(replies); err != nil {
				return err
			}
		}
		done.Add(depth)
	}
	return nil
}

// appendCommand writes a command as Redis reads it.
func appendCommand(buffer []byte, words ...string) []byte {
	buffer = fmt.Appendf(buffer, "*%d\r\n", len(words))
	for _, word := range words {
		buffer = fmt.Appendf(buffer, "$%d\r\n%s\r\n", len(word), word)
	}
	return buffer
}

// scriptReply reads the answer of ackScript: an array of two integers and a string.
func scriptReply(replies *bufio.Reader) error {
	for line := range 5 {
		text, err := replies.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("reading a reply: %w", err)
		}
		if line == 0 && text[0] != '*' {
			return fmt.Errorf("the script answered %q", text)
		}
	}
	return nil
}
