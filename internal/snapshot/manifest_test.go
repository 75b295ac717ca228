package snapshot_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestManifestDigestIsThatOfItsText(t *testing.T) {
	t.Parallel()
	shared := snapshot.Part{Entries: 2, Bytes: 40, Digest: "sha256:aa"}
	first := snapshot.Part{Entries: 0, Bytes: 0, Digest: snapshot.EmptyDigest}
	second := snapshot.Part{Entries: 9007199254740993, Bytes: 4 << 30, Digest: "bb"}

	m := snapshot.NewManifest()
	text := string(m.Add(snapshot.Shared, shared))
	text += string(m.Add("a b", first))
	text += string(m.Add("task-é", second))

	const want = "aa 40 2 -\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 0 a b\n" +
		"bb 4294967296 9007199254740993 task-é\n"
	if text != want {
		t.Errorf("got  %swant %s", text, want)
	}
	sum := sha256.Sum256([]byte(want))
	total := snapshot.Part{Entries: 9007199254740995, Bytes: 4294967336, Digest: "sha256:" + hex.EncodeToString(sum[:])}
	if got := m.Total(); got != total {
		t.Errorf("got %+v, want %+v", got, total)
	}
	if got := m.Total(); got != total {
		t.Errorf("asked again: got %+v", got)
	}
}

func TestManifestOfNothingHasTheEmptyDigest(t *testing.T) {
	t.Parallel()
	if got, want := snapshot.NewManifest().Total(), (snapshot.Part{Digest: snapshot.EmptyDigest}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
