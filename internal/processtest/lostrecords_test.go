package processtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refusedStart starts a server that must not, and gives the one line that it says.
func refusedStart(t *testing.T, dir string) string {
	t.Helper()
	p := launch(t, "--listen", "127.0.0.1:0", "--data", dir)
	if code := p.exitCode(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	said := p.log.tail(100)
	if strings.Contains(said, "\n") || !strings.HasPrefix(said, "checkpointd: ") || !strings.Contains(said, dir) {
		t.Errorf("want one line that names %s, got\n%s", dir, said)
	}
	return said
}

// recorded gives a directory that a server left with a completed checkpoint of one large part.
func recorded(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	p := serve(t, place{flags: []string{"--data", dir}})
	part := newLargePart(1 << 20)
	id := p.trigger(t, "")
	upload := newRequest("PUT", p.url+at(id, "/tasks/task-1/state?ack=true"), "", "Content-Type", typeNDJSON)
	upload.body = part.lines("")
	if got, err := upload.send(t.Context()); err != nil || got.status != 200 {
		t.Fatal(got, err)
	}
	p.kill()
	return dir
}

// files are the names in parts/.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "parts"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return strings.Join(all, " ")
}

func TestAServerWhoseRecordsAreGoneDoesNotStartAndDeletesNothing(t *testing.T) {
	t.Parallel()
	dir := recorded(t)
	meta := filepath.Join(dir, "meta.db")
	before := files(t, dir)
	if before == "" {
		t.Fatal("the part has no file")
	}
	whole, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range []struct {
		what string
		lose func() error
		says string
	}{
		{"empty", func() error { return os.Truncate(meta, 0) }, "restore meta.db from a backup, or move parts/ away"},
		{"half", func() error { return os.WriteFile(meta, whole[:len(whole)/2], 0o600) }, "is damaged"},
		{"5000 bytes long", func() error { return os.WriteFile(meta, whole[:5000], 0o600) }, "is damaged"},
		{"missing", func() error { return os.Remove(meta) }, "restore meta.db from a backup, or move parts/ away"},
	} {
		if err := lost.lose(); err != nil {
			t.Fatal(err)
		}
		if said := refusedStart(t, dir); !strings.Contains(said, lost.says) {
			t.Errorf("%s: it does not say %q: %s", lost.what, lost.says, said)
		}
		same(t, "parts/ after a start with a meta.db that is "+lost.what, files(t, dir), before)
	}
	if err := os.WriteFile(meta, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, place{flags: []string{"--data", dir}})
	if got := p.must(t, 200, "GET", "/checkpoints/latest/restore", ""); len(got.body) < 1<<20 {
		t.Errorf("restored %d bytes once meta.db was back", len(got.body))
	}
}
