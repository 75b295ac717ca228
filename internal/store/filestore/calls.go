package filestore

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Verbs of calls that are remembered.
const (
	verbTrigger = "trigger"
	verbRecover = "recover"
)

// How long a call is remembered after its last use, in ms.
const (
	keyKeptMs   = int64(24 * time.Hour / time.Millisecond)
	tokenKeptMs = int64(10 * time.Minute / time.Millisecond)
)

// remembered is what a call did, kept apart from the checkpoint and longer than it.
type remembered struct {
	Fingerprint string `json:"fingerprint,omitempty"`
	// Token is that of the call that did it; any other call is a repeat.
	Token string `json:"token,omitempty"`
	// ID is the checkpoint; noCheckpoint where a recovery found none.
	ID int64 `json:"id"`
	// Epoch and Ended are a recovery's.
	Epoch   int64   `json:"epoch,omitempty"`
	Ended   []int64 `json:"ended,omitempty"`
	Expires int64   `json:"expires"`
}

const noCheckpoint = -1

// madeBy tells whether this very call did it, and only its reply was lost.
func (r *remembered) madeBy(call coordinator.Idempotency) bool {
	return call.Token != "" && r.Token == call.Token
}

// callKey is where a call is remembered: under its Idempotency-Key, else under its token;
// nil for a call with neither. Names are hashed since they may be 255 bytes of anything.
func callKey(verb string, call coordinator.Idempotency) (key []byte, keptMs int64) {
	kind, name, keptMs := "key", call.Key, keyKeptMs
	if name == "" {
		kind, name, keptMs = "token", call.Token, tokenKeptMs
	}
	if name == "" {
		return nil, 0
	}
	return fmt.Appendf(nil, "%s %s %x", verb, kind, sha256.Sum256([]byte(name))), keptMs
}

// recall finds what a call did before; nil when it is new. A hit is remembered for its
// full time again. Error: CodeIdempotencyKeyReused.
func (s *step) recall(j *job, verb string, call coordinator.Idempotency) (*remembered, error) {
	key, keptMs := callKey(verb, call)
	text := get(child(j.b, bucketCalls), key)
	if key == nil || text == nil {
		return nil, nil //nolint:nilnil // A new call is no error.
	}
	known := new(remembered)
	if err := decode(text, known); err != nil {
		// It may have done what this call asks for, so doing it again could be once too often.
		err = fmt.Errorf("read what the call with this key did: %w", err)
		j.unreadable(j.name, noCheckpoint, err)
		return nil, coordinator.ErrInternal(err)
	}
	if known.Expires < s.now {
		return nil, nil //nolint:nilnil // It is forgotten.
	}
	if call.Key != "" && known.Fingerprint != call.Fingerprint {
		return nil, coordinator.ErrIdempotencyKeyReused()
	}
	s.keep(j, key, known, s.now+keptMs)
	return known, nil
}

// remember keeps what a new call did.
func (s *step) remember(j *job, verb string, call coordinator.Idempotency, did remembered) {
	key, keptMs := callKey(verb, call)
	if key == nil {
		return
	}
	did.Fingerprint, did.Token = call.Fingerprint, call.Token
	var before remembered
	if text := get(child(j.b, bucketCalls), key); text != nil && decode(text, &before) == nil {
		did.Expires = before.Expires // one that is over and not swept yet
	}
	s.keep(j, key, &did, s.now+keptMs)
}

// keep writes a remembered call and its place in the index of expiries.
func (s *step) keep(j *job, key []byte, r *remembered, expires int64) {
	s.delete(child(j.b, bucketCallExpiries), timeKey(r.Expires, key))
	r.Expires = expires
	s.putJSON(s.bucket(j.b, bucketCalls), key, r)
	s.put(s.bucket(j.b, bucketCallExpiries), timeKey(expires, key), present)
}

// forgetCalls forgets at most limit calls whose time is over, and tells whether there
// may be more.
func (s *step) forgetCalls(j *job, limit int) (more bool) {
	var over [][]byte
	for k := range ascend(child(j.b, bucketCallExpiries), nil) {
		if idOf(k) >= s.now || len(over) == limit {
			break
		}
		over = append(over, bytes.Clone(k))
	}
	for _, k := range over {
		s.delete(child(j.b, bucketCallExpiries), k)
		s.delete(child(j.b, bucketCalls), k[len(idKey(0)):])
	}
	return len(over) == limit
}
