//go:build unix

package snapshot_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestCanonicalRefusesWhatItCannotAddress(t *testing.T) {
	t.Parallel()
	// Mapped but hardly touched, so it costs address space and no memory.
	huge, err := syscall.Mmap(-1, 0, 2<<30, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(huge); err != nil {
			t.Error(err)
		}
	})
	for range 100 { // scanners are kept for the next value, so most of them get one that stopped inside an object
		if _, err := snapshot.Canonical([]byte(`{"kept":[{"open":`)); err == nil {
			t.Fatal("half a value passed")
		}
	}
	_, err = snapshot.Canonical(huge)
	var syntax *snapshot.SyntaxError
	if !errors.As(err, &syntax) || syntax.Detail != "the value is longer than 2 GiB" {
		t.Errorf("got %v", err)
	}
}
