package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// GetSharedEntry reads one shared entry by the key in the path.
func (s *server) GetSharedEntry(ctx context.Context, request api.GetSharedEntryRequestObject) (api.GetSharedEntryResponseObject, error) {
	return s.readEntry(ctx, coordinator.Ref{Job: jobOf(request.Params.Job), ID: int64(request.ID)}, request.Key, request.Params.Type)
}

// GetSharedEntryByKey reads one shared entry by the key in the query.
func (s *server) GetSharedEntryByKey(ctx context.Context, request api.GetSharedEntryByKeyRequestObject) (api.GetSharedEntryByKeyResponseObject, error) {
	return s.readEntry(ctx, coordinator.Ref{Job: jobOf(request.Params.Job), ID: int64(request.ID)}, request.Params.Key, request.Params.Type)
}

// GetLatestSharedEntry reads one of the latest completed checkpoint by the key in the path.
func (s *server) GetLatestSharedEntry(ctx context.Context, request api.GetLatestSharedEntryRequestObject) (api.GetLatestSharedEntryResponseObject, error) {
	return s.readEntry(ctx, latestOf(request.Params.Job), request.Key, request.Params.Type)
}

// GetLatestSharedEntryByKey reads one of the latest completed checkpoint by the key in the
// query.
func (s *server) GetLatestSharedEntryByKey(
	ctx context.Context, request api.GetLatestSharedEntryByKeyRequestObject,
) (api.GetLatestSharedEntryByKeyResponseObject, error) {
	return s.readEntry(ctx, latestOf(request.Params.Job), request.Params.Key, request.Params.Type)
}

func (s *server) readEntry(ctx context.Context, ref coordinator.Ref, key string, want *api.ValueType) (entryAnswer, error) {
	entry, err := s.coordinator.SharedEntry(ctx, ref, key)
	if err != nil {
		return entryAnswer{}, err
	}
	if want != nil {
		if entry.Value, err = snapshot.Convert(entry.Value, string(*want)); err != nil {
			return entryAnswer{}, typeMismatch(key, err)
		}
	}
	return entryAnswer{entry: entry, latest: ref.ID == coordinator.Latest}, nil
}

func typeMismatch(key string, err error) error {
	mismatch, ok := errors.AsType[*snapshot.TypeError](err)
	if !ok {
		return err
	}
	return &coordinator.Error{
		Code: coordinator.CodeTypeMismatch,
		Detail: fmt.Sprintf("The value of key %q is of type %s and cannot be read as %s: %s. Leave ?type= out to read it as it is.",
			key, mismatch.Actual, mismatch.Wanted, mismatch.Detail),
	}
}

// entryAnswer is the bare value of an entry.
type entryAnswer struct {
	entry coordinator.SharedValue
	// latest names the checkpoint in a header.
	latest bool
}

func (a entryAnswer) size() int { return len(a.entry.Value) }

// VisitGetSharedEntryResponse writes the value.
func (a entryAnswer) VisitGetSharedEntryResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitGetSharedEntryByKeyResponse writes the value.
func (a entryAnswer) VisitGetSharedEntryByKeyResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitGetLatestSharedEntryResponse writes the value.
func (a entryAnswer) VisitGetLatestSharedEntryResponse(w http.ResponseWriter) error {
	return a.write(w)
}

// VisitGetLatestSharedEntryByKeyResponse writes the value.
func (a entryAnswer) VisitGetLatestSharedEntryByKeyResponse(w http.ResponseWriter) error {
	return a.write(w)
}

func (a entryAnswer) write(w http.ResponseWriter) error {
	w.Header().Set("ETag", quoted(a.entry.Tag))
	if a.latest {
		nameCheckpoint(w, a.entry.Checkpoint.ID)
	}
	return writeBytes(w, mediaJSON, a.entry.Value)
}

// PutSharedEntry stores one shared entry by the key in the path.
func (s *server) PutSharedEntry(ctx context.Context, request api.PutSharedEntryRequestObject) (api.PutSharedEntryResponseObject, error) {
	params := request.Params
	written, err := s.putEntry(ctx, params.Job, request.ID, request.Key, *request.Body, params.IfMatch, params.IfNoneMatch)
	if err == nil && written.Created {
		return api.PutSharedEntry201Response{Headers: api.SharedEntryCreatedResponseHeaders{ETag: quoted(written.Tag)}}, nil
	}
	return api.PutSharedEntry204Response{Headers: api.SharedEntryReplacedResponseHeaders{ETag: quoted(written.Tag)}}, err
}

// PutSharedEntryByKey stores one shared entry by the key in the query.
func (s *server) PutSharedEntryByKey(ctx context.Context, request api.PutSharedEntryByKeyRequestObject) (api.PutSharedEntryByKeyResponseObject, error) {
	params := request.Params
	written, err := s.putEntry(ctx, params.Job, request.ID, params.Key, *request.Body, params.IfMatch, params.IfNoneMatch)
	if err == nil && written.Created {
		return api.PutSharedEntryByKey201Response{Headers: api.SharedEntryCreatedResponseHeaders{ETag: quoted(written.Tag)}}, nil
	}
	return api.PutSharedEntryByKey204Response{Headers: api.SharedEntryReplacedResponseHeaders{ETag: quoted(written.Tag)}}, err
}

func (s *server) putEntry(
	ctx context.Context, job *string, id api.ID, key string, raw []byte, ifMatch, ifNoneMatch *string,
) (coordinator.SharedWritten, error) {
	write, err := sharedWriteOf(job, id, coordinator.SharedPut, ifMatch, ifNoneMatch)
	if err != nil {
		return coordinator.SharedWritten{}, err
	}
	value, err := snapshot.Canonical(raw)
	if err != nil {
		return coordinator.SharedWritten{}, stateRefusal("", err)
	}
	write.Entries, write.Single = []coordinator.SharedEntry{{Key: key, Value: value}}, true
	return s.coordinator.WriteShared(ctx, write)
}

// DeleteSharedEntry removes one shared entry by the key in the path.
func (s *server) DeleteSharedEntry(ctx context.Context, request api.DeleteSharedEntryRequestObject) (api.DeleteSharedEntryResponseObject, error) {
	return api.DeleteSharedEntry204Response{}, s.deleteEntry(ctx, request.Params.Job, request.ID, request.Key, request.Params.IfMatch)
}

// DeleteSharedEntryByKey removes one shared entry by the key in the query.
func (s *server) DeleteSharedEntryByKey(
	ctx context.Context, request api.DeleteSharedEntryByKeyRequestObject,
) (api.DeleteSharedEntryByKeyResponseObject, error) {
	return api.DeleteSharedEntryByKey204Response{}, s.deleteEntry(ctx, request.Params.Job, request.ID, request.Params.Key, request.Params.IfMatch)
}

func (s *server) deleteEntry(ctx context.Context, job *string, id api.ID, key string, ifMatch *string) error {
	write, err := sharedWriteOf(job, id, coordinator.SharedDelete, ifMatch, nil)
	if err != nil {
		return err
	}
	write.Entries, write.Single = []coordinator.SharedEntry{{Key: key}}, true
	_, err = s.coordinator.WriteShared(ctx, write)
	return err
}
