package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// GetSnapshot reads a completed checkpoint as one document.
func (s *server) GetSnapshot(ctx context.Context, request api.GetSnapshotRequestObject) (api.GetSnapshotResponseObject, error) {
	return s.snapshotDocument(ctx, coordinator.Ref{Job: jobOf(request.Params.Job), ID: int64(request.ID)})
}

// GetLatestSnapshot reads the latest completed checkpoint as one document.
func (s *server) GetLatestSnapshot(ctx context.Context, request api.GetLatestSnapshotRequestObject) (api.GetLatestSnapshotResponseObject, error) {
	return s.snapshotDocument(ctx, latestOf(request.Params.Job))
}

func (s *server) snapshotDocument(ctx context.Context, ref coordinator.Ref) (snapshotAnswer, error) {
	restore, err := s.coordinator.OpenRestore(ctx, coordinator.RestoreRequest{Ref: ref, By: requesterOf(exchangeOf(ctx))})
	if err != nil {
		return snapshotAnswer{}, err
	}
	defer restore.Abandon()
	id := restore.Checkpoint().ID
	if restore.Size() > coordinator.MaxSnapshotDocument {
		return snapshotAnswer{}, snapshotTooLarge(id, fmt.Sprintf("has %d bytes", restore.Size()))
	}
	var stream bytes.Buffer
	stream.Grow(int(restore.Size()))
	if err := restore.WriteRange(&stream, 0, restore.Size()); err != nil {
		return snapshotAnswer{}, err
	}
	document, err := appendSnapshot(nil, restore, stream.Bytes())
	return snapshotAnswer{id: id, tag: restore.Digest(), document: document}, err
}

// appendSnapshot makes the document of the bytes of a whole restore.
func appendSnapshot(dst []byte, restore *coordinator.Restore, stream []byte) ([]byte, error) {
	checkpoint, parts := restore.Checkpoint(), restore.Parts()
	dst = strconv.AppendInt(append(dst, `{"version":`...), int64(checkpoint.SnapshotVersion), 10)
	dst = append(dst, `,"state":`...)
	var err error
	if len(parts) > 0 && parts[0].Shared {
		if dst, err = appendPart(dst, "", stream[:parts[0].Bytes]); err != nil {
			return nil, err
		}
		stream, parts = stream[parts[0].Bytes:], parts[1:]
	} else {
		dst = append(dst, "{}"...)
	}
	dst = append(dst, `,"tasks":{`...)
	for i, part := range parts {
		dst = appendMember(dst, i, part.TaskID, nil)
		if dst, err = appendPart(dst, part.TaskID, stream[:part.Bytes]); err != nil {
			return nil, err
		}
		stream = stream[part.Bytes:]
		// Parts without entries have no restore bytes, but a name each.
		if len(dst) > coordinator.MaxSnapshotDocument {
			return nil, snapshotTooLarge(checkpoint.ID, "would make a larger document")
		}
	}
	return append(dst, "}}\n"...), nil
}

// appendPart makes an object of the restore lines of one part.
func appendPart(dst []byte, taskID string, lines []byte) ([]byte, error) {
	dst = append(dst, '{')
	entries := snapshot.NewLineReader(bytes.NewReader(lines), taskID, coordinator.MaxValueBytes)
	for i := 0; ; i++ {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return append(dst, '}'), nil
		}
		if err != nil {
			// The bytes have their recorded digest, so it is not the store's fault.
			return nil, coordinator.ErrInternal(fmt.Errorf("reading back a stored part: %w", err))
		}
		dst = appendMember(dst, i, entry.Key, entry.Value)
	}
}

func snapshotTooLarge(id int64, what string) *coordinator.Error {
	return &coordinator.Error{
		Code: coordinator.CodeSnapshotTooLarge,
		Detail: fmt.Sprintf("The snapshot of checkpoint %d %s; the limit of one document is %d bytes (snapshotDocumentBytes in GET /limits). Stream it with GET /checkpoints/%d/restore.",
			id, what, coordinator.MaxSnapshotDocument, id),
		Limit: "snapshotDocumentBytes",
	}
}

// snapshotAnswer is the document.
type snapshotAnswer struct {
	id       int64
	tag      string
	document []byte
}

func (a snapshotAnswer) size() int { return len(a.document) }

// VisitGetSnapshotResponse writes the document.
func (a snapshotAnswer) VisitGetSnapshotResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitGetLatestSnapshotResponse writes the document.
func (a snapshotAnswer) VisitGetLatestSnapshotResponse(w http.ResponseWriter) error {
	return a.write(w)
}

func (a snapshotAnswer) write(w http.ResponseWriter) error {
	w.Header().Set("ETag", quoted(a.tag))
	nameCheckpoint(w, a.id)
	return writeBytes(w, mediaJSON, a.document)
}
