package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
)

// acks numbers the acknowledgements of many checkpoints, each of which every task
// acknowledges once. Checkpoints are taken in groups: of one group each request goes to
// the next checkpoint in turn, and when all of its tasks are through, the next group follows.
type acks struct {
	// heads are the requests of each checkpoint up to the body, and bodies what precedes
	// the first task in it.
	heads, bodies [][]byte
	group         int // checkpoints at a time
	tasks         int // tasks a checkpoint
	batch         int // tasks a request
	separator     string
	tail          string // what follows the last task
	ended         atomic.Int64
}

// taskDigits make all requests of a checkpoint equally long.
const taskDigits = 6

// at gives the checkpoint and the first task of request n.
func (a *acks) at(n int64) (checkpoint, task int, err error) {
	perGroup := int64(a.group) * int64(a.tasks/a.batch)
	within := n % perGroup
	checkpoint = int(n/perGroup)*a.group + int(within)%a.group
	if checkpoint >= len(a.heads) {
		return 0, 0, errors.New("the load used up its checkpoints")
	}
	return checkpoint, int(within) / a.group * a.batch, nil
}

// next appends request n.
func (a *acks) next(buffer []byte, n int64) []byte {
	checkpoint, task, err := a.at(n)
	if err != nil {
		checkpoint, task = len(a.heads)-1, 0 // refused by check, as a duplicate
	}
	buffer = append(buffer, a.heads[checkpoint]...)
	buffer = append(buffer, a.bodies[checkpoint]...)
	for i := range a.batch {
		if i > 0 {
			buffer = append(buffer, a.separator...)
		}
		buffer = append(buffer, "task-"...)
		buffer = appendPadded(buffer, task+i)
	}
	return append(buffer, a.tail...)
}

func appendPadded(buffer []byte, n int) []byte {
	start := len(buffer)
	buffer = append(buffer, "000000"...)
	for i := len(buffer) - 1; n > 0 && i >= start; i-- {
		buffer[i] = byte('0' + n%10)
		n /= 10
	}
	return buffer
}

// add makes the requests of one more checkpoint.
func (a *acks) add(line, contentType, body string) {
	length := len(body) + a.batch*(len("task-")+taskDigits) + (a.batch-1)*len(a.separator) + len(a.tail)
	head := "POST " + line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: " + contentType + "\r\nContent-Length: " + strconv.Itoa(length) + "\r\n\r\n"
	a.heads = append(a.heads, []byte(head))
	a.bodies = append(a.bodies, []byte(body))
}

// singleAcks triggers checkpoints and makes acknowledgements of one task each for them.
func (b *bench) singleAcks(ctx context.Context, s *system, group, checkpoints, tasks int) (*acks, error) {
	a := &acks{group: group, tasks: tasks, batch: 1, tail: `"}`}
	for range checkpoints {
		id, err := b.trigger(ctx, s, tasks)
		if err != nil {
			return nil, err
		}
		a.add(fmt.Sprintf("/checkpoints/%d/acks", id), "application/json", `{"taskId":"`)
	}
	return a, nil
}

// bulkAcks is singleAcks with batch tasks in each request.
func (b *bench) bulkAcks(ctx context.Context, s *system, checkpoints, tasks, batch int) (*acks, error) {
	a := &acks{group: 1, tasks: tasks, batch: batch, separator: `"},{"taskId":"`, tail: `"}]}`}
	for range checkpoints {
		id, err := b.trigger(ctx, s, tasks)
		if err != nil {
			return nil, err
		}
		a.add(fmt.Sprintf("/checkpoints/%d/acks", id), "application/json", `{"acks":[{"taskId":"`)
	}
	return a, nil
}

var (
	duplicateMark = []byte(`"duplicate":true`)
	refusedMark   = []byte(`"refused"`)
	completedMark = []byte(`"status":"completed"`)
)

// check wants every acknowledgement to have counted, and counts those that completed.
func (a *acks) check(status int, body []byte) error {
	if status != 200 || bytes.Contains(body, duplicateMark) || a.batch > 1 && bytes.Contains(body, refusedMark) {
		return fmt.Errorf("an acknowledgement was answered %d: %.300s", status, body)
	}
	if bytes.Contains(body, completedMark) {
		a.ended.Add(1)
	}
	return nil
}

// ackScript does in Redis what an acknowledgement comes down to, for a peer that has no such
// thing: is it pending, note the task, count, how many are wanted, note the count.
const ackScript = `if redis.call('HGET', KEYS[1], 'status') ~= 'pending' then return redis.error_reply('not pending') end
local added = redis.call('SADD', KEYS[2], ARGV[1])
local count = redis.call('SCARD', KEYS[2])
local required = redis.call('HGET', KEYS[1], 'required')
redis.call('HSET', KEYS[1], 'acked', count)
return {added, count, required}`

// prepareScript loads the script and gives its hash, and makes the records that it works on.
func prepareScript(ctx context.Context, s *system, checkpoints int) (sha string, err error) {
	if sha, err = s.redis.ScriptLoad(ctx, ackScript).Result(); err != nil {
		return "", fmt.Errorf("loading the script: %w", err)
	}
	for n := range checkpoints {
		// It never completes.
		if err := s.redis.HSet(ctx, fmt.Sprintf("cp:%d", n), "status", "pending", "required", 1_000_000_000).Err(); err != nil {
			return "", fmt.Errorf("making a record: %w", err)
		}
	}
	return sha, nil
}

// webdisAcks makes the same work for webdis.
func webdisAcks(ctx context.Context, s *system, group, checkpoints, tasks int) (*acks, error) {
	sha, err := prepareScript(ctx, s, checkpoints)
	if err != nil {
		return nil, err
	}
	a := &acks{group: group, tasks: tasks, batch: 1}
	for n := range checkpoints {
		a.add("/", "application/x-www-form-urlencoded", fmt.Sprintf("EVALSHA/%s/2/cp:%d/cp:%d:acks/", sha, n, n))
	}
	return a, nil
}

// checkWebdis wants the answer of a script that added a task; webdis has 200 for errors too.
func checkWebdis(status int, body []byte) error {
	if status != 200 || !bytes.HasPrefix(body, []byte(`{"EVALSHA":[1,`)) {
		return fmt.Errorf("webdis answered %d: %.300s", status, body)
	}
	return nil
}

// noOpAcks makes acknowledgements that go nowhere.
func noOpAcks() *acks {
	a := &acks{group: 1, tasks: 1_000_000, batch: 1, tail: `"}`}
	for range 1000 {
		a.add("/no-op", "application/json", `{"taskId":"`)
	}
	return a
}

// etcdPuts makes a durable put of about what an acknowledgement stores.
func etcdPuts() func(buffer []byte, n int64) []byte {
	value := base64.StdEncoding.EncodeToString([]byte("0|1790000000000|50000|0|0||AAAAAAAAAAAAAAAAAAAAAA"))
	const keyLength = 16 // of a key of 12 bytes
	before, after := `{"key":"`, `","value":"`+value+`"}`
	head := fmt.Sprintf("POST /v3/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(before)+keyLength+len(after), before)
	return func(buffer []byte, n int64) []byte {
		buffer = append(buffer, head...)
		key := appendPadded([]byte("bench-"), int(n))
		buffer = base64.StdEncoding.AppendEncode(buffer, key)
		return append(buffer, after...)
	}
}
