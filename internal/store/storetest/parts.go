package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// part renders keys and their JSON values, in turn, into the part of a task.
func part(task string, keysAndValues ...string) coordinator.PartContent {
	var lines []byte
	for i := 0; i < len(keysAndValues); i += 2 {
		lines = snapshot.AppendEntry(lines, task, keysAndValues[i], []byte(keysAndValues[i+1]))
	}
	return content(lines, int64(len(keysAndValues)/2))
}

func content(lines []byte, entries int64) coordinator.PartContent {
	return coordinator.PartContent{Content: lines, Entries: entries, Digest: digestOf(lines)}
}

// bigPart makes a part of exactly size bytes in one entry, none of whose chunks is like
// another, so that a chunk in the wrong place shows.
func bigPart(task string, size int) coordinator.PartContent {
	frame := len(snapshot.AppendEntry(nil, task, "big", []byte(`""`)))
	return part(task, "big", `"`+filling()[:size-frame]+`"`)
}

// filling is text for parts of up to 6 chunks, in which no stretch repeats.
var filling = sync.OnceValue(func() string {
	var b strings.Builder
	for n := 0; b.Len() < 6*coordinator.ChunkBytes; n++ {
		fmt.Fprintf(&b, "%d,", n)
	}
	return b.String()
})

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func info(p coordinator.PartContent) coordinator.PartInfo {
	return coordinator.PartInfo{Entries: p.Entries, Bytes: int64(len(p.Content)), Digest: p.Digest}
}

type uploadOption func(*coordinator.UploadCall)

func uploadAttempt(n int64) uploadOption { return func(c *coordinator.UploadCall) { c.Attempt = n } }

func uploadEpoch(n int64) uploadOption { return func(c *coordinator.UploadCall) { c.Epoch = &n } }

func (r *rig) uploadCall(id int64, task string, options ...uploadOption) coordinator.UploadCall {
	call := coordinator.UploadCall{Job: r.job, ID: id, TaskID: task, Token: r.token()}
	for _, option := range options {
		option(&call)
	}
	return call
}

// begin begins an upload and writes all of its chunks.
func (r *rig) begin(id int64, task string, p coordinator.PartContent, options ...uploadOption) coordinator.Upload {
	r.t.Helper()
	upload, err := r.store.BeginUpload(r.t.Context(), r.uploadCall(id, task, options...))
	r.check("begin upload", err)
	for index, chunk := range chunks(p.Content) {
		// The store must not keep the slice, so it gets one that is overwritten at once.
		lent := bytes.Clone(chunk)
		r.check("write chunk", upload.WriteChunk(r.t.Context(), index, lent))
		clear(lent)
	}
	return upload
}

// chunks cuts content as uploads do.
func chunks(content []byte) [][]byte {
	var pieces [][]byte
	for len(content) > 0 {
		n := min(len(content), coordinator.ChunkBytes)
		pieces = append(pieces, content[:n])
		content = content[n:]
	}
	return pieces
}

// upload hands in a part without acknowledging.
func (r *rig) upload(id int64, task string, p coordinator.PartContent, options ...uploadOption) {
	r.t.Helper()
	upload := r.begin(id, task, p, options...)
	_, err := upload.Commit(r.t.Context(), coordinator.CommitCall{Part: info(p), Retention: r.defaults.Retention})
	r.check("commit upload", err)
	r.check("discard after commit", upload.Discard(r.t.Context()))
}

// uploadAndAck hands in a part and acknowledges in the same step.
func (r *rig) uploadAndAck(id int64, task string, p coordinator.PartContent, options ...uploadOption) coordinator.AckOutcome {
	r.t.Helper()
	upload := r.begin(id, task, p, options...)
	result, err := upload.Commit(r.t.Context(), coordinator.CommitCall{Part: info(p), Ack: true, Retention: r.defaults.Retention})
	r.check("commit upload", err)
	r.check("discard after commit", upload.Discard(r.t.Context()))
	if result.Ack == nil {
		r.t.Fatal("commit with ack answered no acknowledgement")
	}
	return *result.Ack
}

// commitCode tries to commit an upload and gives the code of the refusal, wherever it
// stands: as the error, or in the acknowledgement's outcome.
func (r *rig) commitCode(upload coordinator.Upload, p coordinator.PartContent, ack bool) coordinator.Code {
	r.t.Helper()
	result, err := upload.Commit(r.t.Context(), coordinator.CommitCall{Part: info(p), Ack: ack, Retention: r.defaults.Retention})
	if err == nil && result.Ack != nil && result.Ack.Refusal != nil {
		return result.Ack.Refusal.Code
	}
	return coordinator.CodeOf(err)
}

// restoreLease is how long the suite's restores hold their checkpoint, in ms.
const restoreLease = 60_000

func (r *rig) restoreCall(id int64, tasks ...string) coordinator.RestoreCall {
	return coordinator.RestoreCall{Ref: r.ref(id), Tasks: tasks, LeaseMs: restoreLease, Token: r.token()}
}

// openRestore opens a restore that the test's end closes.
func (r *rig) openRestore(call coordinator.RestoreCall) coordinator.RestoreSource {
	r.t.Helper()
	source, err := r.store.OpenRestore(r.t.Context(), call)
	r.check("open restore", err)
	r.t.Cleanup(func() {
		if err := source.Close(); err != nil {
			r.t.Errorf("close restore: %v", err)
		}
	})
	return source
}

// restored reads a snapshot to its end, as its restore bytes.
func (r *rig) restored(id int64, tasks ...string) string {
	r.t.Helper()
	source, err := r.store.OpenRestore(r.t.Context(), r.restoreCall(id, tasks...))
	r.check("open restore", err)
	var all []byte
	for i, p := range source.Parts() {
		got, err := r.read(source, i, 0, p.Bytes)
		r.check(fmt.Sprintf("read part %d", i), err)
		if p.Digest != digestOf(got) {
			r.t.Errorf("part %d (%q) has digest %s, its bytes have %s", i, p.TaskID, p.Digest, digestOf(got))
		}
		all = append(all, got...)
	}
	r.check("release", source.Release(r.t.Context()))
	r.check("close restore", source.Close())
	return string(all)
}

// read reads a range of one part, however few bytes a call gives.
func (r *rig) read(source coordinator.RestoreSource, part int, off, length int64) ([]byte, error) {
	r.t.Helper()
	got := make([]byte, length)
	for done := int64(0); done < length; {
		// A caller asks for what is left of one chunk, as the coordinator does.
		n := min(length-done, coordinator.ChunkBytes-(off+done)%coordinator.ChunkBytes)
		read, err := source.ReadAt(r.t.Context(), part, got[done:done+n], off+done)
		if err != nil {
			return nil, err
		}
		if read <= 0 || int64(read) > n {
			r.t.Fatalf("ReadAt of %d bytes at %d gave %d", n, off+done, read)
		}
		done += int64(read)
	}
	return got, nil
}

// sharedLines renders the restore bytes of shared state from keys and values in turn.
func sharedLines(keysAndValues ...string) string {
	return string(part(snapshot.Shared, keysAndValues...).Content)
}
