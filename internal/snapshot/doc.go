// Package snapshot turns state entries into bytes and back: it checks JSON
// values strictly, reads NDJSON uploads, renders restore lines, cuts them into
// chunks and computes the digests by which a part and a snapshot are known.
//
// A value is opaque. It comes back byte for byte as it went in, insignificant
// white space aside, so nothing here ever decodes a number into a float or
// rewrites a string escape.
//
// One upload passes through three types, none of which holds the part in
// memory:
//
//	lines := snapshot.NewLineReader(body, taskID, snapshot.MaxValue)
//	keys := snapshot.NewKeySet(tempDir)
//	defer keys.Close()
//	part := snapshot.NewPartWriter(taskID, maxPart, store.PutChunk)
//	for {
//		entry, err := lines.Next()
//		if err == io.EOF {
//			break
//		}
//		…
//		err = keys.Add(entry.Key, part.Bytes(), entry.Line)
//		…
//		err = part.Add(entry.Key, entry.Value)
//		…
//	}
//	recorded, err := part.Finish()
//	…
//	err = keys.Finish(storedPart)
//
// No type of this package is safe for use by several goroutines at once; the
// functions are.
package snapshot

import "github.com/checkpointd/checkpointd/internal/coordinator"

const (
	// MaxDepth is how many arrays and objects may be open at once inside one
	// value. A value of exactly this depth is accepted.
	MaxDepth = coordinator.MaxNesting

	// MaxValue is the longest canonical value of one entry, in bytes.
	MaxValue = coordinator.MaxValueBytes

	// ChunkSize is the length of every chunk of a part but the last, in bytes
	// (256 KiB). Byte ranges of a restore are arithmetic over it, so stored
	// parts become unreadable when it changes.
	ChunkSize = coordinator.ChunkBytes

	// Shared stands where a task id would for the shared state of a checkpoint,
	// as the manifest writes it. No task can have that name.
	Shared = "-"
)
