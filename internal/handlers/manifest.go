package handlers

import (
	"bufio"
	"context"
	"fmt"
	"net/http"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// GetManifest reads what the snapshot digest is the SHA-256 of.
func (s *server) GetManifest(ctx context.Context, request api.GetManifestRequestObject) (api.GetManifestResponseObject, error) {
	return s.manifest(ctx, coordinator.Ref{Job: jobOf(request.Params.Job), ID: int64(request.ID)})
}

// GetLatestManifest does so for the latest completed checkpoint.
func (s *server) GetLatestManifest(ctx context.Context, request api.GetLatestManifestRequestObject) (api.GetLatestManifestResponseObject, error) {
	return s.manifest(ctx, latestOf(request.Params.Job))
}

func (s *server) manifest(ctx context.Context, ref coordinator.Ref) (manifestAnswer, error) {
	restore, err := s.coordinator.OpenManifest(ctx, coordinator.RestoreRequest{Ref: ref})
	if err != nil {
		return manifestAnswer{}, err
	}
	defer restore.Close()
	return manifestAnswer{id: restore.Checkpoint().ID, tag: restore.Digest(), parts: restore.Parts()}, nil
}

// manifestAnswer writes a manifest line by line: 100 001 lines of a kilobyte are not to
// be in memory twice.
type manifestAnswer struct {
	id    int64
	tag   string
	parts []coordinator.ManifestPart
}

func (a manifestAnswer) size() int { return len(a.parts) * partMemory }

// VisitGetManifestResponse writes the text.
func (a manifestAnswer) VisitGetManifestResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitGetLatestManifestResponse writes the text.
func (a manifestAnswer) VisitGetLatestManifestResponse(w http.ResponseWriter) error {
	return a.write(w)
}

func (a manifestAnswer) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", mediaText+"; charset=utf-8")
	w.Header().Set("ETag", quoted(a.tag))
	nameCheckpoint(w, a.id)
	text := bufio.NewWriterSize(w, 32<<10)
	for i := range a.parts {
		if _, err := text.Write(coordinator.AppendManifest(text.AvailableBuffer(), a.parts[i:i+1])); err != nil {
			return fmt.Errorf("writing a manifest: %w", err)
		}
	}
	return text.Flush() //nolint:wrapcheck // It goes to refuse, which breaks the connection off.
}
