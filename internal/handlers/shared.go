package handlers

import (
	"context"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// GetSharedState reads the whole shared state.
func (s *server) GetSharedState(ctx context.Context, request api.GetSharedStateRequestObject) (api.GetSharedStateResponseObject, error) {
	state, err := s.coordinator.SharedState(ctx, coordinator.Ref{Job: jobOf(request.Params.Job), ID: int64(request.ID)})
	return sharedStateAnswer{state: state}, err
}

// GetLatestSharedState reads that of the latest completed checkpoint.
func (s *server) GetLatestSharedState(ctx context.Context, request api.GetLatestSharedStateRequestObject) (api.GetLatestSharedStateResponseObject, error) {
	state, err := s.coordinator.SharedState(ctx, latestOf(request.Params.Job))
	return sharedStateAnswer{state: state, latest: true}, err
}

// sharedStateAnswer is the document of a shared state. It writes the values as they are
// stored: an encoder would rewrite some of their bytes.
type sharedStateAnswer struct {
	state coordinator.SharedState
	// latest names the checkpoint in a header.
	latest bool
}

// size is that of the values and of the document that is made of them.
func (a sharedStateAnswer) size() int {
	sum := 0
	for _, entry := range a.state.Entries {
		sum += len(entry.Key) + len(entry.Value)
	}
	return 2 * sum
}

// VisitGetSharedStateResponse writes the document.
func (a sharedStateAnswer) VisitGetSharedStateResponse(w http.ResponseWriter) error {
	return a.write(w)
}

// VisitGetLatestSharedStateResponse writes the document.
func (a sharedStateAnswer) VisitGetLatestSharedStateResponse(w http.ResponseWriter) error {
	return a.write(w)
}

func (a sharedStateAnswer) write(w http.ResponseWriter) error {
	checkpoint := a.state.Checkpoint
	w.Header().Set("ETag", quoted(checkpoint.SharedTag()))
	if a.latest {
		nameCheckpoint(w, checkpoint.ID)
	}
	version := coordinator.SnapshotVersion
	if checkpoint.Completed() {
		version = checkpoint.SnapshotVersion
	}
	document := strconv.AppendInt([]byte(`{"version":`), int64(version), 10)
	document = append(document, `,"status":"`+string(checkpoint.Status)+`","state":{`...)
	for i, entry := range a.state.Entries {
		document = appendMember(document, i, entry.Key, entry.Value)
	}
	return writeBytes(w, mediaJSON, append(document, "}}\n"...))
}

// appendMember appends member number i of an object; the value is JSON as it stands.
func appendMember[S string | []byte](dst []byte, i int, name S, value []byte) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst, _ = jsontext.AppendQuote(dst, name) // the error is invalid UTF-8, which no stored name has
	dst = append(dst, ':')
	return append(dst, value...)
}

// PatchSharedState replaces the named entries.
func (s *server) PatchSharedState(ctx context.Context, request api.PatchSharedStateRequestObject) (api.PatchSharedStateResponseObject, error) {
	write, err := sharedWriteOf(request.Params.Job, request.ID, coordinator.SharedPut, request.Params.IfMatch, nil)
	if err != nil {
		return nil, err
	}
	members, err := snapshot.Object(request.Body.State)
	if err != nil {
		return nil, stateRefusal("/state", err)
	}
	for _, member := range members {
		write.Entries = append(write.Entries, coordinator.SharedEntry{Key: member.Name, Value: member.Value})
	}
	written, err := s.coordinator.WriteShared(ctx, write)
	return api.PatchSharedState204Response{Headers: api.SharedStateWrittenResponseHeaders{ETag: quoted(written.Tag)}}, err
}

// ClearSharedState removes every entry.
func (s *server) ClearSharedState(ctx context.Context, request api.ClearSharedStateRequestObject) (api.ClearSharedStateResponseObject, error) {
	write, err := sharedWriteOf(request.Params.Job, request.ID, coordinator.SharedClear, request.Params.IfMatch, nil)
	if err != nil {
		return nil, err
	}
	written, err := s.coordinator.WriteShared(ctx, write)
	return api.ClearSharedState204Response{Headers: api.SharedStateWrittenResponseHeaders{ETag: quoted(written.Tag)}}, err
}

// sharedWriteOf is what all writes of shared state have in common.
func sharedWriteOf(job *string, id api.ID, op coordinator.SharedOp, ifMatch, ifNoneMatch *string) (coordinator.SharedWrite, error) {
	condition, err := precondition(ifMatch, ifNoneMatch)
	return coordinator.SharedWrite{Job: jobOf(job), ID: int64(id), Op: op, If: condition}, err
}
