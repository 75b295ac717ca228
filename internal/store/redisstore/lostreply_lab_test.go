package redisstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// lossyLab is a lab whose store reaches Redis over a wire.
type lossyLab struct {
	*lab
	wire  *wire
	store *Store
	heard *hearsay
	// run is the server's run_id when the lab was made.
	run string
	// tokens counts the calls that arranged something, so that two runs use the same tokens.
	tokens int
}

// newLossyLab makes a lab with keys of its own.
func newLossyLab(t testing.TB, server *redistest.Server) *lossyLab {
	t.Helper()
	l := newKeysOn(t, server)
	l.wire = newWire(t, l.server, l.redis)
	l.connect(l.wire.url(l.server))
	return l
}

// newCalmLab makes one whose commands are counted and noted too, but without the proxy that
// makes faults happen: there are hundreds of them in tests without any.
func newCalmLab(t testing.TB, server *redistest.Server) *lossyLab {
	t.Helper()
	l := newKeysOn(t, server)
	l.wire = &wire{TB: t, redis: l.redis, what: noFault}
	l.connect(l.server.URL)
	return l
}

func newKeysOn(t testing.TB, server *redistest.Server) *lossyLab {
	t.Helper()
	l := &lossyLab{lab: labOn(t, server.Apart(t), "orders"), heard: new(hearsay)}
	info, err := l.redis.InfoMap(l.Context(), "server").Result()
	l.ok(err)
	l.run = info["Server"]["run_id"]
	return l
}

func (l *lossyLab) connect(url string) {
	l.Helper()
	s, err := New(Options{URL: url, KeyPrefix: l.server.Prefix, Observer: l.heard, Clock: func() int64 { return l.now }})
	l.ok(err)
	l.Cleanup(func() { l.ok(s.Close()) })
	s.client.AddHook(l.wire)
	l.store = s
	// The sweep sends its scripts one by one to a server that does not know them.
	l.ok(sweepScript.text.Load(l.Context(), l.redis).Err())
}

// begin forgets what was reported, and sees to it that the next command finds a connection.
func (l *lossyLab) begin(what fault, at int) {
	l.Helper()
	l.ok(l.store.client.Ping(l.Context()).Err())
	// A server that does not know this one yet is sent it as a text, by itself and before the pipeline: one command more
	// than on a server where another test has run.
	l.ok(proveScript.text.Load(l.Context(), l.redis).Err())
	l.heard.forget()
	l.wire.count(what, at)
}

// cutOff has the store notice that its connections are gone. A request on one that is about
// to close would count as sent.
func (l *lossyLab) cutOff() {
	l.Helper()
	for {
		err := l.store.client.Ping(l.Context()).Err()
		_, isReply := errors.AsType[redis.Error](err)
		switch {
		case err == nil, isReply, caused(err), errors.Is(err, syscall.ECONNREFUSED):
			return
		case l.Context().Err() != nil:
			l.Fatalf("no end of old connections: %v", err)
		}
	}
}

// contents is what the lab's keys hold, with the server's run_id as "this run": what one
// server holds is compared with what another does.
func (l *lossyLab) contents() contents {
	l.Helper()
	found := contentsOf(l.TB, l.redis, l.server.Prefix)
	for _, value := range found {
		fields, _ := value.(map[string]string)
		for name, text := range fields {
			if text == l.run {
				fields[name] = "this run"
			}
		}
	}
	return found
}

// hearsay is what a store has reported, in order.
type hearsay struct {
	coordinator.Silence

	mu      sync.Mutex
	reports []string
}

// Ended keeps the report.
func (h *hearsay) Ended(t coordinator.Transition) { h.notef("ended %+v", t) }

// Deleted keeps the report.
func (h *hearsay) Deleted(job string, id int64, why coordinator.DeletionReason) {
	h.notef("deleted %s %d %s", job, id, why)
}

func (h *hearsay) notef(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reports = append(h.reports, fmt.Sprintf(format, args...))
}

func (h *hearsay) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reports = nil
}

// sorted are the reports that begin with the word, sorted.
func (h *hearsay) sorted(word string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := []string{}
	for _, report := range h.reports {
		if strings.HasPrefix(report, word) {
			found = append(found, report)
		}
	}
	slices.Sort(found)
	return found
}

// What arranges a job. All of it ends the test on an error.

