//go:build unix

package doors_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/checkpointd/checkpointd/internal/doors"
)

func TestAPipeInThePlaceOfAFileIsRefusedAtOnceAndWhatWasReadHoldsOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, target := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "of-a-secret.json")
	write(t, target, `{"tokens":[{"name":"a","sha256":"`+hashOf("secret-a")+`","roles":["ack"]}]}`)
	replace := func(put func() error) {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
	pipe := func() error { return syscall.Mkfifo(path, 0o600) } // nobody ever writes into it
	link := func(to string) func() error { return func() error { return os.Symlink(to, path) } }

	replace(pipe)
	if _, err := doors.OpenTokens(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Fatalf("a pipe at the start: %v", err)
	}
	replace(link(target))
	known, err := doors.OpenTokens(path)
	if err != nil {
		t.Fatalf("a link to a file: %v", err)
	}
	for what, put := range map[string]func() error{
		"a pipe": pipe, "a folder": func() error { return os.Mkdir(path, 0o700) }, "a device": link("/dev/zero"), "a link to nothing": link("nowhere"),
	} {
		replace(put)
		if changed, err := known.Reload(); !changed || err == nil || known.Broken() == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v", what, changed, err)
		}
		if known.Caller(with("secret-a")) == nil {
			t.Errorf("%s: what was read before does not hold", what)
		}
		replace(link(target))
		if _, err := known.Reload(); err != nil || known.Broken() != nil {
			t.Errorf("the file again after %s: %v", what, err)
		}
	}
}
