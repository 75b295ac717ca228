package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// storedPart is an entry of the hash …:parts: which upload's chunks are a task's part.
type storedPart struct {
	uploadID string
	chunks   int
	coordinator.PartInfo
}

// chunksOf is how many chunks a part of that many bytes has.
func chunksOf(bytes int64) int {
	return int((bytes + coordinator.ChunkBytes - 1) / coordinator.ChunkBytes)
}

// chunkLength is how many bytes chunk n of a part of that many bytes has.
func chunkLength(bytes int64, n int) int64 {
	return min(coordinator.ChunkBytes, bytes-int64(n)*coordinator.ChunkBytes)
}

// parsePart reads "uploadId|chunks|bytes|entries|digest".
func parsePart(text string) (storedPart, error) {
	f := barFields(text, 5)
	p := storedPart{
		uploadID: f.text(), chunks: int(f.number()),
		PartInfo: coordinator.PartInfo{Bytes: f.number(), Entries: f.number(), Digest: f.text()},
	}
	if f.err != nil {
		return storedPart{}, fmt.Errorf("stored part %.100q: %w", text, f.err)
	}
	return p, nil
}

// parseAck reads "attempt|at|place|entries|bytes|digest|token"; start is when the
// checkpoint started (Unix ms).
func parseAck(task, text string, start int64) (coordinator.Ack, error) {
	f := barFields(text, 7)
	ack := coordinator.Ack{TaskID: task, Attempt: f.number(), AcknowledgedAt: f.number()}
	_ = f.number() // its place
	ack.Part = coordinator.PartInfo{Entries: f.number(), Bytes: f.number(), Digest: f.text()}
	if ack.Part.Digest == "" {
		ack.Part.Digest = coordinator.EmptyDigest
	}
	ack.LatencyMs = max(0, ack.AcknowledgedAt-start)
	if f.err != nil {
		return coordinator.Ack{}, fmt.Errorf("acknowledgement of task %q %.100q: %w", task, text, f.err)
	}
	return ack, nil
}

// storedAckOf is what an error calls the acknowledgement of a task.
func storedAckOf(task string) string { return fmt.Sprintf("the acknowledgement of task %q", task) }

// bars reads values between vertical bars. The first that is not of the wanted kind is in err.
type bars struct {
	values []string
	err    error
}

func barFields(text string, count int) bars {
	values := strings.SplitN(text, "|", count)
	if len(values) < count {
		return bars{values: make([]string, count), err: errors.New("too few fields")}
	}
	return bars{values: values}
}

func (b *bars) text() string {
	value := b.values[0]
	b.values = b.values[1:]
	return value
}

func (b *bars) number() int64 {
	n, err := strconv.ParseInt(b.text(), 10, 64)
	if err != nil && b.err == nil {
		b.err = err
	}
	return n
}
