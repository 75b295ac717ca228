package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// occupyBulks takes all that may be on their way at a time, until the returned function.
func occupyBulks(t *testing.T, s *Store) (leave func()) {
	t.Helper()
	var all []func()
	for range bulkCalls {
		done, err := s.bulk(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, done)
	}
	return func() {
		for _, done := range all {
			done()
		}
	}
}

// Uploads of others must not make the time of a chunk run out, nor hold up an
// acknowledgement.
func TestAChunkThatWaitsForOthersKeepsItsTimeAndAcknowledgementsPassIt(t *testing.T) {
	t.Parallel()
	l := uploadLab(t)
	s := l.store()
	leave := occupyBulks(t, s)
	upload, err := s.BeginUpload(t.Context(), coordinator.UploadCall{Job: "orders", ID: 7, TaskID: "a", Token: "up", Attempt: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := upload.WriteChunk(t.Context(), 0, []byte("bytes")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Acknowledge(t.Context(), coordinator.AckCall{Job: "orders", ID: 7, Items: []coordinator.AckItem{{TaskID: "b"}}, Token: "ack"})
	if err != nil {
		t.Errorf("an acknowledgement beside the uploads: %v", err)
	}
	<-time.After(callBudget + callBudget/4) // longer than any chunk may take
	leave()
	var read [5]byte
	if err := upload.ReadAt(t.Context(), read[:], 0); err != nil || string(read[:]) != "bytes" {
		t.Errorf("the chunk that waited is %q (%v)", read, err)
	}
}

func TestWaitingForOthersEndsWithTheContext(t *testing.T) {
	t.Parallel()
	l := uploadLab(t)
	s := l.store()
	defer occupyBulks(t, s)()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	if err := s.fetchRange(ctx, "key", make([]byte, 1), 0); err == nil {
		t.Error("it read without its turn")
	}
}
