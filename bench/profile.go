package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profile takes a CPU profile of the server while a load is measured, if that is wanted and
// there is a server. The result waits until it is written.
func (b *bench) profile(ctx context.Context, s *system, name string) (wait func() error) {
	address := s.addresses[profilesName]
	if address == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		// It begins with the measurement and ends a little before it.
		seconds := max(1, int(b.duration.Seconds()))
		data, err := b.call(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, seconds), nil)
		if err == nil {
			file := strings.NewReplacer(", ", "-", " ", "-").Replace(name) + ".pprof"
			err = os.WriteFile(filepath.Join(b.profiles, file), data, 0o600)
		}
		if err != nil {
			err = fmt.Errorf("taking a profile: %w", err)
		}
		done <- err
	}()
	return func() error { return <-done }
}
