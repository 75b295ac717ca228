package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var readManifestScript = newScript("read_manifest", orderPreludes)

// manifestPage is how many tasks one step reads and checks.
const manifestPage = 1000

// readManifest describes the selected parts in restore order. A completed checkpoint
// never changes, so that its manifest may be read in steps.
func (o *restore) readManifest(ctx context.Context, call coordinator.RestoreCall, sharedDigest string) error {
	if call.Tasks == nil || call.Shared {
		part, err := o.sharedPart(ctx, sharedDigest)
		if err != nil {
			return err
		}
		o.parts, o.uploads = append(o.parts, part), append(o.uploads, "")
	}
	if call.Tasks == nil {
		return o.readAllParts(ctx)
	}
	tasks := slices.Compact(slices.Sorted(slices.Values(call.Tasks)))
	for page := range slices.Chunk(tasks, manifestPage) {
		args := []any{"tasks"}
		for _, task := range page {
			args = append(args, task)
		}
		if _, err := o.readParts(ctx, args); err != nil {
			return err
		}
	}
	return nil
}

func (o *restore) readAllParts(ctx context.Context) error {
	last, acked := "", 0
	for {
		read, err := o.readParts(ctx, []any{"page", last, manifestPage})
		if err != nil {
			return err
		}
		acked += read
		if read < manifestPage {
			break
		}
		last = o.parts[len(o.parts)-1].TaskID
	}
	total := coordinator.PartInfo{}
	for _, part := range o.parts {
		total.Entries += part.Entries
		total.Bytes += part.Bytes
	}
	if acked != o.checkpoint.AcknowledgedTasks || total.Entries != o.checkpoint.Entries || total.Bytes != o.checkpoint.Bytes {
		return o.damaged("a part", fmt.Errorf("%w: %d parts of %d entries with %d bytes instead of %d of %d with %d", errNotAsRecorded,
			acked, total.Entries, total.Bytes, o.checkpoint.AcknowledgedTasks, o.checkpoint.Entries, o.checkpoint.Bytes))
	}
	return nil
}

// readParts reads one page, checks its chunks, and gives its length.
func (o *restore) readParts(ctx context.Context, selection []any) (int, error) {
	args := append([]any{decimal(o.checkpoint.ID)}, selection...)
	r, err := o.store.runInOrder(ctx, readManifestScript, o.checkpoint.Job, args...)
	if err != nil {
		return 0, err
	}
	if r.word != wordOK {
		return 0, refusal(readManifestScript.verb, o.checkpoint.Job, o.checkpoint.ID, r)
	}
	first := len(o.parts)
	rows := cursor{values: r.body}
	for rows.more() {
		if err := o.addPart(rows.text(), rows.text(), rows.text()); err != nil {
			return 0, err
		}
	}
	if rows.err != nil {
		return 0, badReply(readManifestScript.verb, r, rows.err)
	}
	return len(o.parts) - first, o.checkChunks(ctx, first)
}

// addPart adds the part of a task from its stored acknowledgement and stored part; they
// must agree, as the acknowledgement is what the digest of the snapshot is made of.
func (o *restore) addPart(task, ackText, partText string) error {
	if ackText == "" {
		return o.withoutPart(task, partText)
	}
	ack, err := parseAck(task, ackText, o.checkpoint.Start)
	if err != nil {
		return o.damaged(partOf(task), err)
	}
	uploadID := ""
	if ack.Part.Bytes > 0 {
		part, err := parsePart(partText)
		if err != nil {
			return o.damaged(partOf(task), err)
		}
		if part.PartInfo != ack.Part || part.chunks != chunksOf(ack.Part.Bytes) {
			return o.damaged(partOf(task), fmt.Errorf("%w: %.200q was acknowledged, %.200q is stored", errNotAsRecorded, ackText, partText))
		}
		uploadID = part.uploadID
	}
	o.parts = append(o.parts, coordinator.ManifestPart{TaskID: task, PartInfo: ack.Part})
	o.uploads = append(o.uploads, uploadID)
	return nil
}

// withoutPart is the refusal for a task without acknowledgement; part is what read_manifest.lua answers for it.
func (o *restore) withoutPart(task, part string) error {
	switch c := &o.checkpoint; {
	case part == "named":
		return coordinator.ErrTaskAbsent(c.ID, task, true)
	case !c.NamedTasks && c.AcknowledgedTasks < c.RequiredTaskAcks:
		return coordinator.ErrTaskAbsent(c.ID, task, false)
	default:
		return coordinator.ErrTaskNotInCheckpoint(c.ID, task)
	}
}

func partOf(task string) string { return fmt.Sprintf("the part of task %q", task) }

// expectedChunk is a chunk of part number part, and how many bytes it should have.
type expectedChunk struct {
	name   string
	part   int
	length int64
}

// checkChunks checks the lengths of all chunks of the parts from number first on, as many as a
// page in one round trip: what a recovery names should be there to its end.
func (o *restore) checkChunks(ctx context.Context, first int) error {
	keys := o.store.keys(o.checkpoint.Job)
	var expected []expectedChunk
	for i := first; i < len(o.parts); i++ {
		part := o.parts[i]
		if part.Shared || part.Bytes == 0 {
			continue
		}
		for chunk := range chunksOf(part.Bytes) {
			if len(expected) == manifestPage {
				if err := o.checkLengths(ctx, keys.job(), expected); err != nil {
					return err
				}
				expected = expected[:0]
			}
			expected = append(expected, expectedChunk{keys.chunk(o.checkpoint.ID, o.uploads[i], chunk), i, chunkLength(part.Bytes, chunk)})
		}
	}
	return o.checkLengths(ctx, keys.job(), expected)
}

func (o *restore) checkLengths(ctx context.Context, job string, expected []expectedChunk) error {
	if len(expected) == 0 {
		return nil
	}
	var lengths []*redis.IntCmd
	err := o.store.fetchFrom(ctx, "check chunks", job, func(ctx context.Context, node *redis.Client) error {
		lengths = lengths[:0]
		_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, chunk := range expected {
				lengths = append(lengths, p.StrLen(ctx, chunk.name))
			}
			return nil
		})
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return fmt.Errorf("%w: %w", errNotAsRecorded, err)
		}
		return err
	})
	if errors.Is(err, errNotAsRecorded) {
		return o.damaged("a part", err)
	}
	if err != nil {
		return err
	}
	for i, want := range expected {
		if got := lengths[i].Val(); got != want.length {
			return o.damaged(partOf(o.parts[want.part].TaskID), wholly(int(got), int(want.length)))
		}
	}
	return nil
}