func (l *lossyLab) token() string {
	l.tokens++
	return fmt.Sprintf("arranged-%d", l.tokens)
}

// pending makes a checkpoint that waits for as many acknowledgements.
func (l *lossyLab) pending(required int, tasks ...string) int64 {
	l.Helper()
	result, err := l.store.Trigger(l.Context(), coordinator.TriggerCall{
		Job: l.job, RequiredTaskAcks: required, Tasks: tasks, TimeoutMs: new(int64(60_000)), Defaults: coordinator.Settings{MaxConcurrent: 100, EventsToKeep: 10_000},
		Idempotency: coordinator.Idempotency{Token: l.token()},
	})
	l.ok(err)
	return result.Checkpoint.ID
}

// accept acknowledges a checkpoint for tasks.
func (l *lossyLab) accept(id int64, tasks ...string) {
	l.Helper()
	call := coordinator.AckCall{Job: l.job, ID: id, Token: l.token()}
	for _, task := range tasks {
		call.Items = append(call.Items, coordinator.AckItem{TaskID: task, Attempt: 3})
	}
	_, err := l.store.Acknowledge(l.Context(), call)
	l.ok(err)
}

// completed makes a completed checkpoint with shared state and a part.
func (l *lossyLab) completed() int64 {
	l.Helper()
	id := l.pending(1)
	_, err := l.store.WriteShared(l.Context(), l.put(id, "offsets", `{"p0":11}`))
	l.ok(err)
	_, err = l.store.Acknowledge(l.Context(), coordinator.AckCall{Job: l.job, ID: id, Token: l.token(), Items: []coordinator.AckItem{
		{TaskID: "a", Part: partContent(`{"taskId":"a","key":"k","value":1}` + "\n")},
	}})
	l.ok(err)
	return id
}

// aborted makes a checkpoint that ended uncompleted.
func (l *lossyLab) aborted() int64 {
	l.Helper()
	id := l.pending(1)
	_, err := l.store.Abort(l.Context(), coordinator.AbortCall{Job: l.job, ID: id, Token: l.token()})
	l.ok(err)
	return id
}

func (l *lossyLab) put(id int64, key, value string) coordinator.SharedWrite {
	return coordinator.SharedWrite{
		Job: l.job, ID: id, Op: coordinator.SharedPut, Single: true,
		Entries: []coordinator.SharedEntry{{Key: key, Value: []byte(value)}},
	}
}

// uploading begins an upload of task a with one chunk for each content.
func (l *lossyLab) uploading(id int64, token string, chunks ...string) *upload {
	l.Helper()
	u := l.beginUpload(l.Context(), id, token)
	for index, chunk := range chunks {
		l.ok(u.WriteChunk(l.Context(), index, []byte(chunk)))
	}
	l.ok(u.settle(l.Context()))
	return u
}

func (l *lossyLab) beginUpload(ctx context.Context, id int64, token string) *upload {
	l.Helper()
	begun, err := l.store.BeginUpload(ctx, l.uploadCall(id, token))
	l.ok(err)
	u, ok := begun.(*upload)
	if !ok {
		l.Fatalf("an upload is a %T", begun)
	}
	return u
}

func (l *lossyLab) uploadCall(id int64, token string) coordinator.UploadCall {
	return coordinator.UploadCall{Job: l.job, ID: id, TaskID: "a", Attempt: 2, Token: token}
}

// restoring opens a restore with a lease of a minute.
func (l *lossyLab) restoring(id int64) coordinator.RestoreSource {
	l.Helper()
	source, err := l.store.OpenRestore(l.Context(), l.restoreCall(id))
	l.ok(err)
	return source
}

func (l *lossyLab) restoreCall(id int64) coordinator.RestoreCall {
	return coordinator.RestoreCall{Ref: l.ref(id), LeaseMs: 60_000, Token: "restore"}
}

func partContent(lines string) *coordinator.PartContent {
	return &coordinator.PartContent{Content: []byte(lines), Entries: int64(strings.Count(lines, "\n")), Digest: digestOf(lines)}
}

func partInfo(lines string) coordinator.PartInfo {
	return coordinator.PartInfo{Bytes: int64(len(lines)), Entries: int64(strings.Count(lines, "\n")), Digest: digestOf(lines)}
}

func digestOf(lines string) string {
	sum := sha256.Sum256([]byte(lines))
	return "sha256:" + hex.EncodeToString(sum[:])
}
