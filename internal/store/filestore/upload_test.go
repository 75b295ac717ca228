package filestore

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func begin(t *testing.T, s *Store, id int64, task string, content []byte) coordinator.Upload {
	t.Helper()
	upload, err := s.BeginUpload(t.Context(), coordinator.UploadCall{Job: coordinator.DefaultJob, ID: id, TaskID: task})
	if err != nil {
		t.Fatalf("begin upload: %v", err)
	}
	for index := 0; index*coordinator.ChunkBytes < len(content); index++ {
		chunk := content[index*coordinator.ChunkBytes : min(len(content), (index+1)*coordinator.ChunkBytes)]
		if err := upload.WriteChunk(t.Context(), index, chunk); err != nil {
			t.Fatalf("write chunk: %v", err)
		}
	}
	return upload
}

func commitUpload(t *testing.T, upload coordinator.Upload, content []byte) error {
	t.Helper()
	info := coordinator.PartInfo{Entries: 1, Bytes: int64(len(content)), Digest: digestOf(content)}
	_, err := upload.Commit(t.Context(), coordinator.CommitCall{Part: info})
	return err
}

func TestUpload(t *testing.T) {
	t.Parallel()

	t.Run("a file is made only for what is larger than the database takes", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openIn(t, dir, Options{})
		id := trigger(t, s, 3)
		for task, size := range map[string]int{"empty": 0, "full": InlineBytes, "large": InlineBytes + 1} {
			content := bytes.Repeat([]byte("p"), size)
			if err := commitUpload(t, begin(t, s, id, task, content), content); err != nil {
				t.Fatalf("commit of %d bytes: %v", size, err)
			}
			acknowledge(t, s, id, task, nil)
		}
		if files := names(t, dir); len(files) != 1 {
			t.Errorf("files = %v, want one", files)
		}
		if got := restored(t, s, id, 0); len(got) != 2*InlineBytes+1 {
			t.Errorf("restored %d bytes", len(got))
		}
	})

	t.Run("an upload that shows no sign of life is given up, one that does is not", func(t *testing.T) {
		t.Parallel()
		var now atomic.Int64
		now.Store(1_000_000)
		dir := t.TempDir()
		s := openIn(t, dir, Options{Clock: now.Load})
		id := trigger(t, s, 2)
		content := bytes.Repeat([]byte("p"), InlineBytes+1)
		silent, alive := begin(t, s, id, "silent", content), begin(t, s, id, "alive", content)
		now.Add(uploadLeaseMs)
		if err := alive.Check(t.Context()); err != nil {
			t.Fatalf("check: %v", err)
		}
		now.Add(1)
		if err := s.Sweep(t.Context(), coordinator.SweepCall{}); err != nil {
			t.Fatalf("sweep: %v", err)
		}
		if files := names(t, dir); len(files) != 1 {
			t.Errorf("files = %v, want that of the living one", files)
		}
		if err := commitUpload(t, silent, content); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
			t.Errorf("commit of the silent one: %v", err)
		}
		if err := commitUpload(t, alive, content); err != nil {
			t.Errorf("commit of the living one: %v", err)
		}
	})

	t.Run("a commit of other bytes than were written is refused and leaves nothing", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openIn(t, dir, Options{})
		id := trigger(t, s, 1)
		content := bytes.Repeat([]byte("p"), InlineBytes+1)
		upload := begin(t, s, id, "task-1", content[:InlineBytes])
		if err := commitUpload(t, upload, content); coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
			t.Errorf("commit: %v", err)
		}
		if err := upload.Discard(t.Context()); err != nil {
			t.Errorf("discard: %v", err)
		}
		if findings := append(audit(t, s), names(t, dir)...); len(findings) > 0 {
			t.Errorf("left behind: %v", findings)
		}
	})

	t.Run("large parts of refused acknowledgements leave no files", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openIn(t, dir, Options{})
		id := trigger(t, s, 1)
		large := content(bytes.Repeat([]byte("p"), InlineBytes+1))
		result, err := s.Acknowledge(t.Context(), coordinator.AckCall{Job: coordinator.DefaultJob, ID: id, Items: []coordinator.AckItem{
			{TaskID: "task-1", Part: large, Digest: coordinator.EmptyDigest},
			{TaskID: "task-1", Part: large},
			{TaskID: "task-2", Part: large},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []coordinator.AckStatus{coordinator.AckRefused, coordinator.AckAccepted, coordinator.AckRefused} {
			if got := result.Outcomes[i].Outcome; got != want {
				t.Errorf("item %d is %s, want %s", i, got, want)
			}
		}
		if err := s.Sweep(t.Context(), coordinator.SweepCall{}); err != nil {
			t.Fatal(err)
		}
		if files := names(t, dir); len(files) != 1 {
			t.Errorf("files = %v, want one", files)
		}
		if findings := audit(t, s); len(findings) > 0 {
			t.Error(findings)
		}
	})
}

func TestWhatIsDeletedWhileItsRestoreOpensIsNotDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openIn(t, dir, Options{})
	id := trigger(t, s, 1)
	content := bytes.Repeat([]byte("p"), InlineBytes+1)
	if err := commitUpload(t, begin(t, s, id, "large", content), content); err != nil {
		t.Fatal(err)
	}
	acknowledge(t, s, id, "large", nil)
	r := &restore{store: s, call: coordinator.RestoreCall{Ref: coordinator.Ref{Job: coordinator.DefaultJob, ID: id}}}
	if _, err := read(t.Context(), s, func(st *step) (struct{}, error) { return struct{}{}, r.readManifest(st) }); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "parts", names(t, dir)[0])); err != nil {
		t.Fatal(err)
	}
	damage := r.checkFiles()
	if got := r.unlessDeleted(t.Context(), damage); coordinator.CodeOf(got) != coordinator.CodeSnapshotDamaged {
		t.Errorf("a checkpoint without its file: %v", got)
	}
	if err := s.Delete(t.Context(), coordinator.DeleteCall{Job: coordinator.DefaultJob, ID: id}); err != nil {
		t.Fatal(err)
	}
	if got := r.unlessDeleted(t.Context(), damage); coordinator.CodeOf(got) != coordinator.CodeCheckpointDeleted {
		t.Errorf("a checkpoint that was deleted with its file: %v", got)
	}
}
